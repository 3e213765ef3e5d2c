// SPDX-License-Identifier: Apache-2.0
// convert.cpp: conversion of single values between Python and C: integers, floats, enums, handles,
// records, text, addresses.
#include <algorithm>
#include <cmath>

#include "engine.hpp"

namespace cucore::bindings {
namespace {

struct Range {
  std::int64_t low;
  std::uint64_t high;
};

constexpr Range range_of(Kind kind) {
  switch (kind) {
    case Kind::i8:
      return {INT8_MIN, INT8_MAX};
    case Kind::u8:
      return {0, UINT8_MAX};
    case Kind::i16:
      return {INT16_MIN, INT16_MAX};
    case Kind::u16:
      return {0, UINT16_MAX};
    case Kind::i32:
      return {INT32_MIN, INT32_MAX};
    case Kind::u32:
      return {0, UINT32_MAX};
    case Kind::i64:
      return {INT64_MIN, INT64_MAX};
    case Kind::u64:
      return {0, UINT64_MAX};
    default:
      return {INT32_MIN, UINT32_MAX};  // 32 bits, signed or unsigned
  }
}

bool wrong_type(PyObject* value, const char* expected, const Where& where) {
  PyErr_Format(PyExc_TypeError, "%s%s%s must be %s, not %s", where.owner, where.joint, where.name,
               expected, Py_TYPE(value)->tp_name);
  return false;
}

bool out_of_range(PyObject* value, Kind kind, const Where& where) {
  PyErr_Clear();
  const Range range = range_of(kind);
  PyErr_Format(PyExc_OverflowError, "%s%s%s must be between %lld and %llu, got %S", where.owner,
               where.joint, where.name, static_cast<long long>(range.low),
               static_cast<unsigned long long>(range.high), value);
  return false;
}

/// Converts a Python int in range to the widened value.
bool exact_integer(PyObject* value, Kind kind, const Where& where, Slot* out) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
  const Range range = range_of(kind);
  if (overflow == 0) [[likely]] {
    if (small == -1 && PyErr_Occurred()) return false;
    if (small < range.low || (small > 0 && static_cast<std::uint64_t>(small) > range.high)) {
      return out_of_range(value, kind, where);
    }
    out->i = small;
    return true;
  }
  if (overflow < 0 || range.high != UINT64_MAX) return out_of_range(value, kind, where);
  const unsigned long long big = PyLong_AsUnsignedLongLong(value);
  if (big == ~0ULL && PyErr_Occurred()) return out_of_range(value, kind, where);
  out->u = big;
  return true;
}

/// Returns whether a CUkernel is given for a CUfunction. The driver accepts that: it is the
/// function in the current context.
bool is_kernel_as_function(TypeId given, TypeId wanted) {
  return std::strcmp(name_of(given), "CUkernel") == 0 &&
         std::strcmp(name_of(wanted), "CUfunction") == 0;
}

bool handle_argument(PyObject* value, TypeId type, const Where& where, Slot* out) {
  if (is_handle(value)) [[likely]] {
    const auto* handle = reinterpret_cast<HandleObject*>(value);
    const TypeRow& row = row_of(type);
    const TypeRow& given = row_of(handle->type);
    // Integers with a class (CUdeviceptr, cuuint64_t) convert by value; a handle must be of the
    // right type.
    if (handle->root != row.root &&
        !(row.kind == TypeClass::integer && given.kind == TypeClass::integer) &&
        !is_kernel_as_function(handle->root, row.root)) {
      return wrong_type(value, name_of(type), where);
    }
    out->u = handle_value(handle);
    return true;
  }
  if (Py_IsNone(value)) {
    out->u = 0;
    return true;
  }
  const TypeRow& row = row_of(type);
  if (PyBool_Check(value) && row.kind != TypeClass::integer)
    return wrong_type(value, name_of(type), where);
  if (PyLong_Check(value)) return exact_integer(value, range_kind(row), where, out);
  if (std::strcmp(name_of(row.root), "CUstream") == 0 &&
      PyObject_HasAttrString(value, "__cuda_stream__")) {
    Ref protocol{PyObject_GetAttrString(value, "__cuda_stream__")};
    Ref pair = protocol && PyCallable_Check(protocol.get())
                   ? Ref{PyObject_CallNoArgs(protocol.get())}
                   : std::move(protocol);
    if (!pair) return false;
    Ref number{PySequence_GetItem(pair.get(), 1)};
    return number && to_integer(number.get(), Kind::u64, where, out);
  }
  return to_integer(value, range_kind(row), where, out);
}

}  // namespace

std::size_t size_of(Kind kind, TypeId type) {
  switch (kind) {
    case Kind::i8:
    case Kind::u8:
      return 1;
    case Kind::i16:
    case Kind::u16:
      return 2;
    case Kind::i32:
    case Kind::u32:
    case Kind::f32:
    case Kind::boolean:
    case Kind::enumeration:
      return 4;
    case Kind::handle:
    case Kind::record:
      return row_of(type).size;
    default:
      return 8;
  }
}

bool to_integer(PyObject* value, Kind kind, const Where& where, Slot* out) {
  if (PyLong_Check(value)) [[likely]]
    return exact_integer(value, kind, where, out);
  // NumPy scalars and zero-dimensional arrays, handles: __index__ first, then __int__. A float must
  // be a whole number.
  if (PyFloat_Check(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    if (number != std::floor(number) || std::isinf(number))
      return wrong_type(value, "an integer", where);
    Ref whole{PyLong_FromDouble(number)};
    return whole && exact_integer(whole.get(), kind, where, out);
  }
  if (PyUnicode_Check(value) || PyBytes_Check(value) || PyByteArray_Check(value)) {
    return wrong_type(value, "an integer", where);
  }
  const PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
  if (number == nullptr || (number->nb_index == nullptr && number->nb_int == nullptr)) {
    return wrong_type(value, "an integer", where);
  }
  Ref integer{number->nb_index != nullptr ? PyNumber_Index(value) : PyNumber_Long(value)};
  if (!integer && number->nb_index != nullptr && number->nb_int != nullptr &&
      PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // an array of one element has an __index__ that raises
    integer = Ref{PyNumber_Long(value)};
  }
  if (!integer) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();
      return wrong_type(value, "an integer", where);
    }
    return false;
  }
  return exact_integer(integer.get(), kind, where, out);
}

bool to_slot(PyObject* value, Kind kind, TypeId type, const Where& where, Slot* out) {
  switch (kind) {
    case Kind::i8:
    case Kind::u8:
    case Kind::i16:
    case Kind::u16:
    case Kind::i32:
    case Kind::u32:
    case Kind::i64:
    case Kind::u64:
      return to_integer(value, kind, where, out);
    case Kind::boolean: {
      if (PyBool_Check(value)) {
        out->i = Py_IsTrue(value);
        return true;
      }
      return to_integer(value, Kind::i32, where, out);
    }
    case Kind::enumeration:
      if (PyLong_Check(value)) [[likely]]
        return exact_integer(value, Kind::none, where, out);
      if (PyObject_HasAttrString(value, "value")) {  // Python's own enum.Enum
        Ref inner{PyObject_GetAttrString(value, "value")};
        return inner && to_integer(inner.get(), Kind::none, where, out);
      }
      return wrong_type(value, name_of(type), where);
    case Kind::f32:
    case Kind::f64: {
      out->d = PyFloat_AsDouble(value);
      if (out->d == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return wrong_type(value, "a number", where);
      }
      return true;
    }
    case Kind::handle:
      return handle_argument(value, type, where, out);
    case Kind::record: {
      RecordObject* record = expect_record(value, type, where);
      if (record == nullptr) return false;
      out->p = record->place;
      return true;
    }
    case Kind::address:
    case Kind::text:
    case Kind::cstring:
    case Kind::kernel:
    case Kind::array: {
      Frame frame;  // callers that must keep a buffer alive use to_address
      return to_address(value, where, frame, 0, false, out);
    }
    default:
      PyErr_Format(PyExc_SystemError, "%s%s%s: no conversion", where.owner, where.joint,
                   where.name);
      return false;
  }
}

void put(const Slot& slot, Kind kind, TypeId type, void* place) {
  switch (kind) {
    case Kind::f32: {
      const auto narrow = static_cast<float>(slot.d);
      std::memcpy(place, &narrow, sizeof narrow);
      break;
    }
    case Kind::f64:
      std::memcpy(place, &slot.d, sizeof slot.d);
      break;
    case Kind::record:
      std::memcpy(place, slot.p, row_of(type).size);
      break;
    default: {
      const std::size_t size = size_of(kind, type);
      if (size == 8) {
        std::memcpy(place, &slot.u, 8);
      } else if (size == 4) {
        const auto narrow = static_cast<std::uint32_t>(slot.u);
        std::memcpy(place, &narrow, 4);
      } else if (size == 2) {
        const auto narrow = static_cast<std::uint16_t>(slot.u);
        std::memcpy(place, &narrow, 2);
      } else {
        const auto narrow = static_cast<std::uint8_t>(slot.u);
        std::memcpy(place, &narrow, 1);
      }
    }
  }
}

bool store(PyObject* value, Kind kind, TypeId type, const Where& where, void* place,
           RecordObject* into) {
  Slot slot{};
  if (!to_slot(value, kind, type, where, &slot)) return false;
  if (kind == Kind::record) {
    if (slot.p == place) return true;
    if (into != nullptr && !keep_copied(into, place, reinterpret_cast<RecordObject*>(value)))
      return false;
    std::memmove(place, slot.p, row_of(type).size);
    return true;
  }
  put(slot, kind, type, place);
  return true;
}

PyObject* load(Kind kind, TypeId type, const void* place, PyObject* owner, std::size_t length) {
  const auto read = [place]<class T>(T initial) {
    std::memcpy(&initial, place, sizeof initial);
    return initial;
  };
  switch (kind) {
    case Kind::i8:
      return PyLong_FromLong(read(std::int8_t{}));
    case Kind::u8:
      return PyLong_FromLong(read(std::uint8_t{}));
    case Kind::i16:
      return PyLong_FromLong(read(std::int16_t{}));
    case Kind::u16:
      return PyLong_FromLong(read(std::uint16_t{}));
    case Kind::i32:
      return PyLong_FromLong(read(std::int32_t{}));
    case Kind::u32:
      return PyLong_FromUnsignedLong(read(std::uint32_t{}));
    case Kind::i64:
      return PyLong_FromLongLong(read(std::int64_t{}));
    case Kind::u64:
    case Kind::address:
    case Kind::kernel:
    case Kind::array:
      return PyLong_FromUnsignedLongLong(read(std::uint64_t{}));
    case Kind::f32:
      return PyFloat_FromDouble(static_cast<double>(read(float{})));
    case Kind::f64:
      return PyFloat_FromDouble(read(double{}));
    case Kind::boolean:
      return PyBool_FromLong(read(std::int32_t{}));
    case Kind::enumeration:
      return enum_member(type, read(std::int32_t{}));
    case Kind::handle: {
      if (row_of(type).size == 4)
        return new_handle(type, static_cast<std::uint64_t>(read(std::uint32_t{})));
      return new_handle(type, read(std::uint64_t{}));
    }
    case Kind::record: {
      if (owner != nullptr)
        return reinterpret_cast<PyObject*>(view_record(type, const_cast<void*>(place), owner));
      RecordObject* copy = new_record(type);
      if (copy != nullptr) std::memcpy(copy->place, place, row_of(type).size);
      return reinterpret_cast<PyObject*>(copy);
    }
    case Kind::text: {
      const char* text = read(static_cast<const char*>(nullptr));
      if (text == nullptr) Py_RETURN_NONE;
      return PyBytes_FromString(text);
    }
    case Kind::chars: {
      const auto* text = static_cast<const char*>(place);
      return PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(strnlen(text, length)));
    }
    case Kind::string: {
      const auto* text = static_cast<const char*>(place);
      return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strnlen(text, length)), "replace");
    }
    case Kind::cstring: {
      const char* text = read(static_cast<const char*>(nullptr));
      if (text == nullptr) Py_RETURN_NONE;
      return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
    }
    case Kind::bytes:
      return PyBytes_FromStringAndSize(static_cast<const char*>(place),
                                       static_cast<Py_ssize_t>(length));
    default:
      Py_RETURN_NONE;
  }
}

const AttributeRow* attribute_row(const Api& api, std::uint16_t table, std::int64_t value) {
  const AttributeRow* end = api.attributes + api.attribute_count;
  const AttributeRow* found = std::lower_bound(
      api.attributes, end, std::pair{table, value}, [](const AttributeRow& row, auto key) {
        return row.table != key.first ? row.table < key.first : row.value < key.second;
      });
  return found != end && found->table == table && found->value == value ? found : nullptr;
}

}  // namespace cucore::bindings
