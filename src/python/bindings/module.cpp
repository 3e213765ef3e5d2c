// SPDX-License-Identifier: Apache-2.0
// module.cpp: cuda.bindings._bindings, the one extension module of all modules of
// cuda.bindings.
#include <cstring>

#include "cucore/driver.hpp"
#include "cucore/graph.hpp"
#include "cucore/pathfinder.hpp"
#include "engine.hpp"
#include "python/foreign_threads.hpp"

namespace cucore::bindings {

#define CUCORE_API(name) extern const Api k##name##Api;
#include "apis.inc"
#undef CUCORE_API

const Api* const kApis[16] = {
#define CUCORE_API(name) &k##name##Api,
#include "apis.inc"
#undef CUCORE_API
};

namespace {

const NameRow* find_name(const Api& api, const char* name) {
  int low = 0, high = api.name_count - 1;
  while (low <= high) {
    const int middle = (low + high) / 2;
    const int order = std::strcmp(api.text + api.names[middle].name, name);
    if (order == 0) return &api.names[middle];
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle - 1;
  }
  return nullptr;
}

const Api* api_argument(const char* module) {
  const Api* api = find_api(module);
  if (api == nullptr) PyErr_Format(PyExc_ValueError, "no rendered API is called %s", module);
  return api;
}

PyObject* attribute(PyObject*, PyObject* args) {
  const char *module = nullptr, *name = nullptr;
  int raising = 0;
  if (!PyArg_ParseTuple(args, "ss|p", &module, &name, &raising)) return nullptr;
  const Api* api = api_argument(module);
  if (api == nullptr) return nullptr;
  PyObject* made = make_attribute(*api, name, raising != 0);
  if (made == nullptr && !PyErr_Occurred()) {
    PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%s'", module, name);
  }
  return made;
}

PyObject* names(PyObject*, PyObject* args) {
  const char* module = nullptr;
  if (!PyArg_ParseTuple(args, "s", &module)) return nullptr;
  const Api* api = api_argument(module);
  if (api == nullptr) return nullptr;
  Ref list{PyList_New(api->name_count)};
  for (int i = 0; list && i < api->name_count; ++i) {
    PyObject* name = PyUnicode_FromString(api->text + api->names[i].name);
    if (name == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, name);
  }
  return list.release();
}

PyObject* size_of_class(PyObject*, PyObject* type) {
  const TypeId id = PyType_Check(type) ? type_of(reinterpret_cast<PyTypeObject*>(type)) : kNoType;
  if (id == kNoType || row_of(id).kind == TypeClass::enumeration) {
    return PyErr_Format(PyExc_TypeError, "Unknown type: %R", type);
  }
  return PyLong_FromLong(row_of(id).size);
}

PyObject* set_raise_status(PyObject*, PyObject* function) {
  Py_XSETREF(raise_status, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* driver_report(PyObject*, PyObject*) {
  try {
    const DriverInfo& info = driver_info();
    return Py_BuildValue("{s:s,s:i,s:s}", "device", info.kind == DeviceKind::cpu ? "cpu" : "gpu",
                         "version", info.version, "path", info.path.c_str());
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
  }
}

/// layout(class): size and (name, offset, kind, class or None, length) per field, for NumPy dtypes.
PyObject* layout(PyObject*, PyObject* type) {
  const TypeId id = PyType_Check(type) ? type_of(reinterpret_cast<PyTypeObject*>(type)) : kNoType;
  if (id == kNoType || row_of(id).kind != TypeClass::record)
    return PyErr_Format(PyExc_TypeError, "not a struct: %R", type);
  const Api& api = api_of(id);
  const TypeRow& row = row_of(id);
  Ref list{PyList_New(row.count)};
  for (int i = 0; list && i < row.count; ++i) {
    const FieldRow& f = api.fields[row.first + i];
    PyObject* inner = f.kind == Kind::record ? class_of(f.type) : Py_None;
    PyObject* item =
        inner == nullptr
            ? nullptr
            : Py_BuildValue("(siiOi)", api.text + f.name, static_cast<int>(f.offset),
                            static_cast<int>(f.kind), inner, static_cast<int>(f.length));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list ? Py_BuildValue("(iN)", static_cast<int>(row.size), list.release()) : nullptr;
}

/// Returns the description of a function as Python objects.
PyObject* describe(PyObject*, PyObject* args) {
  const char *module = nullptr, *name = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &module, &name)) return nullptr;
  const Api* api = api_argument(module);
  if (api == nullptr) return nullptr;
  const NameRow* row = find_name(*api, name);
  if (row == nullptr || row->entry != Entry::function)
    return PyErr_Format(PyExc_ValueError, "no function %s", name);
  const FunctionRow& f = api->functions[row->index];
  Ref list{PyList_New(f.parameters)};
  for (int i = 0; list && i < f.parameters; ++i) {
    const ParamRow& p = api->params[f.first + i];
    PyObject* item = Py_BuildValue("(siiii)", api->text + p.name, static_cast<int>(p.role),
                                   static_cast<int>(p.kind), static_cast<int>(p.argument),
                                   static_cast<int>(p.link));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

/// Warns once that CUCORE_DEVICE=auto found no GPU. Runs on the thread that loads the driver.
void warn_fallback(const char* text) {
  const PyGILState_STATE state = PyGILState_Ensure();
  // cucore.warning sets the category and attributes the warning to the user's program.
  Ref module{PyImport_ImportModule("cucore.warning")};
  Ref done{module ? PyObject_CallMethod(module.get(), "warn", "s", text) : nullptr};
  const bool failed = !done;
  done = Ref{};
  module = Ref{};
  PyGILState_Release(state);
  if (failed) throw std::runtime_error("the warning about the CPU device was turned into an error");
}

/// symbols(module): the C names of all functions.
PyObject* symbols(PyObject*, PyObject* args) {
  const char* module = nullptr;
  if (!PyArg_ParseTuple(args, "s", &module)) return nullptr;
  const Api* api = api_argument(module);
  Ref list{api != nullptr ? PyList_New(api->function_count) : nullptr};
  for (int i = 0; list && i < api->function_count; ++i) {
    PyObject* name = PyUnicode_FromString(api->text + api->functions[i].symbol);
    if (name == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, name);
  }
  return list.release();
}

/// function_pointer(module, symbol): the address of a C function; 0 if its library does not export
/// it.
PyObject* function_pointer(PyObject*, PyObject* args) {
  const char *module = nullptr, *symbol = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &module, &symbol)) return nullptr;
  const Api* api = api_argument(module);
  if (api == nullptr) return nullptr;
  for (int i = 0; i < api->function_count; ++i) {
    if (std::strcmp(api->text + api->functions[i].symbol, symbol) != 0) continue;
    try {
      return PyLong_FromVoidPtr(api->resolve(*api, api->functions[i]));
    } catch (const pathfinder::NotFoundError& error) {
      raise_from("cuda.pathfinder", "DynamicLibNotFoundError", error.what());
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
  }
  return PyErr_Format(PyExc_ValueError, "no function %s", symbol);
}

PyMethodDef methods[] = {
    {"symbols", symbols, METH_VARARGS, "symbols(module): the C names of all functions"},
    {"function_pointer", function_pointer, METH_VARARGS,
     "function_pointer(module, symbol): its address, 0 when the library lacks it"},
    {"attribute", attribute, METH_VARARGS,
     "attribute(module, name, raising=False): makes what module.name is"},
    {"names", names, METH_VARARGS, "names(module): all rendered names, sorted"},
    {"sizeof", size_of_class, METH_O, "sizeof(objType)\n--\n\nSize of a C type in bytes."},
    {"set_raise_status", set_raise_status, METH_O,
     "the function that turns a result code into an exception"},
    {"driver_report", driver_report, METH_NOARGS, "which driver library is in use"},
    {"layout", layout, METH_O, "layout(class): size and fields of a struct"},
    {"describe", describe, METH_VARARGS, "describe(module, function): its parameter rows"},
    {},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "cuda.bindings._bindings",
                          "The engine of cuda.bindings.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

const Api* find_api(const char* module) {
  for (const Api* api : kApis) {
    if (api != nullptr && std::strcmp(api->module, module) == 0) return api;
  }
  return nullptr;
}

PyObject* make_attribute(const Api& api, const char* name, bool raising) {
  const NameRow* row = find_name(api, name);
  if (row == nullptr) return nullptr;
  switch (row->entry) {
    case Entry::function:
      return make_function(api, api.functions[row->index], raising);
    case Entry::constant:
      return PyLong_FromLongLong(api.constants[row->index].value);
    default: {
      int index = 0;
      while (kApis[index] != &api) ++index;
      return Py_XNewRef(class_of(static_cast<TypeId>((index << 12) | row->index)));
    }
  }
}

}  // namespace cucore::bindings

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__bindings() {
  using namespace cucore::bindings;
  if (!init_handles() || !init_records() || !init_functions()) return nullptr;
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
#ifdef Py_GIL_DISABLED
  PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  const Ref lazy_module{make_lazy_module_type()};
  if (!lazy_module || PyModule_AddObjectRef(module, "LazyModule", lazy_module.get()) < 0 ||
      PyModule_AddObjectRef(module, "Handle", reinterpret_cast<PyObject*>(handle_base)) < 0 ||
      PyModule_AddObjectRef(module, "Record", reinterpret_cast<PyObject*>(record_base)) < 0) {
    return nullptr;
  }
  cucore::on_cpu_fallback(warn_fallback);
  cucore::set_release_hook(cucore::python::schedule_release);
  cucore::python::close_to_foreign_threads_at_exit();
  return module;
}
