// tensor_map.cpp: descriptors by which the tensor memory accelerator moves tiles.
#include <nanobind/stl/vector.h>

#include <cstring>

#include "support.hpp"

namespace cucore::python {
namespace {
struct TensorMap {
  alignas(64) CUtensorMap map;
};
}  // namespace

void bind_tensor_map(nb::module_& m) {
  nb::class_<TensorMap> cls(m, "_TensorMap");
  cls.def_static("tiled", [](int type, std::uintptr_t address, std::vector<cuuint64_t> dims,
                             std::vector<cuuint64_t> strides, std::vector<cuuint32_t> box,
                             std::vector<cuuint32_t> element_strides, int interleave, int swizzle,
                             int promotion, int fill) {
    auto* made = new TensorMap;
    nb::object object = nb::cast(made, nb::rv_policy::take_ownership);
    CUCORE_CALL(cuTensorMapEncodeTiled(
        &made->map, static_cast<CUtensorMapDataType>(type), static_cast<cuuint32_t>(dims.size()),
        reinterpret_cast<void*>(address), dims.data(), strides.data(), box.data(),
        element_strides.data(), static_cast<CUtensorMapInterleave>(interleave),
        static_cast<CUtensorMapSwizzle>(swizzle), static_cast<CUtensorMapL2promotion>(promotion),
        static_cast<CUtensorMapFloatOOBfill>(fill)));
    return object;
  });
  cls.def("replace_address", [](TensorMap& t, std::uintptr_t address) {
    CUCORE_CALL(cuTensorMapReplaceAddress(&t.map, reinterpret_cast<void*>(address)));
  });
  cls.def_prop_ro("address",
                  [](const TensorMap& t) { return reinterpret_cast<std::uintptr_t>(&t.map); });
  cls.def_prop_ro("bytes", [](const TensorMap& t) {
    return nb::bytes(reinterpret_cast<const char*>(&t.map), sizeof t.map);
  });
}
CUCORE_BIND(kBindRest, bind_tensor_map)

}  // namespace cucore::python
