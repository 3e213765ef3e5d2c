// SPDX-License-Identifier: Apache-2.0
// fast_options.cpp: creation of options objects (EventOptions, StreamOptions) without their Python
// __init__, which takes three times as long.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>

#include "support.hpp"

namespace cucore::python {
namespace {

constexpr std::size_t kMostFields = 4;

/// A class whose __init__ only assigns each parameter to the slot of the same name.
struct OptionsClass {
  PyObject* type = nullptr;
  std::size_t count = 0;
  std::array<PyObject*, kMostFields> names{};  // interned, never released
  std::array<PyObject*, kMostFields> fallbacks{};
  std::array<Py_ssize_t, kMostFields> offsets{};
};
std::array<OptionsClass, 8> classes;  // filled by the import of their module
std::size_t class_count = 0;

const OptionsClass& class_of(PyObject* type) {
  std::size_t i = 0;
  while (classes[i].type != type) ++i;  // only classes in here are called this way
  return classes[i];
}

/// Calls the class the regular way: for older names of parameters, and for errors.
[[gnu::noinline]] PyObject* call_slowly(PyObject* type, PyObject* const* args, Py_ssize_t nargs,
                                        PyObject* kwnames) {
  const nb::object positional = nb::steal(PyTuple_New(nargs));
  const nb::object named = nb::steal(PyDict_New());
  if (!positional.is_valid() || !named.is_valid()) return nullptr;
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(positional.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; kwnames != nullptr && i < PyTuple_GET_SIZE(kwnames); ++i)
    if (PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
      return nullptr;
  return PyType_Type.tp_call(type, positional.ptr(), named.ptr());
}

PyObject* call(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const OptionsClass& known = class_of(type);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  std::array<PyObject*, kMostFields> given{};
  bool is_plain = static_cast<std::size_t>(nargs) <= known.count;
  for (Py_ssize_t i = 0; is_plain && i < nargs; ++i) given[static_cast<std::size_t>(i)] = args[i];
  for (Py_ssize_t k = 0; is_plain && kwnames != nullptr && k < PyTuple_GET_SIZE(kwnames); ++k) {
    std::size_t at = 0;
    while (at < known.count && known.names[at] != PyTuple_GET_ITEM(kwnames, k)) ++at;
    is_plain = at < known.count && given[at] == nullptr;
    if (is_plain) given[at] = args[nargs + k];
  }
  if (!is_plain) return call_slowly(type, args, nargs, kwnames);
  PyObject* const made =
      reinterpret_cast<PyTypeObject*>(type)->tp_alloc(reinterpret_cast<PyTypeObject*>(type), 0);
  for (std::size_t i = 0; made != nullptr && i < known.count; ++i) {
    PyObject* const value = given[i] != nullptr ? given[i] : known.fallbacks[i];
    *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(made) + known.offsets[i]) =
        Py_NewRef(value);
  }
  return made;
}

/// A class decorator. The parameters and their defaults are those of __init__.
nb::object quick_options(nb::object type) {
  OptionsClass made;
  const nb::object init = type.attr("__init__");
  const nb::tuple fallbacks = nb::cast<nb::tuple>(init.attr("__defaults__"));
  const nb::object names = init.attr("__code__").attr("co_varnames");
  made.count = fallbacks.size();
  if (made.count > kMostFields || class_count == classes.size() ||
      nb::cast<std::size_t>(init.attr("__code__").attr("co_argcount")) != made.count + 1)
    throw nb::type_error("quick_options(): more than it has room for, or a field without default");
  for (std::size_t i = 0; i < made.count; ++i) {
    nb::object name = names[i + 1];
    const nb::object slot = nb::getattr(type, name);
    const auto* const descriptor = reinterpret_cast<PyMemberDescrObject*>(slot.ptr());
    if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type || descriptor->d_member->type != T_OBJECT_EX)
      throw nb::type_error("quick_options(): a parameter that is no slot");
    made.offsets[i] = descriptor->d_member->offset;
    made.names[i] = name.release().ptr();
    PyUnicode_InternInPlace(&made.names[i]);
    made.fallbacks[i] = nb::object{fallbacks[i]}.release().ptr();
  }
  made.type = type.ptr();
  classes[class_count++] = made;
  set_type_call(type, call);
  return type;
}

}  // namespace

void bind_quick_options(nb::module_& m) { m.def("quick_options", &quick_options); }
CUCORE_BIND(kBindRest, bind_quick_options)

}  // namespace cucore::python
