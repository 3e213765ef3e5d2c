// SPDX-License-Identifier: Apache-2.0
// cuInit, versions, symbol lookup, names of results.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "cpu/base/environment.hpp"
#include "cpu/base/log.hpp"
#include "cpu/device/context.hpp"
#include "cpu/device/device.hpp"
#include "cpu/device/external_memory.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/memory_pool.hpp"
#include "cpu/device/multicast.hpp"
#include "cpu/device/peer_access.hpp"
#include "cpu/device/texture.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/schedule/options.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "cpu/graph/device_launch.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/allocation.hpp"
#include "cpu/mem/host_stack.hpp"
#include "cpu/trace/trace.hpp"
#include "cucpu/exports.hpp"

void cucpu::on_unsupported(const char* function) noexcept {
  try {
    driver::log_message(CU_LOG_LEVEL_ERROR,
                        std::string{function} + " is not implemented by the CPU device");
  } catch (...) {
  }
}

using namespace cucpu::driver;
using cucpu::Export;
using cucpu::find_export;

namespace {

struct Result {
  CUresult code;
  const char *name, *text;
};

/// Texts that programs print and search for, where they differ from the words of the name.
constexpr Result kTexts[] = {
    {CUDA_SUCCESS, "", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "", "invalid argument"},
    {CUDA_ERROR_NOT_INITIALIZED, "", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_PTX, "", "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "",
     "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_FILE_NOT_FOUND, "", "file not found"},
    {CUDA_ERROR_OPERATING_SYSTEM, "", "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "", "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "", "the launch timed out and was terminated"},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "", "peer access is already enabled"},
    {CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "", "peer access has not been enabled"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "", "context is destroyed"},
    {CUDA_ERROR_ASSERT, "", "device-side assert triggered"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "", "an illegal instruction was encountered"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "", "unspecified launch failure"},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "", "too many blocks in cooperative launch"},
    {CUDA_ERROR_NOT_PERMITTED, "", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_UNKNOWN, "", "unknown error"},
};

constexpr Result kResults[] = {
#define CUCORE_RESULT(name, value, text) {name, #name, text},
#include "driver_results.inc"
#undef CUCORE_RESULT
};

const Result* find_result(CUresult code) {
  for (const Result& result : kResults)
    if (result.code == code) return &result;
  return nullptr;
}

const char* text_of(const Result& result) {
  for (const Result& better : kTexts)
    if (better.code == result.code) return better.text;
  return result.text;
}

void in_forked_child() {
  if (const auto now = g_process_state.load();
      now == ProcessState::ready || now == ProcessState::locked)
    g_process_state = ProcessState::forked;
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host:
      return "pinned host memory";
    case MemoryKind::managed:
      return "managed memory";
    case MemoryKind::pool:
      return "memory of a pool";
    case MemoryKind::mapped:
      return "mapped memory";
    default:
      return "device memory";
  }
}

/// CUCORE_CHECK=leak: what the program has not freed, with the calls that allocated it.
void print_leaks() {
  std::size_t count = 0, bytes = 0;
  MemoryMap::instance().for_each([&](const Allocation& a) {
    if (a.kind == MemoryKind::variable || a.kind == MemoryKind::registered ||
        a.kind == MemoryKind::imported)
      return;
    ++count;
    bytes += a.size;
    std::fprintf(stderr, "cucore: check: leak: %zu bytes of %s at 0x%llx, allocated by\n%s", a.size,
                 name_of(a.kind), static_cast<unsigned long long>(a.base),
                 cucpu::allocation_stacks::of(a.id).c_str());
  });
  if (count > 0)
    std::fprintf(stderr, "cucore: check: %zu allocations with %zu bytes were not freed\n", count,
                 bytes);
}

/// Handlers of exit() registered before cuInit, and destructors of older static objects, run after
/// this handler. Their calls fail, as with NVIDIA's driver, because objects of the compiler are
/// destroyed by then.
void at_process_end() {
  if (cucpu::allocation_stacks::are_recorded() && g_process_state.load() != ProcessState::forked)
    print_leaks();
  if (g_process_state.load() != ProcessState::forked) g_process_state = ProcessState::ended;
}

void initialize() {
  cucpu::trace::start_from_environment();
  initialize_process();
  handles::reserve();
  ThreadPool::instance().configure(settings().threads);
  cucpu::Hooks hooks;
  hooks.describe_address = [](std::uintptr_t address) {
    if (const auto array = TrackedArray::find(address))
      return std::to_string(address - array->base) + " bytes into the " +
             std::to_string(array->size) + " bytes of an array";
    return MemoryMap::instance().describe(address);
  };
  hooks.multicast = multicast_copies;
  cucpu::g_is_texture = is_texture;
  MemoryMap::instance().name_devices = device_count() > 1;
  if (device_count() > 1) {
    cucpu::peer_access_check() = [](const void* context, std::uintptr_t address, bool write) {
      return can_access(*static_cast<Context*>(const_cast<void*>(context)), address, write);
    };
    cucpu::array_access_check() = [](const void* context, const void* home) {
      return can_access_arrays(*static_cast<Context*>(const_cast<void*>(context)),
                               *static_cast<const Context*>(home));
    };
  }
  hooks.find_allocation = [](std::uintptr_t address) -> std::optional<cucpu::AllocationView> {
    AllocationRef a = MemoryMap::instance().find(address);
    if (!a) a = QueuedFrees::instance().find(address);
    if (!a) return std::nullopt;
    const bool tracked = (a->kind == MemoryKind::device || a->kind == MemoryKind::pool) &&
                         a->shared_fd < 0 && a->handle_types == 0 && !is_managed(*a) &&
                         a->device >= 0;
    return cucpu::AllocationView{a->base, a->size, a->id, tracked};
  };
  cucpu::g_find_array = TrackedArray::find;
  cucpu::g_may_hold_data = [](std::uintptr_t address, std::size_t bytes) {
    return TrackedArray::is_unmapped(address) || holds_data_of_others(address, bytes);
  };
  try {
    cucpu::check::Options::fix_for_process();
    if (cucpu::check::Options::of_process()->leaks) cucpu::allocation_stacks::start();
    cucpu::operations::start();
    cucpu::operations::g_is_device_address = [](std::uintptr_t address) {
      return AddressSpace::instance().contains(address);
    };
    static_cast<void>(cucpu::schedule::Options::from_environment());
  } catch (const cucpu::environment::Invalid& error) {
    std::fprintf(stderr, "cucore: %s\n", error.what());
    throw cucpu::LoadError{1, error.what()};
  } catch (const cucpu::LoadError& error) {  // printed, because cuInit has no log
    std::fprintf(stderr, "cucore: %s\n", error.what());
    throw;
  }
  cucpu::set_hooks(std::move(hooks));
  install_graph_launches();
  cucpu::heap_of_kernel() = []() noexcept -> cucpu::DeviceHeap* {
    Task* const task = ThreadPool::running_task();
    return task ? &context_of(*task).heap : nullptr;
  };
  pthread_atfork(nullptr, nullptr, in_forked_child);
  std::atexit(at_process_end);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
  static std::mutex& mutex = *new std::mutex;
  static CUresult result =
      CUDA_ERROR_NOT_INITIALIZED;  // a failure is final: the environment is read once
  static bool tried = false;
  return guarded_without_init([&] {
    require(flags == 0);
    if (g_process_state.load() == ProcessState::forked)
      fail(CUDA_ERROR_NOT_INITIALIZED,
           "the CPU device was in use before fork(); start the process with `spawn` instead");
    require(g_process_state.load() != ProcessState::ended, CUDA_ERROR_DEINITIALIZED);
    require(!t_in_callback, CUDA_ERROR_NOT_PERMITTED);
    const std::lock_guard lock{mutex};
    if (!tried) {
      tried = true;
      result = guarded_without_init(initialize);
      if (result == CUDA_SUCCESS) g_process_state = ProcessState::ready;
    }
    return result;
  });
}

CUresult cuDriverGetVersion(int* out) {
  return guarded_without_init([&] {
    require(out != nullptr);
    *out = kDriverVersion;
  });
}

CUresult cuGetErrorName(CUresult error, const char** out) {
  return guarded_without_init([&] {
    require(out != nullptr);
    const Result* result = find_result(error);
    *out = result ? result->name : nullptr;
    require(result != nullptr);
  });
}

CUresult cuGetErrorString(CUresult error, const char** out) {
  return guarded_without_init([&] {
    require(out != nullptr);
    const Result* result = find_result(error);
    *out = result ? text_of(*result) : nullptr;
    require(result != nullptr);
  });
}

CUresult cuGetProcAddress(const char* symbol, void** out, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  return guarded_without_init([&] {
    require(symbol && out);
    require(flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    require(version <= kDriverVersion);
    *out = nullptr;
    bool known = false;
    const std::string_view name{symbol};
    const Export* found = find_export(name, version, &known);
    if (!found) {  // success with a null pointer, also without a status: that is what an H200
                   // returns
      if (status)
        *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
      return;
    }
    const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
                            found->per_thread && found->per_thread_since <= version;
    *out = reinterpret_cast<void*>(per_thread ? found->per_thread : found->address);
    if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  });
}

CUresult cuGetExportTable(const void** out, const CUuuid* id) {
  return guarded_without_init([&] {
    require(out && id);
    *out = nullptr;
    return CUDA_ERROR_NOT_SUPPORTED;  // tables of NVIDIA without public documentation
  });
}

}  // extern "C"
