// SPDX-License-Identifier: Apache-2.0
// context.cpp: contexts, and calls made in one of them.
#include "cucore/context.hpp"

#include <mutex>
#include <unordered_map>

#include "core/waiting.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "driver/mutex.hpp"
#include "protection.hpp"

namespace cucore {

detail::ContextBox::~ContextBox() {
  if (!owned || green == nullptr || !detail::may_free()) return;
  const detail::Waiting waiting;
  driver().cuGreenCtxDestroy(green);
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
    // Somebody may have reset it, or released it more often than retained: it is gone then, until
    // it is retained again.
    unsigned flags = 0;
    int active = 0;
    CUCORE_CALL(cuDevicePrimaryCtxGetState(handle, &flags, &active));
    if (active != 0) return found->second;
    all.by_device.erase(found);
  }
  auto box = std::make_shared<detail::ContextBox>();
  CUCORE_CALL(cuDevicePrimaryCtxRetain(&box->handle, handle));
  box->device = device;
  box->primary = true;
  return all.by_device.emplace(device, Context{std::move(box)}).first->second;
}

Context Context::current() {
  CUcontext handle = nullptr;
  CUCORE_CALL(cuCtxGetCurrent(&handle));
  if (handle == nullptr) return {};
  return view(handle);
}

Context Context::view(CUcontext handle) {
  {
    PrimaryContexts& all = primary_contexts();
    const std::lock_guard lock{all.mutex};
    for (const auto& [device, context] : all.by_device) {
      if (context.handle() == handle) return context;
    }
  }
  auto box = std::make_shared<detail::ContextBox>();
  box->handle = handle;
  const ScopedContext scope{handle};
  CUdevice device = 0;
  CUCORE_CALL(cuCtxGetDevice(&device));
  box->device = device;
  return Context{std::move(box)};
}

Context Context::create_green(int device, CUdevResourceDesc descriptor) {
  CUdevice handle = 0;
  CUCORE_CALL(cuDeviceGet(&handle, device));
  auto box = std::make_shared<detail::ContextBox>();
  box->device = device;
  CUCORE_CALL(cuGreenCtxCreate(&box->green, descriptor, handle, CU_GREEN_CTX_DEFAULT_STREAM));
  box->owned = true;
  CUCORE_CALL(cuCtxFromGreenCtx(&box->handle, box->green));
  return Context{std::move(box)};
}

void Context::set_current() const { CUCORE_CALL(cuCtxSetCurrent(handle())); }

void Context::sync() const {
  const ScopedContext scope{*this};
  CUCORE_CALL(cuCtxSynchronize());
}

ScopedContext::ScopedContext(CUcontext context) {
  const DriverTable& table = driver();
  CUcontext now = nullptr;
  check(table.cuCtxGetCurrent(&now), "cuCtxGetCurrent");
  if (now == context || context == nullptr) return;
  check(table.cuCtxPushCurrent(context), "cuCtxPushCurrent");
  pushed_ = CUCORE_PROTECTION("restore-context");
}

ScopedContext::~ScopedContext() {
  CUcontext popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent(&popped);
}

}  // namespace cucore
