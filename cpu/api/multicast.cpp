// SPDX-License-Identifier: Apache-2.0
// cuMulticast*.
#include "cpu/device/multicast.hpp"

#include "cpu/device/guard.hpp"
#include "cpu/device/location.hpp"

using namespace cucpu::driver;

namespace {

void check(const CUmulticastObjectProp& prop) {
  require(prop.numDevices > 0 && prop.numDevices <= static_cast<unsigned>(device_count()) &&
          prop.flags == 0);
  check_handle_types(static_cast<unsigned>(prop.handleTypes));
}

MulticastObject& multicast_of(CUmemGenericAllocationHandle handle) {
  MulticastObject* object = find_multicast(handle);
  require(object != nullptr);
  return *object;
}

void bind_memory(CUmemGenericAllocationHandle handle, int device, std::size_t offset,
                 PhysicalMemory& memory, std::size_t memory_offset, std::size_t size,
                 unsigned long long flags) {
  require(flags == 0);
  require(memory.prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  if (device < 0) device = memory.prop.location.id;  // older calls use the device of the memory
  require(device_of(device).ordinal == memory.prop.location.id, CUDA_ERROR_INVALID_DEVICE);
  multicast_of(handle).bind(device, offset, Ref<PhysicalMemory>{&memory}, memory_offset, size);
}

void bind_address(CUmemGenericAllocationHandle handle, int device, std::size_t offset,
                  CUdeviceptr address, std::size_t size, unsigned long long flags) {
  multicast_of(handle);
  const MappedPlace place = mapped_place(address, size);
  bind_memory(handle, device, offset, *place.memory, place.offset, size, flags);
}

}  // namespace

extern "C" {

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* prop) {
  return guarded([&] {
    require(out && prop);
    check(*prop);
    require(prop->size > 0 && prop->size % kGranularity == 0);
    *out = reinterpret_cast<CUmemGenericAllocationHandle>(
        make_object<MulticastObject>(*prop)->publish());
  });
}

CUresult cuMulticastGetGranularity(size_t* out, const CUmulticastObjectProp* prop,
                                   CUmulticastGranularity_flags option) {
  return guarded([&] {
    require(out && prop &&
            (option == CU_MULTICAST_GRANULARITY_MINIMUM ||
             option == CU_MULTICAST_GRANULARITY_RECOMMENDED));
    check(*prop);
    *out = kGranularity;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return guarded([&] {
    MulticastObject& object = multicast_of(handle);
    object.add_device(device_of(device).ordinal);
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
                            unsigned long long flags) {
  return guarded(
      [&] { bind_memory(handle, -1, offset, memory_of(memory), memory_offset, size, flags); });
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset,
                               size_t size, unsigned long long flags) {
  return guarded([&] {
    bind_memory(handle, device_of(device).ordinal, offset, memory_of(memory), memory_offset, size,
                flags);
  });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
                             CUdeviceptr address, size_t size, unsigned long long flags) {
  return guarded([&] { bind_address(handle, -1, offset, address, size, flags); });
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                CUdeviceptr address, size_t size, unsigned long long flags) {
  return guarded(
      [&] { bind_address(handle, device_of(device).ordinal, offset, address, size, flags); });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                           size_t size) {
  return guarded([&] { multicast_of(handle).unbind(device_of(device).ordinal, offset, size); });
}

}  // extern "C"
