// SPDX-License-Identifier: Apache-2.0
// table.cpp: selects the driver library and fills the table of its functions.
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "driver/host_function.hpp"
#include "driver/kernel_registry.hpp"
#include "driver/library.hpp"
#include "driver/mutex.hpp"
#include "driver/state.hpp"
#include "driver/trace.hpp"
#include "protection.hpp"

namespace cucore {
namespace detail {

std::atomic<const DriverTable*> loaded_table{nullptr};
thread_local const char* missing_function = nullptr;
std::atomic<bool (*)()> process_is_ending{nullptr};
std::atomic<int> loader_pid{0};
std::atomic<bool> is_forked_child{false};

namespace {
thread_local int host_function_depth = 0;
}  // namespace

bool in_host_function() noexcept { return host_function_depth != 0; }
HostFunctionScope::HostFunctionScope() noexcept { ++host_function_depth; }
HostFunctionScope::~HostFunctionScope() { --host_function_depth; }

namespace {

/// Row numbers of the table: one constant per function, so that each function has its own stub.
enum Row : int {
#define CUCORE_FN(name, ...) row_##name,
#include "driver_functions.inc"
#undef CUCORE_FN
  kRows
};

constexpr const char* kNames[] = {
#define CUCORE_FN(name, ...) #name,
#include "driver_functions.inc"
#undef CUCORE_FN
};

/// Stub of a function that the driver lacks: the call fails, not the import.
template <int row, class Signature>
struct MissingFunctionStub;
template <int row, class... Args>
struct MissingFunctionStub<row, CUresult (*)(Args...)> {
  static CUresult call(Args...) {
    missing_function = kNames[row];
    return CUDA_ERROR_NOT_SUPPORTED;
  }
};

constexpr DriverTable missing_function_stubs() {
  DriverTable table;
#define CUCORE_FN(name, ...) table.name = &MissingFunctionStub<row_##name, decltype(&::name)>::call;
#include "driver_functions.inc"
#undef CUCORE_FN
  return table;
}

/// Replaces every function in a forked child. The driver's mappings and threads belong to the
/// parent, and some calls of NVIDIA's driver crash the child.
template <class Signature>
struct ForkedChildStub;
template <class... Args>
struct ForkedChildStub<CUresult (*)(Args...)> {
  static CUresult call(Args...) { return CUDA_ERROR_NOT_INITIALIZED; }
};

/// Wrapper of a function that waits for queued work.
template <auto field>
struct BlockingFunction;
template <class... Args, CUresult (*DriverTable::*field)(Args...)>
struct BlockingFunction<field> {
  static inline CUresult (*function)(Args...) = nullptr;
  static CUresult call(Args... args) {
    if (host_function_depth != 0) [[unlikely]]
      return CUDA_ERROR_NOT_PERMITTED;
    return function(args...);
  }
};

template <auto field>
void reject_in_host_functions(DriverTable& table) {
  static constexpr DriverTable stubs = missing_function_stubs();
  if (table.*field == stubs.*field) return;
  BlockingFunction<field>::function = table.*field;
  table.*field = &BlockingFunction<field>::call;
}

/// Wraps the functions that are documented to wait for the device: synchronization, synchronous
/// copies, and functions that free memory or code which kernels may still use. All other functions
/// are called directly.
void reject_blocking_calls_in_host_functions(DriverTable& table) {
  using T = DriverTable;
  const auto reject = [&]<auto... fields>() { (reject_in_host_functions<fields>(table), ...); };
  reject.template operator()<
      &T::cuCtxSynchronize, &T::cuStreamSynchronize, &T::cuEventSynchronize, &T::cuCtxDestroy,
      &T::cuDevicePrimaryCtxReset, &T::cuMemcpy, &T::cuMemcpyPeer, &T::cuMemcpyHtoD,
      &T::cuMemcpyDtoH, &T::cuMemcpyDtoD, &T::cuMemcpyDtoA, &T::cuMemcpyAtoD, &T::cuMemcpyHtoA,
      &T::cuMemcpyAtoH, &T::cuMemcpyAtoA, &T::cuMemcpy2D, &T::cuMemcpy2DUnaligned, &T::cuMemcpy3D,
      &T::cuMemcpy3DPeer, &T::cuMemFree, &T::cuMemFreeHost, &T::cuMemHostUnregister, &T::cuMemUnmap,
      &T::cuModuleUnload, &T::cuLibraryUnload, &T::cuArrayDestroy, &T::cuMipmappedArrayDestroy>();
}

/// Wrapper of a function that destroys contexts: their faults no longer cause later errors.
template <auto field, typename Signature = std::remove_cvref_t<decltype(DriverTable{}.*field)>>
struct EndsContexts;
template <auto field, typename... Args>
struct EndsContexts<field, CUresult (*)(Args...)> {
  static inline CUresult (*function)(Args...) = nullptr;
  static CUresult call(Args... args) {
    const CUresult code = function(args...);
    if (code == CUDA_SUCCESS) clear_first_fault();
    return code;
  }
};

template <auto field>
void clear_fault_after(DriverTable& table) {
  static constexpr DriverTable lacking = missing_function_stubs();
  if (table.*field == lacking.*field) return;
  EndsContexts<field>::function = table.*field;
  table.*field = &EndsContexts<field>::call;
}

struct State {
  std::mutex mutex;
  DriverTable table = missing_function_stubs();
  DriverInfo info;
  std::atomic<void (*)(const char*)> fallback_handler{nullptr};
  const char* (*fault_report)() = nullptr;
  /// Records a span that began at `begin`, unless `name` is null. Returns the current time, or 0 if
  /// the timeline is disabled.
  long long (*trace)(const char* category, const char* name, long long begin) = nullptr;
};

State& state() {  // never destroyed: threads may call the driver while the process exits
  static State* const instance = new State;
  return *instance;
}

/// Ends a forked child before the driver's exit handlers run: those would wait for locks of threads
/// that exist in the parent only. Buffered output is flushed first.
void exit_forked_child(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

/// Runs in the child of a fork, on its only thread. Changes the table in place because callers hold
/// references to it.
void disable_table_in_forked_child() {
  is_forked_child.store(true);
  on_exit(&exit_forked_child, nullptr);
  DriverTable& table = state().table;
#define CUCORE_FN(name, ...) table.name = &ForkedChildStub<decltype(&::name)>::call;
#include "driver_functions.inc"
#undef CUCORE_FN
}

bool flag(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

enum class DeviceChoice { automatic, gpu, cpu };

DeviceChoice device_choice() {
  const char* value = std::getenv("CUCORE_DEVICE");
  const std::string_view text{value != nullptr ? value : ""};
  if (text.empty() || text == "auto") return DeviceChoice::automatic;
  if (text == "gpu") return DeviceChoice::gpu;
  if (text == "cpu") return DeviceChoice::cpu;
  if (!CUCORE_PROTECTION("strict-settings")) return DeviceChoice::automatic;
  throw DriverNotFoundError(
      "CUCORE_DEVICE=" + std::string{text} +
      " is not known: the environment variable CUCORE_DEVICE must be auto, gpu or cpu");
}

std::string join_lines(const std::vector<std::string>& tried) {
  std::string text;
  for (const std::string& line : tried) text += "\n  " + line;
  return text;
}

/// Returns the last message in the CPU device's log: why initialization failed. Empty for other
/// drivers.
std::string last_logged(const DriverLibrary& library) {
  const auto dump =
      reinterpret_cast<decltype(&::cuLogsDumpToMemory)>(library.symbol("cuLogsDumpToMemory"));
  if (library.symbol("cucoreGetLastFaultReport") == nullptr || dump == nullptr) return {};
  char text[1024];
  std::size_t size = sizeof text;
  if (dump(nullptr, text, &size, 0) != CUDA_SUCCESS) return {};
  std::string line{text, size};
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line.substr(line.rfind('\n') + 1);
}

/// Returns why cuInit failed: the CPU device's log message, or the variable that hides the devices.
std::string reason_for(const DriverLibrary& library, CUresult code) {
  if (std::string line = last_logged(library); !line.empty()) return ": " + line;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (code == CUDA_ERROR_NO_DEVICE && visible != nullptr)
    return std::string{": CUDA_VISIBLE_DEVICES=\""} + visible +
           "\" hides every device: unset it, or list numbers or UUIDs of devices that exist";
  return {};
}

/// Number of devices of a driver library, or -1 with the reason appended to `tried`.
int device_count(const DriverLibrary& library, std::vector<std::string>& tried) {
  const auto init = reinterpret_cast<decltype(&::cuInit)>(library.symbol("cuInit"));
  const auto count =
      reinterpret_cast<decltype(&::cuDeviceGetCount)>(library.symbol("cuDeviceGetCount"));
  if (init == nullptr || count == nullptr) {
    tried.push_back(library.path + ": is not a CUDA driver (cuInit is missing)");
    return -1;
  }
  if (const CUresult code = init(0); code != CUDA_SUCCESS) {
    tried.push_back(library.path + ": cuInit returned " + result_name(code) + " (" +
                    std::to_string(code) + ")" + reason_for(library, code));
    return -1;
  }
  int n = 0;
  if (const CUresult code = count(&n); code != CUDA_SUCCESS) {
    tried.push_back(library.path + ": cuDeviceGetCount returned " + result_name(code));
    return -1;
  }
  if (n == 0) tried.push_back(library.path + ": loaded, but it has no device");
  return n;
}

/// Fills the table from a library; a function that the library lacks keeps its stub.
void fill(State& s, const DriverLibrary& library) {
  using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto find = reinterpret_cast<Find>(library.symbol("cuGetProcAddress_v2"));
  s.info.per_thread_stream = flag("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM");
  const cuuint64_t flags = s.info.per_thread_stream ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                    : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  const auto lookup = [&](const char* entry, const char* symbol, int since,
                          int per_thread_since) -> void* {
    void* address = nullptr;
    const int version =
        s.info.per_thread_stream && per_thread_since != 0 ? per_thread_since : since;
    if (find != nullptr && find(entry, &address, version, flags, nullptr) == CUDA_SUCCESS &&
        address != nullptr) {
      return address;
    }
    return library.symbol(symbol);
  };
#define CUCORE_SYMBOL_TEXT(symbol) #symbol
#define CUCORE_SYMBOL(name) \
  CUCORE_SYMBOL_TEXT(name)  // the versioned symbol the header maps the name to
#define CUCORE_FN(name, entry, since, per_thread_since)                            \
  if (void* found = lookup(entry, CUCORE_SYMBOL(name), since, per_thread_since)) { \
    s.table.name = reinterpret_cast<decltype(&::name)>(found);                     \
  }
#include "driver_functions.inc"
#undef CUCORE_FN
  if (s.table.cuLibraryUnload != missing_function_stubs().cuLibraryUnload) track_kernels(s.table);
  reject_blocking_calls_in_host_functions(s.table);
  clear_fault_after<&DriverTable::cuDevicePrimaryCtxReset>(s.table);
  clear_fault_after<&DriverTable::cuCtxDestroy>(s.table);
  s.fault_report = reinterpret_cast<const char* (*)()>(library.symbol("cucoreGetLastFaultReport"));
  s.trace = reinterpret_cast<decltype(s.trace)>(library.symbol("cucoreTrace"));
  s.info.kind = s.fault_report != nullptr ? DeviceKind::cpu : DeviceKind::gpu;
  s.info.path = library.path;
  s.table.cuDriverGetVersion(&s.info.version);
}

/// Opens the driver that CUCORE_DEVICE selects, or throws an error that lists every attempt.
/// Requires the lock.
void load(State& s) {
  const DeviceChoice selected = device_choice();
  std::vector<std::string> tried;
  DriverLibrary library;
  if (selected != DeviceChoice::cpu) {
    library = open_gpu_library(tried);
    if (library && device_count(library, tried) <= 0) library = {};
    if (!library && selected == DeviceChoice::gpu) {
      throw DriverNotFoundError(
          "CUCORE_DEVICE=gpu, but no GPU can be used. Tried:" + join_lines(tried) +
          "\nSet CUCORE_DEVICE=cpu to run on the CPU device.");
    }
  }
  if (!library) {
    library = open_cpu_library(tried);
    if (library && device_count(library, tried) < 0) library = {};
    if (!library) {
      throw DriverNotFoundError("no CUDA driver and no CPU device can be used. Tried:" +
                                join_lines(tried));
    }
    s.info.fell_back_to_cpu = selected == DeviceChoice::automatic;
  }
  fill(s, library);
  s.info.why = join_lines(tried);
}

constexpr const char* kFallbackText =
    "no usable GPU was found, so CUDA runs on the CPU device; set CUCORE_DEVICE=cpu to choose it "
    "and silence this "
    "warning, or CUCORE_DEVICE=gpu to make a missing GPU an error";

}  // namespace

const DriverTable& load_driver() {
  State& s = state();
  bool notify = false;
  {
    const std::lock_guard lock{s.mutex};
    if (loaded_table.load(std::memory_order_relaxed) == nullptr) {
      load(s);
      if (CUCORE_PROTECTION("fork-handler"))
        pthread_atfork(nullptr, nullptr, &disable_table_in_forked_child);
      notify = s.info.fell_back_to_cpu;
      loader_pid.store(getpid());
      loaded_table.store(&s.table, std::memory_order_release);
    }
  }
  if (notify) {
    if (auto* handler = s.fallback_handler.load()) handler(kFallbackText);
  }
  return s.table;
}

TraceScope::TraceScope(const char* category, const std::string& name) : category_{category} {
  const State& s = state();
  if (!driver_is_loaded() || s.trace == nullptr) return;
  begin_ = s.trace(nullptr, nullptr, 0);
  if (begin_ != 0) name_ = name;
}

TraceScope::~TraceScope() {
  if (begin_ != 0) state().trace(category_, name_.c_str(), begin_);
}

std::string last_fault_report() {
  State& s = state();
  if (!driver_is_loaded() || s.fault_report == nullptr) return {};
  const char* text = s.fault_report();
  return text != nullptr ? text : "";
}

}  // namespace detail

const DriverInfo& driver_info() {
  driver();
  return detail::state().info;
}

bool driver_has(const char* function) {
  const DriverTable& table = driver();
  static constexpr DriverTable stubs = detail::missing_function_stubs();
#define CUCORE_FN(name, ...) \
  if (std::strcmp(function, #name) == 0) return table.name != stubs.name;
#include "driver_functions.inc"
#undef CUCORE_FN
  return false;
}

void leave_to_process_end(bool (*probe)()) noexcept { detail::process_is_ending.store(probe); }

void on_cpu_fallback(void (*handler)(const char*)) {
  detail::state().fallback_handler.store(handler);
}

}  // namespace cucore
