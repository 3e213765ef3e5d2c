// SPDX-License-Identifier: Apache-2.0
// option_values.cpp: conversion of option values.
#include "option_values.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

namespace cucore::python {
namespace {

const char* kind_of(nb::handle value) { return Py_TYPE(value.ptr())->tp_name; }

template <class... Args>
[[noreturn]] void refuse(PyObject* error, const char* format, Args... args) {
  PyErr_Format(error, format, args...);
  throw nb::python_error();
}

/// Converts an integer; false for other values (int() would truncate fractions).
bool whole(nb::handle value, std::int64_t* out) {
  const nb::object number =
      PyIndex_Check(value.ptr()) != 0 ? nb::steal(PyNumber_Index(value.ptr())) : nb::object{};
  int overflow = 0;
  *out = number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : 0;
  if (overflow != 0)
    *out = overflow > 0 ? std::numeric_limits<std::int64_t>::max()
                        : std::numeric_limits<std::int64_t>::min();
  PyErr_Clear();
  return number.is_valid();
}

}  // namespace

int word_value(nb::handle value, const char* name, std::span<const char* const> words) {
  std::string known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (PyUnicode_Check(value.ptr()) != 0 &&
        PyUnicode_CompareWithASCIIString(value.ptr(), words[i]) == 0)
      return static_cast<int>(i);
    known += (i == 0 ? "'" : "', '") + std::string{words[i]};
  }
  refuse(PyExc_ValueError, "%s must be one of %s', not %R", name, known.c_str(), value.ptr());
}

unsigned number_value(nb::handle value, const char* name, std::int64_t least) {
  std::int64_t number = 0;
  if (!whole(value, &number))
    refuse(PyExc_TypeError, "%s must be an int, not %s", name, kind_of(value));
  if (number < least || number > std::numeric_limits<std::int32_t>::max()) {
    refuse(PyExc_ValueError, "%s must be at least %lld and below 2**31, not %R", name,
           static_cast<long long>(least), value.ptr());
  }
  return static_cast<unsigned>(number);
}

float real_value(nb::handle value, const char* name) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(PyExc_TypeError, "%s must be a number, not %s", name, kind_of(value));
  }
  return static_cast<float>(number);
}

std::vector<nb::object> sequence_values(nb::handle value, const char* name, const char* of_what) {
  const bool is_text = PyUnicode_Check(value.ptr()) != 0 || PyBytes_Check(value.ptr()) != 0;
  const nb::object all = is_text ? nb::object{} : nb::steal(PySequence_Tuple(value.ptr()));
  if (!all.is_valid()) {
    PyErr_Clear();
    refuse(PyExc_TypeError, "%s must be a tuple of %s, not %s", name, of_what, kind_of(value));
  }
  std::vector<nb::object> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.ptr()); ++i)
    values.push_back(nb::borrow(PyTuple_GET_ITEM(all.ptr(), i)));
  return values;
}

std::vector<std::int64_t> int_values(nb::handle value, const char* name) {
  std::vector<std::int64_t> numbers;
  for (const nb::object& item : sequence_values(value, name, "ints")) {
    std::int64_t number = 0;
    if (!whole(item, &number)) {
      refuse(PyExc_TypeError, "%s[%zd] must be an int, not %s", name,
             static_cast<Py_ssize_t>(numbers.size()), kind_of(item));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::string> text_values(nb::handle value, const char* name, bool bytearrays) {
  if (PyUnicode_Check(value.ptr()) != 0 || PyBytes_Check(value.ptr()) != 0)
    refuse(PyExc_TypeError, "%s must be a tuple or list of names, not one name", name);
  std::vector<std::string> texts;
  for (const nb::object& item : sequence_values(value, name, "names")) {
    PyObject* const object = item.ptr();
    Py_ssize_t size = 0;
    if (PyUnicode_Check(object) != 0) {
      const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
      if (text == nullptr) throw nb::python_error();
      texts.emplace_back(text, static_cast<std::size_t>(size));
    } else if (PyBytes_Check(object) != 0) {
      texts.emplace_back(PyBytes_AS_STRING(object),
                         static_cast<std::size_t>(PyBytes_GET_SIZE(object)));
    } else if (bytearrays && PyByteArray_Check(object) != 0) {
      texts.emplace_back(PyByteArray_AS_STRING(object),
                         static_cast<std::size_t>(PyByteArray_GET_SIZE(object)));
    } else {
      refuse(PyExc_TypeError, "%s[%zd] must be a str or bytes, not %s", name,
             static_cast<Py_ssize_t>(texts.size()), kind_of(item));
    }
  }
  return texts;
}

int enum_value(nb::handle value, const char* name, nb::handle type) {
  const int is_one = PyObject_IsInstance(value.ptr(), type.ptr());
  if (is_one < 0) throw nb::python_error();
  if (is_one == 0) {
    refuse(PyExc_TypeError, "%s must be a %s, not %s", name,
           reinterpret_cast<PyTypeObject*>(type.ptr())->tp_name, kind_of(value));
  }
  const long number = PyLong_AsLong(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return static_cast<int>(number);
}

static void bind_option_values(nb::module_& m) {
  m.def("text_values", &text_values, "value"_a.none(), "name"_a, "bytearrays"_a = false);
  // Converts an options argument: an object of the class, or a dict of its fields.
  m.def(
      "options_of", [](nb::handle given, nb::handle cls) { return options_of(given.ptr(), cls); },
      "given"_a.none(), "cls"_a);
  // Likewise; None selects the defaults.
  m.def(
      "options_or_default",
      [](nb::handle given, nb::handle cls) {
        return given.is_none() ? nb::object(cls()) : options_of(given.ptr(), cls);
      },
      "given"_a.none(), "cls"_a);
}
CUCORE_BIND(kBindRest, bind_option_values)

}  // namespace cucore::python
