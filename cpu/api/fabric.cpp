// SPDX-License-Identifier: Apache-2.0
// cuDeviceGetClique*: groups of devices with access to each other's memory. All devices of
// CUCORE_CPU_DEVICES form one clique; a single device is in none.
#include <algorithm>
#include <cstring>

#include "cpu/device/device.hpp"
#include "cpu/device/guard.hpp"

using namespace cucpu::driver;

namespace {

constexpr CUcliqueInfo kCliques[] = {{CU_CLIQUE_TYPE_UNICAST_POINTER, 0},
                                     {CU_CLIQUE_TYPE_MULTICAST_POINTER, 0}};

std::size_t clique_count() { return device_count() > 1 ? std::size(kCliques) : 0; }

}  // namespace

extern "C" {

CUresult cuDeviceGetCliqueCount(size_t* count, CUdevice dev) {
  return guarded([&] {
    require(count != nullptr);
    device_of(dev);
    *count = clique_count();
  });
}

CUresult cuDeviceGetCliqueInfo(CUcliqueInfo* out, size_t* count, CUdevice dev) {
  return guarded([&] {
    require(out && count);
    device_of(dev);
    *count = std::min(*count, clique_count());
    std::copy_n(kCliques, *count, out);
  });
}

CUresult cuDeviceGetFabricClusterUuid(CUuuid* out, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    device_of(dev);
    require(clique_count() > 0, CUDA_ERROR_NOT_SUPPORTED);
    unsigned char bytes[16];
    device_uuid(-1, bytes);  // the id of the machine
    std::memcpy(out->bytes, bytes, sizeof bytes);
  });
}

}  // extern "C"
