// SPDX-License-Identifier: Apache-2.0
// function.cpp: rendered functions as Python built-ins: argument binding, help text, pickling, the
// address of the C function.
#include "function.hpp"

#include <atomic>
#include <exception>
#include <string_view>

#include "cucore/driver.hpp"
#include "cucore/pathfinder.hpp"
#include "python/immortal.hpp"

namespace cucore::bindings {
namespace {

PyTypeObject* function_type = nullptr;

FunctionObject& self_of(PyObject* o) { return *reinterpret_cast<FunctionObject*>(o); }

const char* argument_name(const FunctionObject& f, int argument) {
  for (int i = 0; i < f.row->parameters + f.row->extras; ++i) {
    if (f.params[i].argument == argument) return f.api->text + f.params[i].name;
  }
  return "?";
}

/// Binds keyword arguments and defaults, and reports arity errors: all but plain positional calls.
bool bind(const FunctionObject& f, PyObject* const* args, Py_ssize_t given, PyObject* names,
          PyObject** bound) {
  const int wanted = f.row->arguments;
  const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  const bool legacy = (f.row->flags & kLegacyContext) != 0 && given + named == wanted - 1;
  const int shift = legacy && given == wanted - 1 ? 1 : 0;  // cuCtxCreate(flags, dev)
  if (given + shift > wanted) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d arguments (%zd given)", f.name, wanted,
                 given + named);
    return false;
  }
  for (int i = 0; i < wanted; ++i) bound[i] = nullptr;
  if (shift != 0) bound[0] = Py_None;
  for (Py_ssize_t i = 0; i < given; ++i) bound[i + shift] = args[i];
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    int at = 0;
    while (at < wanted && f.keywords[at] != name && PyUnicode_Compare(f.keywords[at], name) != 0)
      ++at;
    if (at == wanted) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", f.name, name);
      return false;
    }
    if (bound[at] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", f.name, name);
      return false;
    }
    bound[at] = args[given + k];
  }
  for (int i = 0; i < wanted; ++i) {
    if (bound[i] != nullptr) continue;
    if (legacy && i == 0) {
      bound[i] = Py_None;
    } else if (i < f.row->required) {
      PyErr_Format(PyExc_TypeError, "%s() missing required argument '%U'", f.name, f.keywords[i]);
      return false;
    } else {
      static PyObject* const zero = PyLong_FromLong(0);
      bound[i] = zero;
    }
  }
  return true;
}

bool unloads_code(std::string_view name) {
  for (const std::string_view part :
       {"Unload", "CtxDestroy", "CtxReset", "CtxRelease", "DeviceReset"}) {
    if (name.find(part) != name.npos) return true;
  }
  return false;
}

const char* role_text(Role role) {
  switch (role) {
    case Role::in_array:
    case Role::text_array:
      return "sequence";
    case Role::in_void:
      return "address or buffer";
    case Role::out_void:
      return "address or writable buffer";
    case Role::image:
      return "address, buffer or text";
    case Role::text:
      return "bytes or str";
    case Role::kernel:
      return "address, buffer of addresses, or (values, ctypes types)";
    case Role::callback:
      return "callable, ctypes function or address";
    case Role::user_data:
      return "any object for a Python callable, else an address";
    case Role::options:
      return "sequence of option values";
    case Role::attribute_in:
      return "value of the attribute's type";
    case Role::count:
      return "room for results";
    default:
      return "";
  }
}

/// Returns the name of a plain value's Python type.
const char* kind_text(Kind kind) {
  switch (kind) {
    case Kind::f32:
    case Kind::f64:
      return "float";
    case Kind::boolean:
      return "bool";
    case Kind::address:
      return "address";
    case Kind::text:
    case Kind::cstring:
      return "text";
    case Kind::chars:
    case Kind::bytes:
      return "bytes";
    case Kind::string:
      return "str";
    default:
      return "int";
  }
}

std::string documentation(const FunctionObject& f) {
  const Api& api = *f.api;
  std::string text = std::string{f.name} + "(";
  std::string arguments, results;
  for (int a = 0; a < f.row->arguments; ++a) {
    if (a != 0) text += ", ";
    text += argument_name(f, a);
    if (a >= f.row->required) text += "=0";
  }
  text += ")\n--\n\n";
  text += api.text + f.row->prototype;
  for (int i = 0; i < f.row->parameters + f.row->extras; ++i) {
    const ParamRow& p = f.params[i];
    const bool typed =
        p.kind == Kind::enumeration || p.kind == Kind::handle || p.kind == Kind::record;
    const std::string type = typed ? name_of(p.type) : kind_text(p.kind);
    if (p.argument >= 0) {
      std::string role = role_text(p.role);
      if (role.empty())
        role = type;
      else if (p.role == Role::in_array || p.role == Role::text_array)
        role += " of " + (p.role == Role::text_array ? std::string{"text"} : type);
      arguments += std::string{"\n  "} + (api.text + p.name) + ": " + role;
    } else if (p.role != Role::null && p.role != Role::size_of && p.role != Role::constant &&
               p.role != Role::elements && p.role != Role::asked && p.role != Role::compose) {
      const bool list = p.role == Role::out_array || p.role == Role::out_counted ||
                        p.role == Role::out_owned || p.role == Role::attributes_out;
      results += std::string{"\n  "} + (api.text + p.name) + ": " + (list ? "list of " : "") + type;
    }
  }
  if (!arguments.empty()) text += "\n\nArguments:" + arguments;
  if (!results.empty())
    text += std::string{"\n\nReturns"} + (f.raising ? ":" : " after the result code:") + results;
  return text;
}

PyObject* reduce(PyObject* self, PyObject*) {
  const FunctionObject& f = self_of(self);
  Ref importlib{PyImport_ImportModule("importlib")};
  Ref import_module{importlib ? PyObject_GetAttrString(importlib.get(), "import_module") : nullptr};
  if (!import_module) return nullptr;
  const std::string module =
      std::string{f.api->module} + (f.raising && !f.api->raises ? ".raising" : "");
  return Py_BuildValue("(O(s))", import_module.get(), module.c_str());
}

void dealloc(PyObject* o) {
  FunctionObject& f = self_of(o);
  Py_XDECREF(f.success);
  Py_XDECREF(f.success_tuple);
  Py_XDECREF(f.last);
  delete[] f.fast;
  for (int i = 0; f.keywords != nullptr && i < f.row->arguments; ++i) Py_XDECREF(f.keywords[i]);
  delete[] f.keywords;
  delete f.doc;
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};

}  // namespace

PyObject* long_entry(PyObject* self, PyObject* const* args, Py_ssize_t given, PyObject* names) {
  FunctionObject& f = self_of(self);
  PyObject* bound[32];
  if (names != nullptr || given != f.row->arguments) [[unlikely]] {
    if (!bind(f, args, given, names, bound)) return nullptr;
    args = bound;
  }
  return f.fast != nullptr ? fast_call(f, args) : call_function(f, args);
}

/// Warns once if the major version of the driver is older than that of these modules. False if the
/// warning is turned into an error.
static bool is_older_driver_reported(const Api& api) {
  static std::atomic<bool> told{false};
  if (std::string_view{api.module} != "cuda.bindings.driver" || told.exchange(true)) return true;
  if (driver_info().version / 1000 >= CUDA_VERSION / 1000) return true;
  Ref utils{PyImport_ImportModule("cuda.bindings.utils")};
  return utils &&
         Ref{PyObject_CallMethod(utils.get(), "warn_if_cuda_major_version_mismatch", nullptr)};
}

void raise_from(const char* module, const char* exception, const char* text) {
  Ref home{PyImport_ImportModule(module)};
  Ref type{home ? PyObject_GetAttrString(home.get(), exception) : nullptr};
  if (type) PyErr_SetString(type.get(), text);
}

bool resolve(FunctionObject& f) {
  try {
    f.address = f.api->resolve(*f.api, *f.row);
    if (f.address != nullptr && !is_older_driver_reported(*f.api)) return false;
    if (void* own = f.address != nullptr ? in_place_of(c_name(*f.api, *f.row), f.address) : nullptr)
      f.address = own;
  } catch (const pathfinder::NotFoundError& error) {
    if (!PyErr_Occurred()) raise_from("cuda.pathfinder", "DynamicLibNotFoundError", error.what());
    return false;
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
  if (PyErr_Occurred())
    return false;  // a warning during the load of the library was turned into an error
  if (f.address == nullptr) {
    const std::string text =
        "Function \"" + std::string{f.api->text + f.row->symbol} + "\" not found";
    raise_from("cuda.bindings._errors", "FunctionNotFoundError", text.c_str());
    return false;
  }
  return true;
}

/// Returns the index of the by-value parameter with this handle type; -1: none.
static std::int8_t parameter_of(const FunctionObject& f, std::string_view type) {
  for (int i = 0; i < f.row->parameters; ++i) {
    const ParamRow& p = f.params[i];
    if (p.role == Role::in && p.kind == Kind::handle && name_of(row_of(p.type).root) == type)
      return static_cast<std::int8_t>(i);
  }
  return -1;
}

/// Returns the index of the kernel (parameter `f`) whose arguments a function takes; -1: none.
static std::int8_t kernel_parameter(const FunctionObject& f) {
  int kernel = -1;
  for (int i = 0; i < f.row->parameters; ++i) {
    const ParamRow& p = f.params[i];
    if (p.role == Role::kernel) return static_cast<std::int8_t>(kernel);
    if (p.kind == Kind::handle && std::string_view{f.api->text + p.name} == "f") kernel = i;
  }
  return -1;
}

/// Returns whether a function keeps the GIL: stream-ordered allocation and free. The driver does
/// not wait for anything that needs Python, unless a host function is pending, and then every call
/// releases the GIL. cuda.core does the same.
static bool keeps_lock([[maybe_unused]] std::string_view name) {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return name == "cuMemAllocAsync" || name == "cuMemAllocFromPoolAsync" || name == "cuMemFreeAsync";
#endif
}

/// Returns whether a function enqueues work like a launch: it blocks only if the queue is full.
/// Copies to and from the host are not included.
static bool queues_work(std::string_view name) {
  return (name.starts_with("cuMemset") && name.ends_with("Async")) || name == "cuMemcpyDtoDAsync";
}

static bool waits_for_stream(std::string_view name) {
  return name == "cuStreamSynchronize" || name == "cudaStreamSynchronize";
}

PyObject* make_function(const Api& api, const FunctionRow& row, bool raising) {
  auto* f = PyObject_New(FunctionObject, function_type);
  if (f == nullptr) return nullptr;
  Ref owner{reinterpret_cast<PyObject*>(f)};
  f->api = &api;
  f->row = &row;
  f->params = api.params + row.first;
  f->name = api.text + row.name;
  f->address = nullptr;
  f->fast = f->out = nullptr;
  f->invoke = row.invoke;
  f->parameters = row.parameters;
  f->arguments = row.arguments;
  f->blocking = (row.flags & kBlocking) != 0 && !keeps_lock(f->name);
  f->queues = queues_work(f->name);
  f->launches = std::string_view{f->name} == "cuLaunchKernel";
  f->waits = waits_for_stream(f->name);
  f->stream = parameter_of(*f, "CUstream");
  f->kernel = kernel_parameter(*f);
  f->success = f->success_tuple = f->last = nullptr;
  f->keywords = new PyObject*[row.arguments + 1]();
  f->outs = count_outputs(row, f->params);
  f->unloads = unloads_code(f->name);
  f->raising = raising || api.raises != 0;
  f->doc = new std::string{documentation(*f)};
  for (int i = 0; i < row.arguments; ++i) {
    f->keywords[i] = PyUnicode_InternFromString(argument_name(*f, i));
    if (f->keywords[i] == nullptr) return nullptr;
  }
  if (api.result != kNoType) {
    f->success = enum_member(api.result, 0);
    f->success_tuple = f->success != nullptr ? PyTuple_Pack(1, f->success) : nullptr;
    if (f->success_tuple == nullptr) return nullptr;
    if (!f->unloads) f->fast = fast_plan(*f);
  }
  for (int i = 0; f->fast != nullptr && f->outs == 1 && i < row.parameters; ++i) {
    if (f->fast[i].op == FastParam::Op::out) f->out = &f->fast[i];
  }
  const auto entry = f->fast != nullptr ? entry_of(*f) : long_entry;
  f->method = {f->name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(entry)),
               METH_FASTCALL | METH_KEYWORDS, f->doc->c_str()};
  const std::string module_name =
      std::string{api.module} + (raising && api.raises == 0 ? ".raising" : "");
  Ref module{PyUnicode_FromString(module_name.c_str())};
  PyObject* const made =
      module ? PyCFunction_NewEx(&f->method, owner.get(), module.get()) : nullptr;
  if (made == nullptr) return nullptr;
  if (f->success_tuple != nullptr) python::make_immortal(f->success_tuple);
  python::make_immortal(made);
  return made;
}

bool init_functions() {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {Py_tp_methods, methods}, {0, nullptr}};
  PyType_Spec spec{"cuda.bindings._bindings.Entry", sizeof(FunctionObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return function_type != nullptr;
}

}  // namespace cucore::bindings
