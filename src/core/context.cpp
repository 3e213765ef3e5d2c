// SPDX-License-Identifier: Apache-2.0
// context.cpp: contexts, and calls with a context made current.
#include "cucore/context.hpp"

#include <mutex>
#include <unordered_map>

#include "core/blocking_calls.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/event.hpp"
#include "driver/mutex.hpp"
#include "protection.hpp"

namespace cucore {

void detail::DestroyGreenContext::operator()(CUgreenCtx context) const noexcept {
  if (!detail::may_free()) return;
  const detail::Waiting waiting;
  driver().cuGreenCtxDestroy(context);
}

namespace {
struct PrimaryContexts {
  cucore::detail::Mutex mutex;
  std::unordered_map<int, Context> by_device;
};
PrimaryContexts&
primary_contexts() {  // never destroyed: streams and buffers may be freed while the process exits
  static PrimaryContexts* const instance = new PrimaryContexts;
  return *instance;
}
}  // namespace

Context Context::primary(int device) {
  PrimaryContexts& all = primary_contexts();
  const std::lock_guard lock{all.mutex};
  CUdevice handle = 0;
  CUCORE_CALL(cuDeviceGet(&handle, device));
  if (const auto found = all.by_device.find(device); found != all.by_device.end()) {
    // Other code may have reset the context, or released it more often than it retained it. It is
    // then inactive until it is retained again.
    unsigned flags = 0;
    int active = 0;
    CUCORE_CALL(cuDevicePrimaryCtxGetState(handle, &flags, &active));
    if (active != 0) return found->second;
    all.by_device.erase(found);
  }
  auto box = std::make_shared<detail::ContextBox>(detail::ContextBox{device, true});
  CUcontext raw = nullptr;
  CUCORE_CALL(cuDevicePrimaryCtxRetain(&raw, handle));
  return all.by_device.emplace(device, Context{raw, std::move(box)}).first->second;
}

ContextRef ContextRef::current() {
  CUcontext handle = nullptr;
  CUCORE_CALL(cuCtxGetCurrent(&handle));
  return ContextRef{handle};
}

Context Context::current() {
  const ContextRef now = ContextRef::current();
  return now ? view(now) : Context{};
}

Context Context::view(ContextRef named) {
  {
    PrimaryContexts& all = primary_contexts();
    const std::lock_guard lock{all.mutex};
    for (const auto& [device, context] : all.by_device) {
      if (context == named) return context;
    }
  }
  return {named.handle(),
          std::make_shared<detail::ContextBox>(detail::ContextBox{named.device(), false})};
}

Context Context::create_green(int device, CUdevResourceDesc descriptor) {
  CUdevice handle = 0;
  CUCORE_CALL(cuDeviceGet(&handle, device));
  auto box = std::make_shared<detail::ContextBox>(detail::ContextBox{device, false});
  CUgreenCtx green = nullptr;
  CUCORE_CALL(cuGreenCtxCreate(&green, descriptor, handle, CU_GREEN_CTX_DEFAULT_STREAM));
  box->green.reset(green);
  CUcontext raw = nullptr;
  CUCORE_CALL(cuCtxFromGreenCtx(&raw, green));
  return {raw, std::move(box)};
}

bool Context::was_reset() const noexcept {
  if (!is_primary()) return false;
  unsigned flags = 0;
  int active = 0;
  return driver().cuDevicePrimaryCtxGetState(device(), &flags, &active) == CUDA_SUCCESS &&
         active == 0;
}

int ContextRef::device() const {
  if (raw_ == nullptr) return -1;
  const ScopedContext scope{*this};
  CUdevice device = 0;
  CUCORE_CALL(cuCtxGetDevice(&device));
  return device;
}

void ContextRef::set_current() const { CUCORE_CALL(cuCtxSetCurrent(raw_)); }

void ContextRef::sync() const {
  const ScopedContext scope{*this};
  CUCORE_CALL(cuCtxSynchronize());
}

void ContextRef::record(EventRef event) const {
  CUCORE_CALL(cuCtxRecordEvent(raw_, event.handle()));
}

ScopedContext::ScopedContext(ContextRef context) {
  const DriverTable& table = driver();
  CUcontext now = nullptr;
  check(table.cuCtxGetCurrent(&now), "cuCtxGetCurrent");
  if (now == context.handle() || !context) return;
  check(table.cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
  pushed_ = CUCORE_PROTECTION("restore-context");
}

ScopedContext::~ScopedContext() {
  CUcontext popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent(&popped);
}

}  // namespace cucore
