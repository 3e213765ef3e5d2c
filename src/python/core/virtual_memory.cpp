// SPDX-License-Identifier: Apache-2.0
// virtual_memory.cpp: the C++ resource of cuda.core.VirtualMemoryResource.
#include "cucore/virtual_memory.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "support.hpp"

namespace cucore::python {
namespace {

using Options = VirtualMemoryResourceOptions;

Options options(int type, int location, int handle_type, int granularity, bool rdma,
                std::size_t hint, std::size_t alignment, std::vector<int> peers, int self_access,
                int peer_access) {
  return {static_cast<CUmemAllocationType>(type),
          static_cast<CUmemLocationType>(location),
          static_cast<CUmemAllocationHandleType>(handle_type),
          static_cast<CUmemAllocationGranularity_flags>(granularity),
          rdma,
          hint,
          alignment,
          std::move(peers),
          static_cast<CUmemAccess_flags>(self_access),
          static_cast<CUmemAccess_flags>(peer_access)};
}

}  // namespace

void bind_virtual_memory(nb::module_& m) {
  nb::class_<Options>(m, "_VirtualMemoryOptions").def_static("of", &options);
  nb::class_<VirtualMemoryResource> cls(m, "_VirtualMemory");
  cls.def_static("create", &VirtualMemoryResource::create);
  cls.def_prop_ro("num_allocations", &VirtualMemoryResource::num_allocations);
  cls.def_prop_ro("is_device_accessible", &VirtualMemoryResource::is_device_accessible);
  cls.def_prop_ro("is_host_accessible", &VirtualMemoryResource::is_host_accessible);
  cls.def_prop_ro("is_managed", &VirtualMemoryResource::is_managed);
  cls.def_prop_ro("device_id", &VirtualMemoryResource::device_id);
  cls.def("allocate", [](VirtualMemoryResource& r, std::size_t size) {
    const WithoutGil release;
    const CUdeviceptr ptr = r.allocate(size, StreamRef{nullptr});
    return std::pair{static_cast<std::size_t>(ptr), r.size_of(ptr)};
  });
  cls.def("deallocate", [](VirtualMemoryResource& r, std::size_t ptr) {
    const WithoutGil release;
    r.deallocate(ptr, 0, StreamRef{nullptr});
  });
  cls.def(
      "modify",
      [](VirtualMemoryResource& r, std::size_t ptr, std::size_t size, std::optional<Options> how) {
        const WithoutGil release;
        const BufferRef grown = r.modify_allocation(ptr, size, how);
        return std::pair{static_cast<std::size_t>(grown.handle()), grown.size()};
      },
      "ptr"_a, "size"_a, "how"_a.none());
}
CUCORE_BIND(kBindMemory, bind_virtual_memory)

}  // namespace cucore::python
