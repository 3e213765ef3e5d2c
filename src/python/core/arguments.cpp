// SPDX-License-Identifier: Apache-2.0
// arguments.cpp: conversion of Python values to the parameter block of a kernel.
#include "arguments.hpp"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/library.hpp"
#include "cucore/driver.hpp"
#include "fast_path_types.hpp"
#include "protection.hpp"
#include "py_buffer.hpp"
#include "py_graph_builder.hpp"

namespace cucore::python {

TypeTable<ValueType> known_types;

namespace {

/// Whether the bits of usual_values() say what is_compatible() says.
constexpr bool usual_values_agree() {
  using enum ParamKind;
  for (const ParamKind argument : {unknown, integer, floating, pointer})
    for (const ParamKind parameter : {unknown, integer, floating, pointer})
      for (const std::size_t has : {4, 8})
        for (const std::size_t wants : {4, 8})
          if (((detail::usual_values(has, argument) & detail::usual_values(wants, parameter)) !=
               0) != (has == wants && detail::is_compatible(argument, parameter)))
            return false;
  return true;
}
static_assert(usual_values_agree());

bool name_starts_with(const PyTypeObject* type, const char* prefix) {
  return std::strncmp(type->tp_name, prefix, std::strlen(prefix)) == 0;
}

/// Describes a NumPy scalar type. The value follows the object header directly (NumPy's public
/// ABI); the buffer protocol of the first instance confirms that.
ValueType inspect_numpy(PyObject* value) {
  ValueType out;
  Py_buffer view{};
  if (PyObject_GetBuffer(value, &view, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
    PyErr_Clear();
    return out;
  }
  const auto size = static_cast<std::size_t>(view.len);
  const std::string_view format = view.format != nullptr ? view.format : "B";
  const char code = format.empty() ? 'B' : format.back();
  out.kind = ValueType::by_buffer;
  out.size = static_cast<std::uint16_t>(size);
  out.is_integer = std::strchr("bBhHiIlLqQnN", code) != nullptr && format.size() == 1;
  out.value = out.is_integer || format == "?"                   ? ParamKind::integer
              : format == "e" || format == "f" || format == "d" ? ParamKind::floating
                                                                : ParamKind::unknown;
  out.is_complex = format == "Zf" || format == "Zd";
  out.is_signed = std::strchr("bhilqn", code) != nullptr;
  if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16) {
    const std::size_t align = size == 16 ? 8 : size;
    const std::size_t offset = (sizeof(PyObject) + align - 1) / align * align;
    if (static_cast<std::size_t>(Py_TYPE(value)->tp_basicsize) >= offset + size &&
        Py_TYPE(value)->tp_itemsize == 0 &&
        std::memcmp(reinterpret_cast<const char*>(value) + offset, view.buf, size) == 0 &&
        std::strstr(Py_TYPE(value)->tp_name, "void") == nullptr) {
      out.kind = ValueType::in_object;
      out.offset = static_cast<std::uint8_t>(offset);
      if (!out.is_complex) out.usual = detail::usual_values(size, out.value);
    }
  }
  PyBuffer_Release(&view);
  return out;
}

bool derives_from(PyTypeObject* type, const char* name) {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro != nullptr && i < PyTuple_GET_SIZE(mro); ++i) {
    const auto* base = reinterpret_cast<const PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (std::strcmp(base->tp_name, name) == 0) return true;
  }
  return false;
}

ValueType inspect(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  ValueType out;
  if (buffer_of(value) != nullptr) {
    out.kind = ValueType::buffer;
    return out;
  }
  if (derives_from(type, "numpy.generic")) return inspect_numpy(value);
  const PyTypeObject* meta = Py_TYPE(reinterpret_cast<PyObject*>(type));
  if (name_starts_with(meta, "_ctypes.") || derives_from(type, "_ctypes._SimpleCData") ||
      derives_from(type, "_ctypes.Structure") || derives_from(type, "_ctypes.Union")) {
    out.kind = ValueType::by_buffer;
    if (derives_from(type, "_ctypes._SimpleCData")) {
      if (PyObject* code = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_type_")) {
        const char* text = PyUnicode_Check(code) ? PyUnicode_AsUTF8(code) : "";
        out.is_integer =
            text != nullptr && *text != '\0' && std::strchr("bBhHiIlLqQ", *text) != nullptr;
        out.is_signed = out.is_integer && std::strchr("bhilq", *text) != nullptr;
        const char one = text != nullptr ? *text : '\0';
        out.value = out.is_integer || one == '?'             ? ParamKind::integer
                    : one == 'f' || one == 'd'               ? ParamKind::floating
                    : one == 'P' || one == 'z' || one == 'Z' ? ParamKind::pointer
                                                             : ParamKind::unknown;
        Py_DECREF(code);
      }
      PyErr_Clear();
    }
    return out;
  }
  const auto has = [&](const char* attribute) {
    const int found = PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), attribute);
    return found == 1;
  };
  if (has("_kernel_argument_address")) {  // tensor maps: passed by value
    out.kind = ValueType::by_address;
  } else if (has("_kernel_argument")) {  // textures, surfaces, graph conditions, strided views: a
                                         // 64-bit number
    out.kind = ValueType::by_handle;
  } else if (has("__dlpack__") || has("__cuda_array_interface__")) {
    out.kind = ValueType::array;
  } else if (type->tp_as_number != nullptr && std::strstr(type->tp_name, "numpy") == nullptr &&
             (type->tp_as_number->nb_index != nullptr ||
              (type->tp_as_number->nb_int != nullptr && has("getPtr")))) {
    // Handles of cuda.bindings (NVIDIA's have only __int__), enums, int subclasses. Numbers of the
    // decimal and fractions modules, which int() would truncate, are rejected.
    out.kind = ValueType::by_int;
  }
  return out;
}

ValueType value_type(PyObject* value) {
  if (const ValueType* known = known_types.find(Py_TYPE(value))) return *known;
  const ValueType made = inspect(value);
  known_types.add(Py_TYPE(value), made);
  return made;
}

std::string where(const Kernel& kernel, std::size_t index) {
  return "argument " + std::to_string(index) + " of kernel " +
         (kernel.name().empty() ? "?" : kernel.name());
}

[[noreturn]] void wrong_size(const Kernel& kernel, std::size_t index, PyObject* value,
                             std::size_t has, std::size_t wants) {
  const std::string text = where(kernel, index) + ": " + Py_TYPE(value)->tp_name + " has " +
                           std::to_string(has) + " bytes, but the kernel's parameter has " +
                           std::to_string(wants);
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

/// Throws TypeError for a value with a type other than the parameter's: its bits would be
/// reinterpreted.
[[noreturn]] void wrong_kind(const Kernel& kernel, std::size_t index, PyObject* value,
                             const ParamInfo& param) {
  std::string text = detail::wrong_kind_text(kernel, index, Py_TYPE(value)->tp_name);
  if (param.kind == ParamKind::floating) {
    text += PyLong_CheckExact(value) != 0
                ? "; give a float, such as float(value)"
                : "; give a float or a NumPy or ctypes scalar of that type";
  } else {
    text += param.kind == ParamKind::pointer ? "; give a Buffer or an address (int)"
                                             : "; give an int, such as int(value)";
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

/// Stores an integer of any width; false if it does not fit, signed or unsigned.
bool store_integer(void* out, std::size_t size, bool negative, std::uint64_t bits) {
  if (size < 8) {
    const unsigned width = static_cast<unsigned>(size) * 8;
    if (negative) {
      const auto value = static_cast<std::int64_t>(bits);
      if (value < -(std::int64_t{1} << (width - 1))) return false;
    } else if ((bits >> width) != 0) {
      return false;
    }
  }
  std::memcpy(out, &bits, size);  // little-endian: the low bytes come first
  return true;
}

}  // namespace

void PackedArguments::release_views() noexcept {
  for (Py_buffer& view : views_) PyBuffer_Release(&view);
}

[[noreturn]] static void wrong_count(const Kernel& kernel, std::span<const ParamInfo> params,
                                     std::size_t count) {
  std::string text = "kernel " + (kernel.name().empty() ? std::string{"?"} : kernel.name()) +
                     " takes " + std::to_string(params.size()) +
                     (params.size() == 1 ? " argument, " : " arguments, ") + std::to_string(count) +
                     (count == 1 ? " was given" : " were given");
  if (count < params.size()) {
    text += ": argument " + std::to_string(count) + " (" + std::to_string(params[count].size) +
            " bytes) is missing";
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

/// Reads the kernel's parameters without the GIL: the first query may load code and wait for the
/// device, whose host functions need the GIL.
static std::span<const ParamInfo> read_params(const Kernel& kernel) {
  const Kernel held = kernel;
  WithoutGil release;
  return held.params();
}

static void pack_buffer(const Kernel& kernel, std::size_t index, PyObject* value,
                        const ParamInfo& param, void* place) {
  const Buffer& buffer = self_of<PyBuffer>(value).buffer;
  if (buffer.is_closed()) throw InvalidStateError(where(kernel, index) + ": the buffer is closed");
  const CUdeviceptr address = buffer.handle();
  if (param.size != sizeof address) wrong_size(kernel, index, value, sizeof address, param.size);
  if (param.kind == ParamKind::floating) wrong_kind(kernel, index, value, param);
  std::memcpy(place, &address, sizeof address);
}

void PackedArguments::pack(const Kernel& kernel, PyObject* const* args, std::size_t count) {
  static PyTypeObject* const buffer_type =
      reinterpret_cast<PyTypeObject*>(nb::type<PyBuffer>().ptr());
  const detail::KernelState& state = *kernel.state();
  const std::span<const ParamInfo> params = state.params_read.load(std::memory_order_acquire)
                                                ? std::span<const ParamInfo>{state.params}
                                                : read_params(kernel);
  if (params.size() != count) [[unlikely]]
    if (CUCORE_PROTECTION("argument-count-check")) wrong_count(kernel, params, count);
  if (count == 0) return;
  std::byte* block = few_bytes_;
  const std::size_t block_size = params.back().offset + params.back().size;
  if (count > kFew || block_size > sizeof few_bytes_) {
    const std::size_t pointers_size = (count * sizeof(void*) + 15) / 16 * 16;
    many_.reset(new std::byte[pointers_size + block_size]);  // new aligns to 16
    pointers_ = reinterpret_cast<void**>(many_.get());
    block = many_.get() + pointers_size;
  }
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* value = args[i];
    const std::size_t size = params[i].size;
    if (Py_TYPE(value) == buffer_type) {
      pointers_[i] = block + params[i].offset;
      pack_buffer(kernel, i, value, params[i], pointers_[i]);
    } else if (const ValueType* type = known_types.find(Py_TYPE(value));
               type != nullptr && type->kind == ValueType::in_object && type->size == size &&
               accepts(params[i].kind, *type)) {
      pointers_[i] = reinterpret_cast<char*>(value) + type->offset;
    } else {
      pack_one(kernel, i, value, params[i], block + params[i].offset);
    }
  }
}

static void pack_int(const Kernel& kernel, std::size_t index, PyObject* value,
                     const ParamInfo& param, void* place) {
  const std::size_t size = param.size;
  // Not converted: if the kind is unknown (see ParamInfo), the same call would store the bits.
  if (param.kind == ParamKind::floating) wrong_kind(kernel, index, value, param);
  if (size > 8) wrong_size(kernel, index, value, 8, size);
  std::int64_t number = 0;
  bool fits = as_int64(value, &number);
  bool negative = number < 0;
  auto bits = static_cast<std::uint64_t>(number);
  if (!fits) {
    bits = PyLong_AsUnsignedLongLong(value);
    negative = false;
    fits = PyErr_Occurred() == nullptr;
    PyErr_Clear();
  }
  if (fits && store_integer(place, size, negative, bits)) return;
  const std::string text = where(kernel, index) +
                           ": the int does not fit in the kernel's parameter of " +
                           std::to_string(size) + " bytes";
  PyErr_SetString(PyExc_OverflowError, text.c_str());
  throw nb::python_error();
}

static void pack_float(const Kernel& kernel, std::size_t index, PyObject* value,
                       const ParamInfo& param, void* place) {
  const std::size_t size = param.size;
  if (!detail::is_compatible(ParamKind::floating, param.kind))
    wrong_kind(kernel, index, value, param);
  const double number = PyFloat_AS_DOUBLE(value);
  if (size == sizeof(double)) {
    std::memcpy(place, &number, sizeof number);
  } else if (size == sizeof(float)) {
    const auto narrow = static_cast<float>(number);
    std::memcpy(place, &narrow, sizeof narrow);
  } else {
    wrong_size(kernel, index, value, sizeof(double), size);
  }
}

void PackedArguments::pack_one(const Kernel& kernel, std::size_t index, PyObject* value,
                               const ParamInfo& param, void* place) {
  pointers_[index] = place;
  const PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type) {
    pack_int(kernel, index, value, param, place);
  } else if (type == &PyFloat_Type) {
    pack_float(kernel, index, value, param, place);
  } else {
    pack_other(kernel, index, value, param, place);
  }
}

void PackedArguments::pack_other(const Kernel& kernel, std::size_t index, PyObject* value,
                                 const ParamInfo& param, void* place) {
  const std::size_t size = param.size;
  if (PyBool_Check(value)) {
    if (param.kind == ParamKind::floating || param.kind == ParamKind::pointer)
      wrong_kind(kernel, index, value, param);
    if (size > 8) wrong_size(kernel, index, value, 1, size);
    store_integer(place, size, false, value == Py_True ? 1 : 0);
    return;
  }
  if (PyComplex_CheckExact(value)) {
    if (param.kind != ParamKind::unknown) wrong_kind(kernel, index, value, param);
    const Py_complex number = PyComplex_AsCComplex(value);
    if (size == 2 * sizeof(double)) {
      const double both[2] = {number.real, number.imag};
      std::memcpy(place, both, size);
    } else if (size == 2 * sizeof(float)) {
      const float both[2] = {static_cast<float>(number.real), static_cast<float>(number.imag)};
      std::memcpy(place, both, size);
    } else {
      wrong_size(kernel, index, value, 2 * sizeof(double), size);
    }
    return;
  }
  if (value == Py_None) {  // more likely an unset variable than an intended null pointer
    const std::string text =
        where(kernel, index) +
        ": None cannot be passed; a null pointer is the int 0 (or np.uintp(0))";
    PyErr_SetString(PyExc_TypeError, text.c_str());
    throw nb::python_error();
  }
  const ValueType type = value_type(value);
  const void* source = nullptr;
  std::size_t has = 0;
  switch (type.kind) {
    case ValueType::buffer:
      pack_buffer(kernel, index, value, param, place);
      return;
    case ValueType::in_object:
      source = reinterpret_cast<const char*>(value) + type.offset;
      has = type.size;
      break;
    case ValueType::by_buffer: {
      Py_buffer view{};
      if (PyObject_GetBuffer(value, &view, PyBUF_CONTIG_RO) < 0) throw nb::python_error();
      views_.push_back(view);
      source = view.buf;
      has = static_cast<std::size_t>(view.len);
      break;
    }
    case ValueType::by_int: {
      nb::object number = nb::steal(PyNumber_Long(value));
      if (!number.is_valid()) throw nb::python_error();
      if (param.kind == ParamKind::floating) wrong_kind(kernel, index, value, param);
      pack_int(kernel, index, number.ptr(), param, place);
      return;
    }
    case ValueType::by_handle: {
      nb::object number = nb::handle{value}.attr("_kernel_argument");
      if (size != 8) wrong_size(kernel, index, value, 8, size);
      if (param.kind == ParamKind::floating) wrong_kind(kernel, index, value, param);
      pack_one(kernel, index, number.ptr(), param, place);
      return;
    }
    case ValueType::by_address: {
      nb::object pair = nb::handle{value}.attr("_kernel_argument_address");
      unsigned long long address = 0;
      unsigned long long bytes = 0;
      if (!PyArg_ParseTuple(pair.ptr(), "KK", &address, &bytes)) throw nb::python_error();
      if (bytes != size) wrong_size(kernel, index, value, bytes, size);
      pointers_[index] = reinterpret_cast<void*>(address);
      return;
    }
    case ValueType::array: {  // with one element, int() would return its value, not its address
      const std::string text =
          where(kernel, index) + ": an array (" + Py_TYPE(value)->tp_name +
          ") cannot be passed; give its address (array.data_ptr(), array.data.ptr), or a "
          "StridedMemoryView of it";
      PyErr_SetString(PyExc_TypeError, text.c_str());
      throw nb::python_error();
    }
    default: {
      const std::string text =
          where(kernel, index) + ": a " + Py_TYPE(value)->tp_name +
          " cannot be passed; give a Buffer, an address (int), a NumPy or ctypes scalar or "
          "structure, or a bool, int, float or complex";
      PyErr_SetString(PyExc_TypeError, text.c_str());
      throw nb::python_error();
    }
  }
  if (!accepts(param.kind, type)) wrong_kind(kernel, index, value, param);
  if (has == size) {
    pointers_[index] = const_cast<void*>(source);
    return;
  }
  if (type.is_integer && size <= 8 && has <= 8) {  // checked by value, not by width
    std::uint64_t bits = 0;
    std::memcpy(&bits, source, has);
    bool negative = false;
    if (type.is_signed && has < 8 && ((bits >> (has * 8 - 1)) & 1) != 0)
      bits |= ~std::uint64_t{0} << (has * 8);
    if (type.is_signed) negative = static_cast<std::int64_t>(bits) < 0;
    if (store_integer(place, size, negative, bits)) return;
  }
  wrong_size(kernel, index, value, has, size);
}

void retain_in_graph(PyObject* builder, PyObject* const* objects, Py_ssize_t count) {
  if (!is_graph_builder(builder)) return;  // a foreign stream: nothing is captured through it
  if (!native_builder(builder).is_building()) return;
  const nb::object list = builder_slot(builder, BuilderSlot::held);
  if (!list.is_valid() || PyList_Check(list.ptr()) == 0) throw nb::python_error();
  retain_in_list(list.ptr(), objects, count);
}

namespace {

/// Returns whether an object, or the memory of a buffer, is among the last entries of a list:
/// launches in a loop repeatedly use the same ones.
bool is_kept_recently([[maybe_unused]] PyObject* list, [[maybe_unused]] PyObject* object) noexcept {
#ifndef Py_GIL_DISABLED
  constexpr Py_ssize_t kLast = 16;
  const Py_ssize_t size = PyList_GET_SIZE(list);
  for (Py_ssize_t i = size; i-- > 0 && size - i <= kLast;) {
    PyObject* const kept = PyList_GET_ITEM(list, i);
    if (kept == object || is_held_memory_of(kept, object)) return true;
  }
#endif
  return false;
}

}  // namespace

void retain_in_list(PyObject* list, PyObject* const* objects, Py_ssize_t count) {
  const nb::object alive = nb::borrow(list);  // the garbage collector may run and close the builder
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* object = objects[i];
    if (object == nullptr || Py_IsNone(object) || PyLong_CheckExact(object) ||
        PyFloat_CheckExact(object))
      continue;  // passed by value
    PyTypeObject* const type = Py_TYPE(object);
    if (type == fast_path_types.kernel_type || type == fast_path_types.buffer_type) {
      if (is_kept_recently(list, object)) continue;
    } else if (const ValueType* const known = known_types.find(type);
               known != nullptr && known->kind == ValueType::in_object) {
      continue;  // a NumPy scalar is passed by value, too
    }
    const nb::object held = type == fast_path_types.kernel_type ? nb::borrow(object) : hold(object);
    if (PyList_Append(list, held.ptr()) < 0) throw nb::python_error();
  }
}

}  // namespace cucore::python
