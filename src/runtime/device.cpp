// SPDX-License-Identifier: Apache-2.0
// device.cpp: the thread's device, primary contexts (retained on first use), limits, peers, reset.
#include <mutex>
#include <vector>

#include "driver/mutex.hpp"
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

thread_local CUdevice thread_device = 0;

struct PrimaryContexts {
  cucore::detail::Mutex mutex;
  std::vector<CUcontext> contexts;  // by device; retained until cudaDeviceReset or process exit
};

PrimaryContexts& primary_contexts() {
  static PrimaryContexts* const instance = new PrimaryContexts;
  return *instance;
}

CUresult check_ordinal(const DriverTable& d, int device) {
  int count = 0;
  if (const CUresult code = d.cuDeviceGetCount(&count); code != CUDA_SUCCESS) return code;
  return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

cudaError_t get_device_count(int* count) {
  return call_driver([=](const DriverTable& d) {
    return count == nullptr ? CUDA_ERROR_INVALID_VALUE : d.cuDeviceGetCount(count);
  });
}

cudaError_t set_device(int device) {
  return call_driver([=](const DriverTable& d) {
    if (const CUresult code = check_ordinal(d, device); code != CUDA_SUCCESS) return code;
    CUcontext context = nullptr;
    if (const CUresult code = primary_context(device, &context); code != CUDA_SUCCESS) return code;
    if (const CUresult code = d.cuCtxSetCurrent(context); code != CUDA_SUCCESS) return code;
    set_thread_device(device);
    return CUDA_SUCCESS;
  });
}

/// Makes the first device of the list the default of a thread that has not called cudaSetDevice.
cudaError_t set_valid_devices(int* devices, int count) {
  return call_driver([=](const DriverTable& d) {
    if (count < 0 || (count > 0 && devices == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < count; ++i) {
      if (const CUresult code = check_ordinal(d, devices[i]); code != CUDA_SUCCESS) return code;
    }
    set_thread_device(count > 0 ? devices[0] : 0);
    return CUDA_SUCCESS;
  });
}

cudaError_t get_device(int* device) {
  return call_driver([=](const DriverTable&) {
    return device == nullptr ? CUDA_ERROR_INVALID_VALUE : current_device(device);
  });
}

cudaError_t init_device(int device, unsigned flags, unsigned use_flags) {
  return call_driver([=](const DriverTable& d) {
    if (const CUresult code = check_ordinal(d, device); code != CUDA_SUCCESS) return code;
    if ((use_flags & cudaInitDeviceFlagsAreValid) != 0) {
      if (const CUresult code = d.cuDevicePrimaryCtxSetFlags(device, flags); code != CUDA_SUCCESS)
        return code;
    }
    CUcontext context = nullptr;
    return primary_context(device, &context);
  });
}

cudaError_t set_device_flags(unsigned flags) {
  return call_driver([=](const DriverTable& d) {
    CUdevice device = 0;
    if (const CUresult code = current_device(&device); code != CUDA_SUCCESS) return code;
    return d.cuDevicePrimaryCtxSetFlags(device, flags & ~static_cast<unsigned>(cudaDeviceMapHost));
  });
}

cudaError_t get_device_flags(unsigned* flags) {
  return call_driver([=](const DriverTable& d) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = nullptr;
    CUresult code = d.cuCtxGetCurrent(&context);
    if (code == CUDA_SUCCESS && context != nullptr) {
      code = d.cuCtxGetFlags(flags);
    } else if (code == CUDA_SUCCESS) {
      int active = 0;
      code = d.cuDevicePrimaryCtxGetState(thread_device, flags, &active);
    }
    *flags |= cudaDeviceMapHost;  // always set
    return code;
  });
}

cudaError_t device_reset() {
  return call_driver([](const DriverTable& d) {
    CUdevice device = 0;
    if (const CUresult code = current_device(&device); code != CUDA_SUCCESS) return code;
    release_primary_context(device);
    d.cuCtxSetCurrent(nullptr);
    return d.cuDevicePrimaryCtxReset(device);
  });
}

/// Calls `body` with the primary context of a peer device.
template <class Body>
cudaError_t with_peer(int peer, Body body) {
  return call_with_context([&](const DriverTable& d) {
    if (const CUresult code = check_ordinal(d, peer); code != CUDA_SUCCESS) return code;
    CUcontext context = nullptr;
    if (const CUresult code = primary_context(peer, &context); code != CUDA_SUCCESS) return code;
    return body(d, context);
  });
}

cudaError_t enable_peer(int peer, unsigned flags) {
  return with_peer(
      peer, [=](const DriverTable& d, CUcontext c) { return d.cuCtxEnablePeerAccess(c, flags); });
}
cudaError_t disable_peer(int peer) {
  return with_peer(peer,
                   [](const DriverTable& d, CUcontext c) { return d.cuCtxDisablePeerAccess(c); });
}

cudaError_t choose(int* device, const cudaDeviceProp* wanted) {
  return call_driver([=](const DriverTable& d) {
    if (device == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int count = 0;
    if (const CUresult code = d.cuDeviceGetCount(&count); code != CUDA_SUCCESS) return code;
    int best = 0, best_score = -1;
    for (int i = 0; i < count; ++i) {
      int major = 0, minor = 0;
      std::size_t memory = 0;
      d.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, i);
      d.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, i);
      d.cuDeviceTotalMem(&memory, i);
      const int score = (wanted->major == 0 || major == wanted->major) +
                        (wanted->minor == 0 || minor == wanted->minor) +
                        (memory >= wanted->totalGlobalMem);
      if (score > best_score) best = i, best_score = score;
    }
    *device = best;
    return CUDA_SUCCESS;
  });
}

/// The shared memory bank size is deprecated: setting it has no effect, and the value is the
/// hardware's.
cudaError_t get_shared_config(cudaSharedMemConfig* config) {
  if (config == nullptr) return set_last_error(cudaErrorInvalidValue);
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
cudaError_t set_shared_config(cudaSharedMemConfig) { return cudaSuccess; }

}  // namespace

void set_thread_device(CUdevice device) noexcept { thread_device = device; }

CUresult primary_context(CUdevice device, CUcontext* context) {
  PrimaryContexts& p = primary_contexts();
  const std::lock_guard lock{p.mutex};
  if (p.contexts.size() <= static_cast<std::size_t>(device))
    p.contexts.resize(static_cast<std::size_t>(device) + 1);
  CUcontext& known = p.contexts[static_cast<std::size_t>(device)];
  if (known == nullptr) {
    if (const CUresult code = driver().cuDevicePrimaryCtxRetain(&known, device);
        code != CUDA_SUCCESS)
      return code;
  }
  *context = known;
  return CUDA_SUCCESS;
}

void release_primary_context(CUdevice device) {
  PrimaryContexts& p = primary_contexts();
  const std::lock_guard lock{p.mutex};
  if (static_cast<std::size_t>(device) < p.contexts.size() &&
      p.contexts[static_cast<std::size_t>(device)] != nullptr) {
    driver().cuDevicePrimaryCtxRelease(device);
    p.contexts[static_cast<std::size_t>(device)] = nullptr;
  }
}

CUresult ensure_context() {
  const DriverTable& d = driver();
  CUcontext context = nullptr;
  if (const CUresult code = d.cuCtxGetCurrent(&context); code != CUDA_SUCCESS) return code;
  if (context != nullptr) [[likely]]
    return CUDA_SUCCESS;
  if (const CUresult code = primary_context(thread_device, &context); code != CUDA_SUCCESS)
    return code;
  return d.cuCtxSetCurrent(context);
}

CUresult current_device(CUdevice* device) {
  const DriverTable& d = driver();
  CUcontext context = nullptr;
  if (const CUresult code = d.cuCtxGetCurrent(&context); code != CUDA_SUCCESS) return code;
  if (context != nullptr) return d.cuCtxGetDevice(device);
  *device = thread_device;
  return CUDA_SUCCESS;
}

void install_devices(RuntimeTable& t) {
  t.cudaGetDeviceCount = get_device_count;
  t.cudaSetDevice = set_device;
  t.cudaSetValidDevices = set_valid_devices;
  t.cudaGetDevice = get_device;
  t.cudaInitDevice = init_device;
  t.cudaSetDeviceFlags = set_device_flags;
  t.cudaGetDeviceFlags = get_device_flags;
  t.cudaDeviceReset = device_reset;
  t.cudaDeviceEnablePeerAccess = enable_peer;
  t.cudaDeviceDisablePeerAccess = disable_peer;
  t.cudaChooseDevice = choose;
  t.cudaDeviceGetSharedMemConfig = get_shared_config;
  t.cudaDeviceSetSharedMemConfig = set_shared_config;
}

}  // namespace cucore::rt
