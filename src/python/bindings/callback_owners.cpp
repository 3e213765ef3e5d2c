// SPDX-License-Identifier: Apache-2.0
// callback_owners.cpp: ownership of callables by driver objects that cannot store an owner: an
// executable graph with an updated node, a registration, a capturing stream. The callables are
// released when the object is destroyed or the capture ends.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/captured_free.hpp"
#include "core/device_code.hpp"
#include "cucore/driver.hpp"
#include "cucore/runtime.hpp"
#include "driver/mutex.hpp"
#include "engine.hpp"
#include "python/gil.hpp"

namespace cucore::bindings {
namespace {

struct Owned {
  detail::Mutex mutex;
  std::unordered_map<void*, std::vector<HostCall*>> by_owner;
};
Owned& owned() {  // never destroyed: the driver may call until the process exits
  static Owned* const instance = new Owned;
  return *instance;
}

std::vector<HostCall*> take(void* owner) {
  Owned& all = owned();
  const std::lock_guard lock{all.mutex};
  auto found = all.by_owner.extract(owner);
  return found.empty() ? std::vector<HostCall*>{} : std::move(found.mapped());
}

/// Runs `destroy`, then releases the callables of the destroyed owner. Waits first, because a
/// running launch may still call them.
template <class Result, class Destroy>
Result destroyed(void* owner, bool wait, Destroy destroy) {
  std::vector<HostCall*> calls = take(owner);
  if (calls.empty()) return destroy();
  if (wait) (void)driver().cuCtxSynchronize();  // fails during capture, when nothing runs
  const Result code = destroy();
  if (static_cast<int>(code) != 0) {
    for (HostCall* call : calls) keep_for(call, owner);
  } else if (python::WithGil python; python) {
    for (HostCall* call : calls) drop(call);
  }
  return code;
}

CUresult exec_destroy(CUgraphExec exec) {
  return destroyed<CUresult>(exec, true, [=] { return driver().cuGraphExecDestroy(exec); });
}
CUresult logs_unregister(CUlogsCallbackHandle handle) {
  return destroyed<CUresult>(handle, false,
                             [=] { return driver().cuLogsUnregisterCallback(handle); });
}
CUresult notification_unregister(CUdevice device, CUasyncCallbackHandle handle) {
  return destroyed<CUresult>(
      handle, false, [=] { return driver().cuDeviceUnregisterAsyncNotification(device, handle); });
}
CUresult coredump_start_deregister(CUcoredumpCallbackHandle handle) {
  return destroyed<CUresult>(handle, false,
                             [=] { return driver().cuCoredumpDeregisterStartCallback(handle); });
}
CUresult coredump_complete_deregister(CUcoredumpCallbackHandle handle) {
  return destroyed<CUresult>(handle, false,
                             [=] { return driver().cuCoredumpDeregisterCompleteCallback(handle); });
}
CUresult end_capture(CUstream stream, CUgraph* graph) {
  const CUresult code = driver().cuStreamEndCapture(stream, graph);
  CUstreamCaptureStatus status{};
  const bool over =
      code == CUDA_SUCCESS || (driver().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
                               status == CU_STREAM_CAPTURE_STATUS_NONE);
  if (!over) return code;
  detail::free_after_captures();
  const std::vector<HostCall*> calls = take(stream);
  if (calls.empty()) return code;
  if (python::WithGil python; python)
    for (HostCall* call : calls) drop(call);
  return code;
}
using DestroyProgram = int (*)(void** program);
std::atomic<DestroyProgram> nvrtc_destroy{nullptr};  // of NVRTC, which is loaded at run time
int program_destroy(void** program) {
  const auto destroy = nvrtc_destroy.load(std::memory_order_relaxed);
  if (program == nullptr) return destroy(program);
  return destroyed<int>(*program, false, [=] { return destroy(program); });
}
cudaError_t runtime_notification_unregister(int device, cudaAsyncCallbackHandle_t handle) {
  return destroyed<cudaError_t>(handle, false, [=] {
    return runtime().cudaDeviceUnregisterAsyncNotification(device, handle);
  });
}
cudaError_t runtime_exec_destroy(cudaGraphExec_t exec) {
  return destroyed<cudaError_t>(exec, true, [=] { return runtime().cudaGraphExecDestroy(exec); });
}
cudaError_t runtime_logs_unregister(cudaLogsCallbackHandle handle) {
  return destroyed<cudaError_t>(handle, false,
                                [=] { return runtime().cudaLogsUnregisterCallback(handle); });
}

}  // namespace

void keep_for(HostCall* call, void* owner) {
  Owned& all = owned();
  const std::lock_guard lock{all.mutex};
  all.by_owner[owner].push_back(call);
}

void* in_place_of(const char* function, void* address) {
  static const std::pair<std::string_view, void*> kOurs[] = {
      {"nvrtcDestroyProgram", reinterpret_cast<void*>(&program_destroy)},
      {"cuGraphExecDestroy", reinterpret_cast<void*>(&exec_destroy)},
      {"cuLogsUnregisterCallback", reinterpret_cast<void*>(&logs_unregister)},
      {"cuStreamEndCapture", reinterpret_cast<void*>(&end_capture)},
      {"cuDeviceUnregisterAsyncNotification", reinterpret_cast<void*>(&notification_unregister)},
      {"cuCoredumpDeregisterStartCallback", reinterpret_cast<void*>(&coredump_start_deregister)},
      {"cuCoredumpDeregisterCompleteCallback",
       reinterpret_cast<void*>(&coredump_complete_deregister)},
      {"cudaDeviceUnregisterAsyncNotification",
       reinterpret_cast<void*>(&runtime_notification_unregister)},
      {"cudaGraphExecDestroy", reinterpret_cast<void*>(&runtime_exec_destroy)},
      {"cudaLogsUnregisterCallback", reinterpret_cast<void*>(&runtime_logs_unregister)},
  };
  const std::string_view name{function};
  const auto* const found = std::find_if(std::begin(kOurs), std::end(kOurs),
                                         [&](const auto& row) { return row.first == name; });
  void* const replacement = detail::device_code_in_place_of(name, address);
  if (found == std::end(kOurs)) return replacement;
  if (name == "nvrtcDestroyProgram")  // not in the driver's table
    nvrtc_destroy.store(
        reinterpret_cast<DestroyProgram>(replacement != nullptr ? replacement : address),
        std::memory_order_relaxed);
  return found->second;
}

}  // namespace cucore::bindings
