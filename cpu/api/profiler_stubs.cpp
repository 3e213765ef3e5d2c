// SPDX-License-Identifier: Apache-2.0
// Profiler, core dumps, notifications: a CPU device has none. Settings are stored and returned, and
// callbacks are never called.
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"

struct CUasyncCallbackEntry_st {
  CUasyncCallback function;
  void* data;
  CUdevice device;
};

struct CUcoredumpCallbackEntry_st {
  CUcoredumpStatusCallback function;
  void* data;
};

using namespace cucpu::driver;

namespace {

struct StubState {
  std::mutex mutex;
  std::map<int, std::string> coredump;  // attribute -> bytes of its value
  std::set<CUasyncCallbackHandle> notifications;
  std::set<CUcoredumpCallbackHandle> start, complete;
};
StubState& stub_state() {
  static StubState& k = *new StubState;
  return k;
}

using CoredumpCallbacks = std::set<CUcoredumpCallbackHandle> StubState::*;

CUresult register_callback(CoredumpCallbacks callbacks, CUcoredumpStatusCallback f, void* data,
                           CUcoredumpCallbackHandle* out,
                           const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        require(f && out);
        StubState& k = stub_state();
        const std::lock_guard lock{k.mutex};
        *out = *(k.*callbacks).insert(new CUcoredumpCallbackEntry_st{f, data}).first;
      },
      function);
}

CUresult deregister_callback(CoredumpCallbacks callbacks, CUcoredumpCallbackHandle handle,
                             const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        StubState& k = stub_state();
        const std::lock_guard lock{k.mutex};
        require((k.*callbacks).erase(handle) == 1);
        delete handle;
      },
      function);
}

bool is_text(CUcoredumpSettings attribute) {
  return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE;
}

std::size_t value_bytes(CUcoredumpSettings attribute) {
  return attribute == CU_COREDUMP_GENERATION_FLAGS ? sizeof(int) : sizeof(bool);
}

void check(CUcoredumpSettings attribute) {
  require(attribute >= CU_COREDUMP_ENABLE_ON_EXCEPTION && attribute < CU_COREDUMP_MAX);
}

std::string initial(CUcoredumpSettings attribute) {
  if (!is_text(attribute)) {
    std::string zero(value_bytes(attribute), '\0');
    if (attribute == CU_COREDUMP_TRIGGER_HOST) zero[0] = 1;
    return zero;
  }
  return attribute == CU_COREDUMP_FILE ? "core_%t_%h_%p" : "corepipe.cuda.%h.%p";
}

CUresult get(CUcoredumpSettings attribute, void* value, std::size_t* size,
             const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        check(attribute);
        require(size != nullptr);
        StubState& k = stub_state();
        const std::lock_guard lock{k.mutex};
        const auto at = k.coredump.find(attribute);
        std::string bytes = at == k.coredump.end() ? initial(attribute) : at->second;
        if (is_text(attribute)) bytes.push_back('\0');
        if (value) {
          require(*size >= bytes.size());
          std::memcpy(value, bytes.data(), bytes.size());
        }
        *size = bytes.size();
      },
      function);
}

CUresult set(CUcoredumpSettings attribute, void* value, std::size_t* size,
             const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        check(attribute);
        require(value && size);
        require(is_text(attribute) ? *size <= 1023 : *size >= value_bytes(attribute));
        StubState& k = stub_state();
        const std::lock_guard lock{k.mutex};
        std::string bytes{static_cast<const char*>(value),
                          is_text(attribute) ? *size : value_bytes(attribute)};
        if (is_text(attribute)) bytes = bytes.c_str();
        k.coredump[attribute] = bytes;
      },
      function);
}

}  // namespace

extern "C" {

CUresult cuProfilerStart(void) {
  return guarded([&] { current_context(); });
}

CUresult cuProfilerStop(void) {
  return guarded([&] { current_context(); });
}

CUresult cuCoredumpGetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  return guarded([&] {
    current_context_any_state();
    return get(attribute, value, size);
  });
}

CUresult cuCoredumpSetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
  return guarded([&] {
    current_context_any_state();
    return set(attribute, value, size);
  });
}

CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  return get(attribute, value, size);
}

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
  return set(attribute, value, size);
}

CUresult cuCoredumpRegisterStartCallback(CUcoredumpStatusCallback f, void* data,
                                         CUcoredumpCallbackHandle* out) {
  return register_callback(&StubState::start, f, data, out);
}

CUresult cuCoredumpRegisterCompleteCallback(CUcoredumpStatusCallback f, void* data,
                                            CUcoredumpCallbackHandle* out) {
  return register_callback(&StubState::complete, f, data, out);
}

CUresult cuCoredumpDeregisterStartCallback(CUcoredumpCallbackHandle handle) {
  return deregister_callback(&StubState::start, handle);
}

CUresult cuCoredumpDeregisterCompleteCallback(CUcoredumpCallbackHandle handle) {
  return deregister_callback(&StubState::complete, handle);
}

CUresult cuDeviceRegisterAsyncNotification(CUdevice dev, CUasyncCallback f, void* data,
                                           CUasyncCallbackHandle* out) {
  return guarded([&] {
    require(f && out);
    device_of(dev);
    StubState& k = stub_state();
    const std::lock_guard lock{k.mutex};
    *out = *k.notifications.insert(new CUasyncCallbackEntry_st{f, data, dev}).first;
  });
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice dev, CUasyncCallbackHandle handle) {
  return guarded([&] {
    require(is_device(dev));
    StubState& k = stub_state();
    const std::lock_guard lock{k.mutex};
    require(k.notifications.erase(handle) == 1);
    delete handle;
  });
}

CUresult cuProfilerInitialize(const char* config, const char* output, CUoutput_mode mode) {
  return guarded([&] {
    require(config && output && (mode == CU_OUT_KEY_VALUE_PAIR || mode == CU_OUT_CSV));
    current_context();
  });
}

}  // extern "C"
