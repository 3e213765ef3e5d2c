// SPDX-License-Identifier: Apache-2.0
// cuDevice*: the devices and their attributes.
#include "cpu/device/device.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu/device/array.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  return guarded([&] {
    require(out != nullptr);
    *out = device_of(ordinal).ordinal;
  });
}

CUresult cuDeviceGetCount(int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = device_count();
  });
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  return guarded([&] {
    require(name && len > 0);
    std::snprintf(name, static_cast<std::size_t>(len), "%s", device_of(dev).name.c_str());
  });
}

CUresult cuDeviceGetUuid(CUuuid* out, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    std::memcpy(out->bytes, device_of(dev).uuid, sizeof out->bytes);
  });
}

CUresult cuDeviceGetLuid(char* luid, unsigned int* mask, CUdevice dev) {
  return guarded([&] {
    require(luid && mask);
    const Device& device = device_of(dev);
    std::memcpy(luid, device.uuid, 8);
    *mask = 1u << (device.physical % 32);
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  return guarded([&] {
    require(bytes != nullptr);
    *bytes = device_of(dev).budget.limit;
  });
}

CUresult cuDeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    *out = device_attribute(device_of(dev), attribute);
  });
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* out, CUarray_format format, unsigned channels,
                                            CUdevice dev) {
  return guarded([&] {
    require(out && format_bytes(format) > 0 && (channels == 1 || channels == 2 || channels == 4));
    *out = static_cast<std::size_t>(
        device_attribute(device_of(dev), CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
  });
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* out, const CUatomicOperation* operations,
                                           unsigned int count, CUdevice dev) {
  return guarded([&] {
    require(out && operations && count > 0);
    device_of(dev);
    for (unsigned i = 0; i < count; ++i) {
      require(operations[i] >= 0 && operations[i] < CU_ATOMIC_OPERATION_MAX);
      out[i] = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
               CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
               CU_ATOMIC_CAPABILITY_SCALAR_64;
    }
  });
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* out, const CUatomicOperation* operations,
                                          unsigned int count, CUdevice from, CUdevice to) {
  return guarded([&] {
    require(is_device(from) && is_device(to) && from != to);
    return cuDeviceGetHostAtomicCapabilities(out, operations, count, from);
  });
}

CUresult cuDeviceGetExecAffinitySupport(int* out, CUexecAffinityType, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    device_of(dev);
    *out = 0;  // no supported type, and 0 for unknown types
  });
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  return guarded([&] {
    require(prop != nullptr);
    const Device& d = device_of(dev);
    *prop = {};
    prop->maxThreadsPerBlock = device_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; ++i) {
      prop->maxThreadsDim[i] = device_attribute(
          d, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
      prop->maxGridSize[i] = device_attribute(
          d, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    }
    prop->sharedMemPerBlock = d.limits->shared_per_block;
    prop->totalConstantMemory = device_attribute(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = 32;
    prop->memPitch = device_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock = device_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = device_attribute(d, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = device_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  return guarded([&] {
    require(major && minor);
    const Device& device = device_of(dev);
    *major = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int len, CUdevice dev) {
  return guarded([&] {
    require(text != nullptr);
    const Device& device = device_of(dev);
    require(len >= 13);
    std::snprintf(text, static_cast<std::size_t>(len), "%04X:%02X:%02X.0", kPciDomain,
                  device.physical + 1, 0);
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  return guarded([&] {
    require(out && text);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    const bool full = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3;
    if (!full) {
      domain = kPciDomain;
      require(std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) >= 2);
    }
    for (int i = 0; i < device_count(); ++i) {
      if (domain != kPciDomain || static_cast<int>(bus) != device_of(i).physical + 1 || slot != 0)
        continue;
      *out = i;
      return;
    }
    fail(CUDA_ERROR_INVALID_DEVICE);
  });
}

CUresult cuDeviceGetP2PAttribute(int* out, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  return guarded([&] {
    require(out != nullptr);
    require(&device_of(from) != &device_of(to), CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *out = 0;
        break;
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *out = 1;
        break;
      default:
        fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
  return guarded([&] {
    require(target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
    require(scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
            scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    current_context();
    std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

}  // extern "C"
