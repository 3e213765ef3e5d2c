// SPDX-License-Identifier: Apache-2.0
// virtual_memory.cpp: reserves address ranges, and maps and grows memory in them.
#include "cucore/virtual_memory.hpp"

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/blocking_calls.hpp"
#include "core/error_collector.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/device.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "driver/mutex.hpp"

namespace cucore {

using detail::ErrorCollector;

namespace {

/// Owns physical memory. Mappings keep it allocated after it is released.
class Physical {
 public:
  Physical(std::size_t size, const CUmemAllocationProp& properties) : size_{size} {
    CUCORE_CALL(cuMemCreate(&handle_, size, &properties, 0));
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical() {
    if (handle_ != 0 && detail::may_free()) driver().cuMemRelease(handle_);
  }
  void release(ErrorCollector& steps) {
    if (const auto handle = std::exchange(handle_, 0); handle != 0)
      steps.step(driver().cuMemRelease(handle), "cuMemRelease");
  }
  [[nodiscard]] CUmemGenericAllocationHandle handle() const noexcept { return handle_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  std::size_t size_;
};

}  // namespace

/// Owns an address range.
struct VirtualMemoryResource::Reservation {
  Reservation(std::size_t bytes, std::size_t alignment, CUdeviceptr hint) : size{bytes} {
    CUCORE_CALL(cuMemAddressReserve(&ptr, bytes, alignment, hint, 0));
  }
  Reservation(Reservation&& other) noexcept
      : ptr{std::exchange(other.ptr, 0)}, size{std::exchange(other.size, 0)} {}
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation() {
    if (size != 0 && detail::may_free()) driver().cuMemAddressFree(ptr, size);
  }
  void free(ErrorCollector& steps) {
    steps.step(driver().cuMemAddressFree(ptr, std::exchange(size, 0)), "cuMemAddressFree");
  }
  CUdeviceptr ptr = 0;
  std::size_t size;
};

/// Owns a mapping of physical memory in an address range.
struct VirtualMemoryResource::Mapping {
  Mapping(CUdeviceptr at, std::shared_ptr<Physical> mapped) : ptr{at}, memory{std::move(mapped)} {
    CUCORE_CALL(cuMemMap(at, memory->size(), 0, memory->handle(), 0));
  }
  Mapping(Mapping&& other) noexcept : ptr{other.ptr}, memory{std::move(other.memory)} {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory != nullptr && detail::may_free()) driver().cuMemUnmap(ptr, memory->size());
  }
  void unmap(ErrorCollector& steps) {
    const auto going = std::move(memory);
    steps.step(driver().cuMemUnmap(ptr, going->size()), "cuMemUnmap");
    if (going.use_count() == 1) going->release(steps);
  }
  CUdeviceptr ptr;
  std::shared_ptr<Physical> memory;
};

/// The adjacent address ranges of one allocation and the memory mapped there. Memory is unmapped
/// before its addresses are freed: the order of the members matters.
struct VirtualMemoryResource::Allocation {
  std::vector<Reservation> ranges;
  std::vector<Mapping> parts;
  [[nodiscard]] std::size_t size() const {
    std::size_t total = 0;
    for (const Mapping& part : parts) total += part.memory->size();
    return total;
  }
  void destroy(ErrorCollector& steps) {
    const detail::Waiting waiting;  // unmapping waits for queued work, including host functions
    const detail::RelaxedCaptureScope relaxed;
    for (Mapping& part : parts) part.unmap(steps);
    for (Reservation& range : ranges) range.free(steps);
    parts.clear();
    ranges.clear();
  }
  /// Calls `make`. If it throws a CUDAError, frees this allocation and attaches further errors to
  /// it as notes.
  template <class Make>
  void or_release(Make make) {
    try {
      make();
    } catch (CUDAError& error) {
      ErrorCollector steps;
      destroy(steps);
      steps.attach_to(error);
      throw;
    }
  }
};

struct VirtualMemoryResource::Allocations {
  using Map = std::map<CUdeviceptr, Allocation>;
  Map::node_type take(CUdeviceptr ptr) {
    const std::lock_guard lock{mutex};
    return by_address.extract(ptr);
  }
  void put(Map::node_type node) {
    const std::lock_guard lock{mutex};
    by_address.insert(std::move(node));
  }
  detail::Mutex mutex;  // not held during driver calls
  Map by_address;
};

VirtualMemoryResource::VirtualMemoryResource(int device, VirtualMemoryResourceOptions options)
    : device_{device},
      options_{std::move(options)},
      allocations_{std::make_unique<Allocations>()} {}

VirtualMemoryResource::~VirtualMemoryResource() {
  const detail::Waiting waiting;
  allocations_.reset();
}

std::shared_ptr<VirtualMemoryResource> VirtualMemoryResource::create(
    int device, VirtualMemoryResourceOptions options) {
  if (options.handle_type == CU_MEM_HANDLE_TYPE_WIN32 ||
      options.handle_type == CU_MEM_HANDLE_TYPE_WIN32_KMT)
    throw std::invalid_argument{"win32 handles are for Windows"};
  if (Device{device}.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) {
    throw std::runtime_error{"device " + std::to_string(device) +
                             " has no virtual memory management"};
  }
  if (options.gpu_direct_rdma &&
      Device{device}.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) == 0) {
    throw std::runtime_error{"device " + std::to_string(device) +
                             " does not support GPUDirect RDMA for virtual memory: leave "
                             "gpu_direct_rdma False"};
  }
  return std::shared_ptr<VirtualMemoryResource>{
      new VirtualMemoryResource{device, std::move(options)}};
}

CUmemAllocationProp VirtualMemoryResource::properties(
    const VirtualMemoryResourceOptions& options) const {
  CUmemAllocationProp p{};
  p.type = options.allocation_type;
  p.location.type = options.location_type;
  p.location.id = options.location_type == CU_MEM_LOCATION_TYPE_DEVICE ? device_ : 0;
  p.requestedHandleTypes = options.handle_type;
  p.allocFlags.gpuDirectRDMACapable = options.gpu_direct_rdma ? 1 : 0;
  return p;
}

std::size_t VirtualMemoryResource::rounded(std::size_t size,
                                           const VirtualMemoryResourceOptions& options) const {
  if (size == 0 || size >= std::size_t{1} << 63) {
    throw std::invalid_argument{"size must be positive and less than 2**63, not " +
                                std::to_string(size)};
  }
  const CUmemAllocationProp p = properties(options);
  std::size_t step = 0;
  CUCORE_CALL(cuMemGetAllocationGranularity(&step, &p, options.granularity));
  return (size + step - 1) / step * step;
}

void VirtualMemoryResource::grant(CUdeviceptr ptr, std::size_t size,
                                  const VirtualMemoryResourceOptions& options) const {
  std::vector<CUmemAccessDesc> places;
  const auto add = [&](CUmemLocationType type, int id, CUmemAccess_flags flags) {
    CUmemAccessDesc place{};
    place.location.type = type;
    place.location.id = id;
    place.flags = flags;
    places.push_back(place);
  };
  add(CU_MEM_LOCATION_TYPE_DEVICE, device_, options.self_access);
  for (const int peer : options.peers) {
    if (peer != device_) add(CU_MEM_LOCATION_TYPE_DEVICE, peer, options.peer_access);
  }
  if (options.location_type != CU_MEM_LOCATION_TYPE_DEVICE)
    add(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUCORE_CALL(cuMemSetAccess(ptr, size, places.data(), places.size()));
}

CUdeviceptr VirtualMemoryResource::allocate(std::size_t size, StreamRef) {
  const std::size_t bytes = rounded(size, options_);
  Allocation made;
  made.ranges.emplace_back(bytes, options_.addr_align, options_.addr_hint);
  const CUdeviceptr ptr = made.ranges.front().ptr;
  made.or_release([&] {
    made.parts.emplace_back(ptr, std::make_shared<Physical>(bytes, properties(options_)));
    grant(ptr, bytes, options_);
  });
  const std::lock_guard lock{allocations_->mutex};
  allocations_->by_address.insert_or_assign(ptr, std::move(made));
  return ptr;
}

Buffer VirtualMemoryResource::allocate_buffer(std::size_t size) {
  const CUdeviceptr ptr = allocate(size, StreamRef{nullptr});
  return Buffer::adopt(ptr, size_of(ptr), shared_from_this(), Stream{});
}

void VirtualMemoryResource::deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) {
  if (stream.handle() != nullptr) stream.sync();
  auto going = allocations_->take(ptr);
  if (going.empty()) return;
  ErrorCollector steps;
  going.mapped().destroy(steps);
  steps.end();
}

std::size_t VirtualMemoryResource::size_of(CUdeviceptr ptr) const {
  const std::lock_guard lock{allocations_->mutex};
  const auto at = allocations_->by_address.find(ptr);
  return at != allocations_->by_address.end() ? at->second.size() : 0;
}

std::size_t VirtualMemoryResource::num_allocations() const {
  const std::lock_guard lock{allocations_->mutex};
  return allocations_->by_address.size();
}

Buffer VirtualMemoryResource::modify_allocation(
    Buffer&& buffer, std::size_t new_size,
    const std::optional<VirtualMemoryResourceOptions>& options) {
  if (buffer.memory_resource().get() != this) {
    throw std::invalid_argument{
        "modify_allocation(): the buffer belongs to another memory resource"};
  }
  const Stream stream = buffer.deallocation_stream();
  const BufferRef grown = modify_allocation(buffer.handle(), new_size, options);
  buffer.release();
  return Buffer::adopt(grown.handle(), grown.size(), shared_from_this(), stream);
}

BufferRef VirtualMemoryResource::modify_allocation(
    CUdeviceptr ptr, std::size_t new_size,
    const std::optional<VirtualMemoryResourceOptions>& options) {
  const VirtualMemoryResourceOptions& how = options ? *options : options_;
  const std::size_t bytes = rounded(new_size, how);
  // Removed from the table while it changes: driver calls may wait for host functions, and those
  // for a thread that uses this object.
  auto node = allocations_->take(ptr);
  if (node.empty()) {
    throw std::invalid_argument{
        "modify_allocation(): the address belongs to another memory resource"};
  }
  try {
    Allocation going = grow(node.mapped(), ptr, bytes, how);
    const BufferRef grown{node.mapped().ranges.front().ptr, node.mapped().size()};
    node.key() = grown.handle();
    allocations_->put(std::move(node));
    ErrorCollector steps;
    going.destroy(steps);
    steps.end();
    return grown;
  } catch (...) {
    if (!node.empty()) allocations_->put(std::move(node));
    throw;
  }
}

/// Grows `old`. If a step fails, `old` is unchanged. Returns the allocation to be freed.
VirtualMemoryResource::Allocation VirtualMemoryResource::grow(
    Allocation& old, CUdeviceptr ptr, std::size_t bytes,
    const VirtualMemoryResourceOptions& how) const {
  const std::size_t old_bytes = old.size();
  Allocation made;
  if (bytes <= old_bytes) {
    grant(ptr, old_bytes, how);
    return made;
  }
  const std::size_t extra = bytes - old_bytes;
  made.ranges.emplace_back(extra, 0, ptr + old_bytes);
  if (made.ranges.front().ptr == ptr + old_bytes) {
    made.or_release([&] {
      made.parts.emplace_back(ptr + old_bytes, std::make_shared<Physical>(extra, properties(how)));
      grant(ptr, bytes, how);
    });
    old.ranges.push_back(std::move(made.ranges.front()));
    old.parts.push_back(std::move(made.parts.front()));
    made.ranges.clear();
    made.parts.clear();
    return made;
  }
  // The adjacent addresses are not available. Map the same memory and the additional memory at new
  // addresses; both mappings exist until all steps succeed.
  made.ranges.clear();
  made.ranges.emplace_back(bytes, how.addr_align, 0);
  made.or_release([&] {
    CUdeviceptr next = made.ranges.front().ptr;
    for (const Mapping& part : old.parts) {
      made.parts.emplace_back(next, part.memory);
      next += part.memory->size();
    }
    made.parts.emplace_back(next, std::make_shared<Physical>(extra, properties(how)));
    grant(made.ranges.front().ptr, bytes, how);
  });
  std::swap(old.ranges, made.ranges);
  std::swap(old.parts, made.parts);
  return made;
}

}  // namespace cucore
