// SPDX-License-Identifier: Apache-2.0
// tensor_map.cpp: the C++ descriptor behind cuda.core.TensorMapDescriptor.
#include "cucore/tensor_map.hpp"

#include <nanobind/stl/vector.h>

#include "support.hpp"

namespace cucore::python {

void bind_tensor_map(nb::module_& m) {
  using Numbers = std::vector<std::int64_t>;
  nb::class_<TensorMapDescriptor> cls(m, "_TensorMap");
  cls.def("__init__", [](TensorMapDescriptor* self, int type, std::uintptr_t address, Numbers shape,
                         Numbers strides, Numbers box, Numbers element_strides, int interleave,
                         int swizzle, int promotion, int fill) {
    const TensorRef tensor{address, std::move(shape), std::move(strides),
                           static_cast<TensorMapDataType>(type)};
    const TensorMapDescriptorOptions options{std::move(box),
                                             std::move(element_strides),
                                             static_cast<TensorMapInterleave>(interleave),
                                             static_cast<TensorMapSwizzle>(swizzle),
                                             static_cast<TensorMapL2Promotion>(promotion),
                                             static_cast<TensorMapOOBFill>(fill)};
    new (self) TensorMapDescriptor{tensor, options};
  });
  cls.def("replace_address",
          [](TensorMapDescriptor& t, std::uintptr_t address) { t.replace_address(address); });
  cls.def_prop_ro("address", [](const TensorMapDescriptor& t) {
    return reinterpret_cast<std::uintptr_t>(&t.raw());
  });
  cls.def_prop_ro("bytes", [](const TensorMapDescriptor& t) {
    return nb::bytes(reinterpret_cast<const char*>(&t.raw()), sizeof t.raw());
  });
}
CUCORE_BIND(kBindRest, bind_tensor_map)

}  // namespace cucore::python
