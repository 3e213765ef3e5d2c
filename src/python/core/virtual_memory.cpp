// virtual_memory.cpp: addresses reserved apart from the memory behind them, for
// VirtualMemoryResource.
#include <nanobind/stl/vector.h>

#include "support.hpp"

namespace cucore::python {
namespace {

CUmemAllocationProp properties(int type, int location_type, int location_id, int handle_types,
                               bool rdma) {
  CUmemAllocationProp p{};
  p.type = static_cast<CUmemAllocationType>(type);
  p.location = {static_cast<CUmemLocationType>(location_type), {location_id}};
  p.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  p.allocFlags.gpuDirectRDMACapable = rdma ? 1 : 0;
  return p;
}

}  // namespace

void bind_virtual_memory(nb::module_& m) {
  m.def("vmm_granularity", [](int type, int lt, int li, int handles, bool rdma, int option) {
    const CUmemAllocationProp p = properties(type, lt, li, handles, rdma);
    std::size_t bytes = 0;
    CUCORE_CALL(cuMemGetAllocationGranularity(
        &bytes, &p, static_cast<CUmemAllocationGranularity_flags>(option)));
    return bytes;
  });
  m.def("vmm_create", [](std::size_t size, int type, int lt, int li, int handles, bool rdma) {
    const CUmemAllocationProp p = properties(type, lt, li, handles, rdma);
    CUmemGenericAllocationHandle handle = 0;
    CUCORE_CALL_WITHOUT_GIL(cuMemCreate(&handle, size, &p, 0));
    return static_cast<unsigned long long>(handle);
  });
  m.def("vmm_release",
        [](unsigned long long handle) { CUCORE_CALL_WITHOUT_GIL(cuMemRelease(handle)); });
  m.def("vmm_reserve", [](std::size_t size, std::size_t alignment, std::size_t hint) {
    CUdeviceptr ptr = 0;
    CUCORE_CALL_WITHOUT_GIL(cuMemAddressReserve(&ptr, size, alignment, hint, 0));
    return static_cast<std::size_t>(ptr);
  });
  m.def("vmm_free", [](std::size_t ptr, std::size_t size) {
    CUCORE_CALL_WITHOUT_GIL(cuMemAddressFree(ptr, size));
  });
  m.def("vmm_map", [](std::size_t ptr, std::size_t size, unsigned long long handle) {
    CUCORE_CALL_WITHOUT_GIL(cuMemMap(ptr, size, 0, handle, 0));
  });
  m.def("vmm_unmap", [](std::size_t ptr, std::size_t size) {
    WithoutGil release;  // waits for queued work, which may be a Python function
    CUCORE_CALL(cuMemUnmap(ptr, size));
  });
  m.def("vmm_set_access",
        [](std::size_t ptr, std::size_t size, std::vector<std::vector<int>> places) {
          std::vector<CUmemAccessDesc> list;
          for (const auto& place : places) {
            CUmemAccessDesc d{};
            d.location = {static_cast<CUmemLocationType>(place[0]), {place[1]}};
            d.flags = static_cast<CUmemAccess_flags>(place[2]);
            list.push_back(d);
          }
          CUCORE_CALL_WITHOUT_GIL(cuMemSetAccess(ptr, size, list.data(), list.size()));
        });
}
CUCORE_BIND(kBindMemory, bind_virtual_memory)

}  // namespace cucore::python
