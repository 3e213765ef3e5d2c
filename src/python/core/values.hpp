// SPDX-License-Identifier: Apache-2.0
// values.hpp: frequent operations on objects without nanobind's dispatch: properties of plain
// values, equality and hashes. A nanobind property takes twice as long.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "support.hpp"

namespace cucore::python {

template <class Value>
PyObject* as_python(Value&& value) {
  using Plain = std::remove_cvref_t<Value>;
  if constexpr (std::is_same_v<Plain, bool>)
    return Py_NewRef(value ? Py_True : Py_False);
  else if constexpr (std::is_same_v<Plain, std::string>)
    return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  else if constexpr (std::is_integral_v<Plain> && std::is_signed_v<Plain>)
    return PyLong_FromLongLong(value);
  else if constexpr (std::is_integral_v<Plain>)
    return PyLong_FromUnsignedLongLong(value);
  else
    return nb::object{std::forward<Value>(value)}.release().ptr();
}

template <class R, class C, class A>
A argument_of(R (C::*)(A) const);  // the parameter type of a lambda

/// Adds a read-only property: the result of a captureless lambda for the C++ value or the object.
template <class Function>
void def_value(nb::handle type, const char* name, Function, const char* doc) {
  using Argument = decltype(argument_of(&Function::operator()));
  def_get(
      type, name,
      [](PyObject* self) -> PyObject* {
        if constexpr (std::is_same_v<Argument, nb::handle>) {
          return as_python(Function{}(nb::handle{self}));
        } else {
          const nb::ft_object_guard alone{nb::handle{self}};
          return as_python(Function{}(self_of<std::remove_cvref_t<Argument>>(self)));
        }
      },
      doc);
}

/// Adds a read-only property that is created once, by the captureless lambda `make`, and cached in
/// the value. The created object must not refer to the object of the property.
template <class Value, nb::object Value::*kept, auto make>
void def_kept(nb::handle type, const char* name, const char* doc) {
  def_get(
      type, name,
      [](PyObject* self) -> PyObject* {
        const nb::ft_object_guard alone{nb::handle{self}};
        Value& value = self_of<Value>(self);
        if (!(value.*kept).is_valid()) {
          nb::object made = make(value);
          if (!(value.*kept).is_valid()) value.*kept = std::move(made);  // `make` may set it, too
        }
        return Py_NewRef((value.*kept).ptr());
      },
      doc);
}

/// tp_richcompare and tp_hash of a class for nb::type_slots. Objects are equal if the captureless
/// lambda `equal` returns true for their values. NotImplemented for an object that is not a T.
template <class T, auto equal>
PyObject* compare_values(PyObject* a, PyObject* b, int op) noexcept {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  if (Py_TYPE(a) != Py_TYPE(b)) {
    static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<T>().ptr());
    if (!PyObject_TypeCheck(b, type)) Py_RETURN_NOTIMPLEMENTED;
  }
  const nb::ft_object2_guard alone{nb::handle{a}, nb::handle{b}};
  return Py_NewRef(equal(self_of<T>(a), self_of<T>(b)) == (op == Py_EQ) ? Py_True : Py_False);
}
template <class T, auto number>
Py_hash_t hash_value(PyObject* self) noexcept {
  const nb::ft_object_guard alone{nb::handle{self}};
  const auto hash = static_cast<Py_hash_t>(number(self_of<T>(self)));
  return hash == -1 ? -2 : hash;
}
template <class T, auto equal, auto number>
inline PyType_Slot equality_slots[] = {
    {Py_tp_richcompare, reinterpret_cast<void*>(&compare_values<T, equal>)},
    {Py_tp_hash, reinterpret_cast<void*>(&hash_value<T, number>)},
    {0, nullptr},
};

}  // namespace cucore::python
