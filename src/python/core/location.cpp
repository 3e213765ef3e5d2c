// SPDX-License-Identifier: Apache-2.0
// location.cpp: memory locations (cuda.core.Host and Device).
#include "location.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace cucore::python {

Location location_argument(nb::handle place) {
  if (nb::isinstance<Location>(place)) return nb::cast<Location>(place);
  static PyObject* const name = PyUnicode_InternFromString("_location");  // of a Host
  if (const nb::object of_host = nb::steal(PyObject_GetAttr(place.ptr(), name));
      of_host.is_valid() && nb::isinstance<Location>(of_host))
    return nb::cast<Location>(of_host);
  PyErr_Clear();
  const bool is_number = PyLong_Check(place.ptr()) != 0 && PyBool_Check(place.ptr()) == 0;
  if (is_number && PyLong_AsLong(place.ptr()) == -1) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return Location::host();
  }
  if (is_number || is_device(place)) return Location::device(device_number(place));
  PyErr_Format(PyExc_TypeError, "a location must be a Device or a Host, not %s",
               Py_TYPE(place.ptr())->tp_name);
  throw nb::python_error();
}

std::vector<Location> location_arguments(nb::handle places, std::size_t count) {
  if (PySequence_Check(places.ptr()) == 0 || PyUnicode_Check(places.ptr()) != 0)
    return {location_argument(places)};
  std::vector<Location> out;
  for (nb::handle place : places) out.push_back(location_argument(place));
  if (out.size() != count) {
    PyErr_Format(PyExc_ValueError,
                 "there are %zu buffers but %zu locations: give one for all, or one each", count,
                 out.size());
    throw nb::python_error();
  }
  return out;
}

namespace {

/// Returns the location of a Host. Throws ValueError or TypeError for an invalid node.
Location host_of(nb::handle numa_id, bool is_numa_current) {
  if (numa_id.is_none()) return Location::host_of(std::nullopt, is_numa_current);
  if (PyLong_Check(numa_id.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "Host: numa_id must be an int or None, not %s",
                 Py_TYPE(numa_id.ptr())->tp_name);
    throw nb::python_error();
  }
  int overflow = 0;
  const long node = PyLong_AsLongAndOverflow(numa_id.ptr(), &overflow);
  if (PyBool_Check(numa_id.ptr()) != 0 || overflow != 0 || node != static_cast<int>(node)) {
    PyErr_Format(PyExc_ValueError, "Host: numa_id must be an int of at least 0, not %S",
                 numa_id.ptr());
    throw nb::python_error();
  }
  return Location::host_of(static_cast<int>(node), is_numa_current);
}

}  // namespace

void bind_location(nb::module_& m) {
  nb::class_<Location>(m, "_Location")
      .def_static("host", &host_of, "numa_id"_a.none(), "is_numa_current"_a)
      .def_prop_ro("is_device", &Location::is_device)
      .def_prop_ro("id", &Location::id)
      .def_prop_ro("numa_id", &Location::numa_id)
      .def_prop_ro("is_numa_current", &Location::is_numa_current)
      .def_prop_ro("text", &Location::text)
      .def("__eq__", [](const Location& self, const Location& other) { return self == other; })
      .def("__hash__", [](const Location& self) { return std::hash<Location>{}(self); });
}
CUCORE_BIND(kBindDevice, bind_location)

}  // namespace cucore::python
