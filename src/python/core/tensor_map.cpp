// SPDX-License-Identifier: Apache-2.0
// tensor_map.cpp: the C++ descriptor of cuda.core.TensorMapDescriptor, and its options.
#include "cucore/tensor_map.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "option_values.hpp"

namespace cucore::python {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The names of TensorMapDataType, in the order of its values.
constexpr const char* kTypes[] = {"UINT8",       "UINT16",   "UINT32",      "INT32",   "UINT64",
                                  "INT64",       "FLOAT16",  "FLOAT32",     "FLOAT64", "BFLOAT16",
                                  "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ"};

/// Returns the name of a type: a str is the name itself; a NumPy dtype and a class have one.
std::string name_of_type(nb::handle asked) {
  nb::object name = nb::borrow(asked);
  for (const char* attribute : {"__name__", "name"})
    if (PyUnicode_Check(asked.ptr()) == 0 && nb::hasattr(asked, attribute))
      name = asked.attr(attribute);
  if (PyUnicode_Check(name.ptr()) == 0) return {};
  std::string text = nb::str(name).c_str();
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// Converts a TensorMapDataType, its name, or a NumPy dtype; nullopt for None. Throws TypeError for
/// other objects, and ValueError for a type that tensor maps do not support.
std::optional<int> data_type_value(nb::handle asked) {
  if (asked.is_none()) return std::nullopt;
  const auto* const found = std::ranges::find(kTypes, name_of_type(asked));
  if (found != std::end(kTypes)) return static_cast<int>(found - kTypes);
  const bool is_type = PyType_Check(asked.ptr()) != 0 || nb::hasattr(asked, "itemsize");
  std::string known;
  for (const char* name : kTypes) known += (known.empty() ? "" : ", ") + std::string{name};
  PyErr_Format(is_type ? PyExc_ValueError : PyExc_TypeError,
               "data_type must be a TensorMapDataType, its name or a NumPy type (%s), not %R",
               known.c_str(), asked.ptr());
  throw nb::python_error();
}

/// The checked fields of a TensorMapDescriptorOptions.
struct Fields {
  TensorMapDescriptorOptions options;
  bool has_steps = false;
  std::optional<int> data_type;
};

Fields fields_of(nb::handle given) {
  // A member of the same enum as the default, which is an attribute of the class.
  const auto number = [&](const char* name) {
    const nb::object usual = given.type().attr(name);
    return enum_value(nb::object(given.attr(name)), name, usual.type());
  };
  Fields f;
  f.options.box_dim = int_values(nb::object(given.attr("box_dim")), "box_dim");
  const nb::object steps = given.attr("element_strides");
  f.has_steps = !steps.is_none();
  if (f.has_steps) {
    f.options.element_strides = int_values(steps, "element_strides");
    if (f.options.element_strides.empty()) throw std::invalid_argument{"element_strides is empty"};
  }
  f.data_type = data_type_value(nb::object(given.attr("data_type")));
  f.options.interleave = static_cast<TensorMapInterleave>(number("interleave"));
  f.options.swizzle = static_cast<TensorMapSwizzle>(number("swizzle"));
  f.options.l2_promotion = static_cast<TensorMapL2Promotion>(number("l2_promotion"));
  f.options.oob_fill = static_cast<TensorMapOOBFill>(number("oob_fill"));
  return f;
}

nb::tuple tuple_of(const Numbers& numbers) { return nb::tuple(nb::cast(numbers)); }

/// Returns the element type of the map: that of the options, or else that of the view.
TensorMapDataType type_of(const Fields& fields, nb::handle view) {
  if (fields.data_type) return static_cast<TensorMapDataType>(*fields.data_type);
  const nb::object type = view.attr("_dl_type");
  int code = 0;
  int bits = 0;
  int lanes = 0;
  if (PyArg_ParseTuple(type.ptr(), "iii", &code, &bits, &lanes) == 0) throw nb::python_error();
  if (bits <= 64) {
    const auto found =
        tensor_map_type({static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits),
                         static_cast<std::uint16_t>(lanes)});
    if (found) return *found;
  }
  PyErr_Format(PyExc_ValueError, "a tensor map cannot hold elements of type %S",
               nb::object(view.attr("dtype")).ptr());
  throw nb::python_error();
}

}  // namespace

void bind_tensor_map(nb::module_& m) {
  // Returns (box_dim, element_strides) of the options as tuples.
  m.def(
      "tensor_map_options",
      [](nb::handle given) {
        const Fields fields = fields_of(given);
        nb::object steps = nb::none();
        if (fields.has_steps) steps = tuple_of(fields.options.element_strides);
        return nb::make_tuple(tuple_of(fields.options.box_dim), steps);
      },
      "options"_a);
  nb::class_<TensorMapDescriptor> cls(m, "_TensorMap");
  cls.def(
      "__init__",
      [](TensorMapDescriptor* self, nb::handle view, nb::handle given) {
        const Fields fields = fields_of(given);
        const TensorRef tensor{
            nb::cast<std::uintptr_t>(view.attr("ptr")), nb::cast<Numbers>(view.attr("shape")),
            nb::cast<Numbers>(view.attr("_dense_strides")()), type_of(fields, view)};
        new (self) TensorMapDescriptor{tensor, fields.options};
      },
      "view"_a, "options"_a);
  cls.def("replace_address",
          [](TensorMapDescriptor& t, std::uintptr_t address) { t.replace_address(address); });
  cls.def_prop_ro("address", [](const TensorMapDescriptor& t) {
    return reinterpret_cast<std::uintptr_t>(&t.raw());
  });
  cls.def_prop_ro("data_type",
                  [](const TensorMapDescriptor& t) { return static_cast<int>(t.data_type()); });
  cls.def_prop_ro("bytes", [](const TensorMapDescriptor& t) {
    return nb::bytes(reinterpret_cast<const char*>(&t.raw()), sizeof t.raw());
  });
}
CUCORE_BIND(kBindRest, bind_tensor_map)

}  // namespace cucore::python
