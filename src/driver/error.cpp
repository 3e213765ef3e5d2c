// SPDX-License-Identifier: Apache-2.0
// error.cpp: names, descriptions and exceptions for result codes.
#include "cucore/error.hpp"

#include <unistd.h>

#include <mutex>
#include <string>
#include <utility>

#include "cucore/driver.hpp"
#include "driver/host_function.hpp"
#include "driver/state.hpp"
#include "protection.hpp"

namespace cucore {

CUDAError::CUDAError(int code, std::string name, const std::string& text, std::string call,
                     std::string object)
    : std::runtime_error{text},
      code_{code},
      name_{std::move(name)},
      call_{std::move(call)},
      object_{std::move(object)} {}
CUDAError::CUDAError(const CUDAError& error, const std::string& text, std::string object)
    : std::runtime_error{text},
      code_{error.code_},
      name_{error.name_},
      call_{error.call_},
      object_{error.object_.empty() ? std::move(object) : error.object_},
      notes_{error.notes_} {}
CUDAError::~CUDAError() = default;
OutOfMemoryError::~OutOfMemoryError() = default;
NVRTCError::~NVRTCError() = default;
DriverNotFoundError::~DriverNotFoundError() = default;
InvalidStateError::~InvalidStateError() = default;

const char* result_name(CUresult code) noexcept {
  switch (static_cast<int>(code)) {
#define CUCORE_RESULT(name, value, text) \
  case value:                            \
    return #name;
#include "driver_results.inc"
#undef CUCORE_RESULT
    default:
      return "CUDA_ERROR_UNKNOWN_CODE";
  }
}

static const char* builtin_text(CUresult code) noexcept {
  switch (static_cast<int>(code)) {
#define CUCORE_RESULT(name, value, text) \
  case value:                            \
    return text;
#include "driver_results.inc"
#undef CUCORE_RESULT
    default:
      return "unknown result code";
  }
}

const char* result_text(CUresult code) noexcept {
  const char* text = nullptr;
  if (const DriverTable* table = detail::loaded_table.load(std::memory_order_acquire)) {
    if (table->cuGetErrorString(code, &text) == CUDA_SUCCESS && text != nullptr) return text;
  }
  return builtin_text(code);
}

/// Returns a hint for the user, or an empty string if the description is sufficient.
static const char* advice(CUresult code) noexcept {
  switch (code) {
    case CUDA_ERROR_INVALID_CONTEXT:
      return "this thread has no current context: call Device(...).set_current() first";
    case CUDA_ERROR_NOT_INITIALIZED:
      if (const int owner = detail::loader_pid.load(); owner != 0 && owner != getpid()) {
        return "this process was forked from one that uses CUDA, which cannot be used in both: "
               "start processes with spawn or forkserver, for example "
               "multiprocessing.get_context(\"spawn\")";
      }
      return "call Device(...).set_current(), or cuInit(0), first";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "the code was built for another architecture: compile for this device's, or to PTX";
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "the PTX is newer than this driver: compile with an older toolkit, or to cubin";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return "use fewer threads per block or less shared memory";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      return "the call is not allowed while a stream is being captured into a graph";
    case CUDA_ERROR_NOT_PERMITTED:
      if (detail::in_host_function()) {
        return "this is a host function of a stream or a graph, which waits for it: it must not "
               "call CUDA; do that after it has returned, or on another thread";
      }
      return "";
    default:
      return "";
  }
}

static bool is_kernel_fault(CUresult code) noexcept {
  switch (static_cast<int>(code)) {
    case 700:
    case 702:
    case 710:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
      return true;
    default:
      return false;
  }
}

namespace {

/// A sticky error of a context. Later calls in the context return the same code although they are
/// correct; their messages refer to the first error that reached the user.
struct Fault {
  int code = 0;  // 0 if none
  std::string report;
  std::string call;
};

struct FirstFault : Fault {
  std::mutex mutex;
  Fault pending;  // the last fault whose message was created; it may not have reached the user
};

FirstFault& first_fault() {  // never destroyed: threads may fail while the process exits
  static auto* const instance = new FirstFault;
  return *instance;
}

/// Returns "kernel k" of a report that begins with it, else an empty string.
std::string faulty_kernel(const std::string& report) {
  if (!report.starts_with("kernel ")) return {};
  return report.substr(0, report.find_first_of(": ", 7));
}

/// Returns the text after the name of the code, including the device's report.
std::string fault_text(CUresult code, const std::string& function) {
  const std::string report = detail::last_fault_report();
  FirstFault& first = first_fault();
  const std::lock_guard lock{first.mutex};
  if (first.code != static_cast<int>(code) || first.report != report) {
    first.pending = {static_cast<int>(code), report, function};
    return std::string{result_text(code)} + " (" + function + ")" +
           (report.empty() ? "" : "\n" + report);
  }
  const std::string kernel = faulty_kernel(report);
  return "this context was broken by " + (kernel.empty() ? "an earlier kernel or copy" : kernel) +
         ", not by " + function + "; see the first error, from " + first.call +
         (report.empty() ? "" : "\n" + report);
}

}  // namespace

void detail::fault_was_raised(int code) noexcept try {
  FirstFault& first = first_fault();
  const std::lock_guard lock{first.mutex};
  if (code != 0 && first.pending.code == code)
    static_cast<Fault&>(first) = std::exchange(first.pending, {});
} catch (...) {  // out of memory: the next error is reported as the first
}

void detail::clear_first_fault() noexcept {
  FirstFault& first = first_fault();
  const std::lock_guard lock{first.mutex};
  first.code = 0;
}

void fail(CUresult code, const char* call) {
  std::string function{call};
  function = function.substr(0, function.find('('));
  std::string text = result_name(code);
  if (const char* missing = std::exchange(detail::missing_function, nullptr);
      missing != nullptr && code == CUDA_ERROR_NOT_SUPPORTED && function == missing) {
    const DriverInfo& info = driver_info();
    text += ": " + std::string{missing} + " is not in this driver (" + info.path + ", version " +
            std::to_string(info.version / 1000) + "." + std::to_string(info.version % 1000 / 10) +
            ")";
    throw CUDAError{static_cast<int>(code), result_name(code), text, function};
  }
  text += ": ";
  std::string object;
  if (is_kernel_fault(code)) {
    text += fault_text(code, function);
    object = faulty_kernel(detail::last_fault_report());
  } else {
    text += result_text(code);
    if (CUCORE_PROTECTION("error-names-call")) text += " (" + function + ")";
  }
  if (const char* hint = advice(code); *hint != '\0') text += std::string{"; "} + hint;
  if (code == CUDA_ERROR_OUT_OF_MEMORY)
    throw OutOfMemoryError{static_cast<int>(code), result_name(code), text, function};
  throw CUDAError{static_cast<int>(code), result_name(code), text, function, object};
}

}  // namespace cucore
