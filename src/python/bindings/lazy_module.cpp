// SPDX-License-Identifier: Apache-2.0
// lazy_module.cpp: the class of modules whose names are created on first use.
//
// A module with a `__getattr__` pays for it at every attribute access: the interpreter looks up the
// type and the dict each time, and never specializes the access. Modules of this class look into
// their dict first, cache the result, and call the module's `_missing` function only for a name
// that is not in the dict.
#include <iterator>

#include "engine.hpp"

namespace cucore::bindings {
namespace {

/// Returns the key of the function in the module's dict that creates names.
PyObject* missing_key() {
  static PyObject* const key = PyUnicode_InternFromString("_missing");
  return key;
}

/// Returns an item of a dict. New reference; null, possibly with an exception set, if there is
/// none.
PyObject* entry_of(PyObject* dict, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  (void)PyDict_GetItemRef(dict, name, &found);
  return found;
#else
  return Py_XNewRef(PyDict_GetItemWithError(dict, name));
#endif
}

/// Looks up attributes of every module (`__dict__`, `__class__`), then calls the module's function.
[[gnu::noinline]] PyObject* find_or_make(PyObject* self, PyObject* dict, PyObject* name) {
  if (PyErr_Occurred()) return nullptr;
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  const Ref make{entry_of(dict, missing_key())};
  if (!make) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_AttributeError, "module has no attribute '%U' yet", name);
    return nullptr;
  }
  return PyObject_CallOneArg(make.get(), name);
}

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
/// A cache entry: the value of a name in a version of a dict. The version tag changes with every
/// change of the dict and is unique among all dicts, so that an entry with the current tag is
/// valid, and its value alive.
struct Remembered {
  std::uint64_t tag;
  PyObject* dict;
  PyObject* name;  // owned, so that its address is not reused
  PyObject* value;
};
Remembered remembered[256];

std::uint64_t tag_of(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<const PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

[[gnu::noinline]] PyObject* remember(PyObject* self, PyObject* dict, PyObject* name,
                                     Remembered& place) {
  PyObject* found = PyDict_GetItemWithError(dict, name);  // borrowed
  if (found == nullptr) return find_or_make(self, dict, name);
  Py_INCREF(found);
  if (PyUnicode_CHECK_INTERNED(name)) {
    PyObject* before = place.name;
    place = {tag_of(dict), dict, Py_NewRef(name), found};
    Py_XDECREF(before);
  }
  return found;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* dict =
      *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + PyModule_Type.tp_dictoffset);
  const auto address = reinterpret_cast<std::uintptr_t>(name);
  Remembered& place = remembered[((address >> 4) ^ (address >> 12)) % std::size(remembered)];
  if (place.name == name && place.dict == dict && place.tag == tag_of(dict)) [[likely]]
    return Py_NewRef(place.value);
  return remember(self, dict, name, place);
}
#else
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* dict = PyModule_GetDict(self);  // borrowed
  if (PyObject* found = entry_of(dict, name); found != nullptr) [[likely]]
    return found;
  return find_or_make(self, dict, name);
}
#endif

}  // namespace

PyObject* make_lazy_module_type() {
  PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("A module whose names are made when first touched.")},
      {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
      {0, nullptr},
  };
  PyType_Spec spec{"cuda.bindings._bindings.LazyModule", 0, 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  return PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(&PyModule_Type));
}

}  // namespace cucore::bindings
