// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/records.cpp
#include "cpu/cupti/records.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cpu/cupti/activity.hpp"
#include "cpu/cupti/ids.hpp"

namespace cucpu::cupti {
namespace {

using trace::Work;
using Place = Work::Place;

/// Names in records live as long as the process.
const char* keep(const std::string& name) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& names = *new std::set<std::string>;
  const std::lock_guard lock{mutex};
  return names.insert(name).first->c_str();
}

std::uint32_t process_id() { return static_cast<std::uint32_t>(getpid()); }

std::uint32_t id32(std::uint64_t id) { return static_cast<std::uint32_t>(id); }

CUpti_ActivityMemoryKind memory_kind(Place place) {
  switch (place) {
    case Place::pageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    case Place::pinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case Place::device:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case Place::array:
      return CUPTI_ACTIVITY_MEMORY_KIND_ARRAY;
    case Place::managed:
      return CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
    default:
      return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
  }
}

/// Managed memory counts as memory of the device.
CUpti_ActivityMemcpyKind copy_kind(Place from, Place to) {
  const auto side = [](Place place) {
    return place == Place::pageable || place == Place::pinned ? 'H'
           : place == Place::array                            ? 'A'
                                                              : 'D';
  };
  static const std::map<std::string_view, CUpti_ActivityMemcpyKind> kinds{
      {"HD", CUPTI_ACTIVITY_MEMCPY_KIND_HTOD}, {"DH", CUPTI_ACTIVITY_MEMCPY_KIND_DTOH},
      {"HA", CUPTI_ACTIVITY_MEMCPY_KIND_HTOA}, {"AH", CUPTI_ACTIVITY_MEMCPY_KIND_ATOH},
      {"AA", CUPTI_ACTIVITY_MEMCPY_KIND_ATOA}, {"AD", CUPTI_ACTIVITY_MEMCPY_KIND_ATOD},
      {"DA", CUPTI_ACTIVITY_MEMCPY_KIND_DTOA}, {"DD", CUPTI_ACTIVITY_MEMCPY_KIND_DTOD},
      {"HH", CUPTI_ACTIVITY_MEMCPY_KIND_HTOH},
  };
  const char key[] = {side(from), side(to)};
  return kinds.at({key, 2});
}

template <class Record>
void set_place(Record& record, const Work& work) {
  record.start = timestamp(work.begin);
  record.end = timestamp(work.end);
  record.deviceId = static_cast<std::uint32_t>(work.device);
  record.contextId = id32(work.context);
  record.streamId = id32(work.stream);
  record.correlationId = work.correlation;
}

void add_kernel(const Work& work, CUpti_ActivityKind kind) {
  static std::atomic<std::int64_t> grids{0};
  CUpti_ActivityKernel13 record{};
  record.kind = kind;
  set_place(record, work);
  record.completed = record.end;
  record.registersPerThread = static_cast<std::uint16_t>(work.registers);
  const auto extent = [](std::uint32_t n) { return static_cast<std::int32_t>(n); };
  record.gridX = extent(work.grid[0]);
  record.gridY = extent(work.grid[1]);
  record.gridZ = extent(work.grid[2]);
  record.blockX = extent(work.block[0]);
  record.blockY = extent(work.block[1]);
  record.blockZ = extent(work.block[2]);
  record.clusterX = work.cluster[0];
  record.clusterY = work.cluster[1];
  record.clusterZ = work.cluster[2];
  record.staticSharedMemory = extent(work.static_shared);
  record.dynamicSharedMemory = extent(work.dynamic_shared);
  record.sharedMemoryExecuted = work.static_shared + work.dynamic_shared;
  record.localMemoryPerThread = work.local_bytes;
  std::uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) threads *= std::uint64_t{work.grid[axis]} * work.block[axis];
  record.localMemoryTotal_v2 = threads * work.local_bytes;
  record.localMemoryTotal = id32(record.localMemoryTotal_v2);
  record.gridId = ++grids;
  record.name = keep(work.name);
  record.channelID = CUPTI_INVALID_CHANNEL_ID;
  record.executionModel = CUPTI_FUNC_EXECUTION_MODEL_SIMT;
  Activities::instance().add(record);
}

void add_copy(const Work& work) {
  CUpti_ActivityMemcpy7 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  set_place(record, work);
  record.copyKind = static_cast<std::uint8_t>(copy_kind(work.source, work.destination));
  record.srcKind = static_cast<std::uint8_t>(memory_kind(work.source));
  record.dstKind = static_cast<std::uint8_t>(memory_kind(work.destination));
  record.flags = work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.bytes = work.bytes;
  record.channelID = CUPTI_INVALID_CHANNEL_ID;
  record.copyCount = 1;
  Activities::instance().add(record);
}

void add_fill(const Work& work) {
  CUpti_ActivityMemset5 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set_place(record, work);
  record.value = work.value;
  record.bytes = work.bytes;
  record.flags = work.asynchronous ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.memoryKind = static_cast<std::uint16_t>(memory_kind(work.destination));
  record.channelID = CUPTI_INVALID_CHANNEL_ID;
  Activities::instance().add(record);
}

void add_graph(const Work& work) {
  CUpti_ActivityGraphTrace2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  set_place(record, work);
  record.endDeviceId = record.deviceId;
  record.endContextId = record.contextId;
  Activities::instance().add(record);
}

// ---- what an API call means. Its parameters are those of the driver function.

template <class T>
T parameter(const trace::ApiCall& call, std::size_t offset) {
  T value{};
  const std::byte* const from = static_cast<const std::byte*>(call.parameters) + offset;
  std::memcpy(&value, from, sizeof(T));  // NOLINT(bugprone-sizeof-expression): may be a pointer
  return value;
}

void add_synchronization(const trace::ApiCall& call, CUpti_ActivitySynchronizationType type,
                         std::uint32_t stream) {
  CUpti_ActivitySynchronization2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = type;
  record.start = timestamp(call.begin);
  record.end = timestamp(call.end);
  record.correlationId = call.correlation;
  record.contextId = current_context().id;
  record.streamId = stream;
  record.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.returnValue = static_cast<std::uint32_t>(call.result);
  Activities::instance().add(record);
}

void add_memory(const trace::ApiCall& call, bool allocates, CUpti_ActivityMemoryKind kind,
                std::uint64_t address, std::uint64_t bytes, std::uint32_t stream, bool is_async) {
  // A release does not say how much it releases, nor what.
  struct Block {
    std::uint64_t bytes;
    CUpti_ActivityMemoryKind kind;
  };
  static std::mutex& mutex = *new std::mutex;
  static auto& blocks = *new std::unordered_map<std::uint64_t, Block>;
  {
    const std::lock_guard lock{mutex};
    if (allocates) {
      blocks[address] = {bytes, kind};
    } else if (const auto found = blocks.find(address); found != blocks.end()) {
      bytes = found->second.bytes;
      kind = found->second.kind;
      blocks.erase(found);
    }
  }
  const CurrentContext context = current_context();
  CUpti_ActivityMemory4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  record.memoryOperationType = allocates ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
                                         : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  record.memoryKind = kind;
  record.correlationId = call.correlation;
  record.address = address;
  record.bytes = bytes;
  record.timestamp = timestamp(call.end);
  record.processId = process_id();
  record.deviceId = context.device;
  record.contextId = context.id;
  record.streamId = stream;
  record.isAsync = is_async;
  Activities::instance().add(record);
}

void add_memory_of(const trace::ApiCall& call) {
  if (call.result != CUDA_SUCCESS || !call.parameters) return;
  const std::string_view name = call.function;
  const auto allocation = [&](CUpti_ActivityMemoryKind kind, std::size_t stream_at = 0) {
    const auto* const address = parameter<const std::uint64_t*>(call, 0);
    add_memory(call, true, kind, *address, parameter<std::uint64_t>(call, 8),
               stream_at ? stream_id(parameter<CUstream>(call, stream_at)) : 0, stream_at != 0);
  };
  const auto release = [&](CUpti_ActivityMemoryKind kind, std::size_t stream_at = 0) {
    const auto address = parameter<std::uint64_t>(call, 0);
    if (address != 0)
      add_memory(call, false, kind, address, 0,
                 stream_at ? stream_id(parameter<CUstream>(call, stream_at)) : 0, stream_at != 0);
  };
  if (name == "cuMemAlloc_v2") return allocation(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  if (name == "cuMemAllocManaged") return allocation(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
  if (name == "cuMemAllocHost_v2" || name == "cuMemHostAlloc")
    return allocation(CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  if (name == "cuMemAllocAsync") return allocation(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 16);
  if (name == "cuMemAllocFromPoolAsync") return allocation(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 24);
  if (name == "cuMemFree_v2") return release(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  if (name == "cuMemFreeHost") return release(CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  if (name == "cuMemFreeAsync") return release(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 8);
}

void add_synchronization_of(const trace::ApiCall& call) {
  const std::string_view name = call.function;
  if (name == "cuCtxSynchronize" || name == "cuCtxSynchronize_v2")
    return add_synchronization(call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
                               CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  if (!call.parameters) return;
  const auto stream = [&] { return stream_id(parameter<CUstream>(call, 0)); };
  if (name == "cuStreamSynchronize")
    add_synchronization(call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, stream());
  else if (name == "cuStreamWaitEvent")
    add_synchronization(call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, stream());
  else if (name == "cuEventSynchronize")
    add_synchronization(call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE,
                        CUPTI_SYNCHRONIZATION_INVALID_VALUE);
}

void add_stream_of(const trace::ApiCall& call) {
  const std::string_view name = call.function;
  if (!name.starts_with("cuStreamCreate") || !call.parameters || call.result != CUDA_SUCCESS)
    return;
  CUpti_ActivityStream record{};
  record.kind = CUPTI_ACTIVITY_KIND_STREAM;
  record.contextId = current_context().id;
  record.streamId = stream_id(*parameter<const CUstream*>(call, 0));
  record.priority = name == "cuStreamCreate" ? 0 : parameter<std::uint32_t>(call, 12);
  record.flag = parameter<unsigned>(call, 8) == CU_STREAM_NON_BLOCKING
                    ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                    : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT;
  record.correlationId = call.correlation;
  Activities::instance().add(record);
}

struct Contexts {
  std::mutex mutex;
  std::map<std::uint32_t, CUpti_ActivityContext4> known;  ///< by number
};
Contexts& contexts() {
  static Contexts& all = *new Contexts;
  return all;
}

}  // namespace

std::size_t record_size(CUpti_ActivityKind kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel13);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy7);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset5);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice6);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext4);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    default:
      return 0;
  }
}

void add_record(const trace::Work& work) noexcept try {
  const Activities& activities = Activities::instance();
  const auto wants = [&](CUpti_ActivityKind kind) { return activities.is_enabled(kind); };
  // A graph is recorded as a whole, or node by node.
  const bool whole_graphs = wants(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  if (work.kind == Work::Kind::graph && whole_graphs) return add_graph(work);
  if (work.in_graph && whole_graphs) return;
  if (work.kind == Work::Kind::copy && wants(CUPTI_ACTIVITY_KIND_MEMCPY)) return add_copy(work);
  if (work.kind == Work::Kind::fill && wants(CUPTI_ACTIVITY_KIND_MEMSET)) return add_fill(work);
  if (work.kind != Work::Kind::kernel) return;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL})
    if (wants(kind)) return add_kernel(work, kind);
} catch (...) {  // no memory: the record is lost
}

void add_record(const trace::ApiCall& call, std::uint32_t callback_id) {
  Activities& activities = Activities::instance();
  if (activities.is_recorded(call.is_runtime, callback_id)) {
    add_external_correlations(call.correlation);
    CUpti_ActivityAPI record{};
    record.kind = call.is_runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
    record.cbid = callback_id;
    record.start = timestamp(call.begin);
    record.end = timestamp(call.end);
    record.processId = process_id();
    record.threadId = thread_id();
    record.correlationId = call.correlation;
    record.returnValue = static_cast<std::uint32_t>(call.result);
    activities.add(record);
  }
  if (activities.is_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) add_synchronization_of(call);
  if (activities.is_enabled(CUPTI_ACTIVITY_KIND_MEMORY2)) add_memory_of(call);
  if (activities.is_enabled(CUPTI_ACTIVITY_KIND_STREAM)) add_stream_of(call);
}

bool add_context(const CurrentContext& context, const trace::ApiCall&) {
  if (!context.handle) return false;
  Contexts& all = contexts();
  {
    const std::lock_guard lock{all.mutex};
    if (all.known.contains(context.id)) return false;
  }
  CUpti_ActivityContext4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  record.contextId = context.id;
  record.deviceId = context.device;
  record.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  record.nullStreamId = static_cast<std::uint16_t>(stream_id(CU_STREAM_LEGACY));
  record.processId = process_id();
  {
    const std::lock_guard lock{all.mutex};
    if (!all.known.emplace(context.id, record).second) return false;
  }
  Activities& activities = Activities::instance();
  if (activities.is_enabled(CUPTI_ACTIVITY_KIND_CONTEXT)) activities.add(record);
  return true;
}

void add_existing(CUpti_ActivityKind kind) {
  if (kind != CUPTI_ACTIVITY_KIND_CONTEXT) return;
  const std::lock_guard lock{contexts().mutex};
  for (const auto& [id, record] : contexts().known) Activities::instance().add(record);
}

void add_device_records() {
  const Driver& driver = Driver::instance();
  int count = 0;
  driver.cuDeviceGetCount(&count);
  for (CUdevice device = 0; device < count; ++device) {
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      driver.cuDeviceGetAttribute(&value, which, device);
      return static_cast<std::uint32_t>(value);
    };
    CUpti_ActivityDevice6 record{};
    record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    record.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
    std::size_t memory = 0;
    driver.cuDeviceTotalMem(&memory, device);
    record.globalMemorySize = memory;
    record.constantMemorySize = attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    record.l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    record.numThreadsPerWarp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    record.coreClockRate = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    record.numMemcpyEngines = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    record.numMultiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    record.maxWarpsPerMultiprocessor =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / record.numThreadsPerWarp;
    record.maxBlocksPerMultiprocessor =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    record.maxSharedMemoryPerMultiprocessor =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    record.maxRegistersPerMultiprocessor =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    record.maxRegistersPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    record.maxSharedMemoryPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    record.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    record.maxBlockDimX = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    record.maxBlockDimY = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    record.maxBlockDimZ = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    record.maxGridDimX = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    record.maxGridDimY = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    record.maxGridDimZ = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    record.computeCapabilityMajor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    record.computeCapabilityMinor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    record.id = static_cast<std::uint32_t>(device);
    record.eccEnabled = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
    driver.cuDeviceGetUuid(&record.uuid, device);
    char name[256] = {};
    driver.cuDeviceGetName(name, sizeof name, device);
    record.name = keep(name);
    record.isCudaVisible = 1;
    Activities::instance().add(record);
  }
}

}  // namespace cucpu::cupti
