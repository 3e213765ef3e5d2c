// SPDX-License-Identifier: Apache-2.0
// pathfinder.cpp: the extension module cuda.pathfinder._pathfinder, a binding of
// cucore/pathfinder.hpp.
#define PY_SSIZE_T_CLEAN
#include "cucore/pathfinder.hpp"

#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace pf = cucore::pathfinder;

namespace {

constexpr const char* kKindNames[] = {"library", "headers", "static", "bitcode", "binary"};
constexpr pf::Kind kKinds[] = {pf::Kind::dynamic_lib, pf::Kind::headers, pf::Kind::static_lib,
                               pf::Kind::bitcode_lib, pf::Kind::binary};

struct State {
  PyObject* dynamic_not_found;
  PyObject* dynamic_not_available;
  PyObject* dynamic_unknown;
  PyObject* static_not_found;
  PyObject* bitcode_not_found;
  PyObject* unsupported_binary;
};

State* state_of(PyObject* module) { return static_cast<State*>(PyModule_GetState(module)); }

class Ref {  // owns one reference
 public:
  explicit Ref(PyObject* object = nullptr) : object_{object} {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }
  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

const char* kind_name(pf::Kind kind) { return kKindNames[static_cast<int>(kind)]; }

bool to_kind(const char* name, pf::Kind& kind) {
  for (const pf::Kind candidate : kKinds) {
    if (std::string_view{name} == kind_name(candidate)) {
      kind = candidate;
      return true;
    }
  }
  PyErr_Format(PyExc_ValueError,
               "kind must be one of library, headers, static, bitcode, binary; not '%s'", name);
  return false;
}

PyObject* text(const std::string& value) {
  return PyUnicode_DecodeFSDefaultAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
}
PyObject* text_or_none(const std::string& value) {
  return value.empty() ? Py_NewRef(Py_None) : text(value);
}

/// (kind, name, abs_path or None, found_via or None, ((step, place, outcome), ...))
PyObject* report_tuple(const pf::SearchReport& report) {
  Ref attempts{PyTuple_New(static_cast<Py_ssize_t>(report.attempts.size()))};
  if (!attempts) return nullptr;
  for (std::size_t i = 0; i < report.attempts.size(); ++i) {
    const auto& a = report.attempts[i];
    PyObject* row = Py_BuildValue("(NNN)", text(a.step), text(a.place), text(a.outcome));
    if (row == nullptr) return nullptr;
    PyTuple_SET_ITEM(attempts.get(), static_cast<Py_ssize_t>(i), row);
  }
  return Py_BuildValue("(sNNNO)", kind_name(report.kind), text(report.name),
                       text_or_none(report.abs_path), text_or_none(report.found_via),
                       attempts.get());
}

void raise_not_found(const State& state, const pf::NotFoundError& error) {
  PyObject* type = error.report().kind == pf::Kind::static_lib    ? state.static_not_found
                   : error.report().kind == pf::Kind::bitcode_lib ? state.bitcode_not_found
                                                                  : state.dynamic_not_found;
  Ref message{text(error.what())};
  Ref exception{message ? PyObject_CallOneArg(type, message.get()) : nullptr};
  Ref report{exception ? report_tuple(error.report()) : nullptr};
  if (!report) return;
  if (PyObject_SetAttrString(exception.get(), "attempts", PyTuple_GET_ITEM(report.get(), 4)) < 0)
    return;
  PyErr_SetObject(type, exception.get());
}

/// Runs `body` without the GIL and translates C++ exceptions to Python exceptions.
template <typename Body>
bool unlocked(const State& state, PyObject* unknown_type, Body&& body) {
  std::optional<pf::NotFoundError> not_found;
  std::string message;
  PyObject* type = nullptr;
  PyThreadState* thread = PyEval_SaveThread();
  try {
    body();
  } catch (const pf::NotFoundError& error) {
    not_found.emplace(error);
  } catch (const pf::UnknownNameError& error) {
    type = unknown_type;
    message = error.what();
  } catch (const pf::NotAvailableError& error) {
    type = state.dynamic_not_available;
    message = error.what();
  } catch (const std::exception& error) {
    type = PyExc_RuntimeError;
    message = error.what();
  }
  PyEval_RestoreThread(thread);
  if (not_found) {
    raise_not_found(state, *not_found);
    return false;
  }
  if (type != nullptr) {
    PyErr_SetString(type, message.c_str());
    return false;
  }
  return true;
}

PyObject* unknown_type(const State& state, pf::Kind kind) {
  switch (kind) {
    case pf::Kind::dynamic_lib:
      return state.dynamic_unknown;
    case pf::Kind::headers:
      return PyExc_RuntimeError;
    case pf::Kind::binary:
      return state.unsupported_binary;
    default:
      return PyExc_ValueError;
  }
}

PyObject* set_site_packages(PyObject*, PyObject* folders) {
  Ref sequence{PySequence_Fast(folders, "a sequence of folders is needed")};
  if (!sequence) return nullptr;
  std::vector<std::string> list;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    Ref bytes{PyUnicode_EncodeFSDefault(PySequence_Fast_GET_ITEM(sequence.get(), i))};
    if (!bytes) return nullptr;
    list.emplace_back(PyBytes_AS_STRING(bytes.get()));
  }
  pf::set_site_packages(std::move(list));
  Py_RETURN_NONE;
}

/// load(name) -> (abs_path, was_already_loaded_from_elsewhere, handle, found_via)
PyObject* load(PyObject* module, PyObject* name) {
  const char* libname = PyUnicode_AsUTF8(name);
  if (libname == nullptr) return nullptr;
  const State& state = *state_of(module);
  const pf::LoadedDL* dl = nullptr;
  if (!unlocked(state, state.dynamic_unknown, [&] { dl = &pf::load_nvidia_dynamic_lib(libname); }))
    return nullptr;
  return Py_BuildValue("(NNNN)", text_or_none(dl->abs_path),
                       PyBool_FromLong(dl->was_already_loaded_from_elsewhere),
                       PyLong_FromVoidPtr(dl->handle), text(dl->found_via));
}

/// locate(kind, name) -> (name, abs_path, filename, found_via) or None
PyObject* locate(PyObject* module, PyObject* args) {
  const char* kind_text = nullptr;
  const char* name = nullptr;
  pf::Kind kind{};
  if (!PyArg_ParseTuple(args, "ss", &kind_text, &name) || !to_kind(kind_text, kind)) return nullptr;
  const State& state = *state_of(module);
  std::optional<pf::Located> found;
  const bool ok = unlocked(state, unknown_type(state, kind), [&] {
    switch (kind) {
      case pf::Kind::headers:
        found = pf::locate_nvidia_header_directory(name);
        break;
      case pf::Kind::static_lib:
        found = pf::locate_static_lib(name);
        break;
      case pf::Kind::bitcode_lib:
        found = pf::locate_bitcode_lib(name);
        break;
      case pf::Kind::binary:
        found = pf::locate_binary_utility(name);
        break;
      case pf::Kind::dynamic_lib:
        throw std::invalid_argument{"dynamic libraries are loaded, not located"};
    }
  });
  if (!ok) return nullptr;
  if (!found) Py_RETURN_NONE;
  return Py_BuildValue("(NNNN)", text(found->name), text(found->abs_path), text(found->filename),
                       text(found->found_via));
}

/// explain(name, kind or None) -> report tuple
PyObject* explain(PyObject* module, PyObject* args) {
  const char* name = nullptr;
  const char* kind_text = nullptr;
  if (!PyArg_ParseTuple(args, "sz", &name, &kind_text)) return nullptr;
  std::optional<pf::Kind> kind;
  if (kind_text != nullptr && !to_kind(kind_text, kind.emplace())) return nullptr;
  const State& state = *state_of(module);
  pf::SearchReport report;
  if (!unlocked(state, state.dynamic_unknown, [&] { report = pf::explain(name, kind); }))
    return nullptr;
  return report_tuple(report);
}

/// supported(kind, toolkit_only) -> names
PyObject* supported(PyObject*, PyObject* args) {
  const char* kind_text = nullptr;
  int toolkit_only = 0;
  pf::Kind kind{};
  if (!PyArg_ParseTuple(args, "sp", &kind_text, &toolkit_only) || !to_kind(kind_text, kind))
    return nullptr;
  const auto names = pf::supported(kind, toolkit_only != 0);
  Ref tuple{PyTuple_New(static_cast<Py_ssize_t>(names.size()))};
  if (!tuple) return nullptr;
  for (std::size_t i = 0; i < names.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), text(names[i]));
  return tuple.release();
}

PyObject* header_of(PyObject* module, PyObject* name) {
  const char* libname = PyUnicode_AsUTF8(name);
  if (libname == nullptr) return nullptr;
  std::string header;
  if (!unlocked(*state_of(module), PyExc_RuntimeError, [&] { header = pf::header_of(libname); }))
    return nullptr;
  return text(header);
}

PyObject* cuda_path_or_home(PyObject*, PyObject*) {
  return text_or_none(pf::cuda_path_or_home().value_or(""));
}

PyMethodDef kMethods[] = {
    {"set_site_packages", set_site_packages, METH_O, "Where Python packages are installed."},
    {"load", load, METH_O,
     "Load a library: (abs_path, was_already_loaded_from_elsewhere, handle, found_via)."},
    {"locate", locate, METH_VARARGS,
     "Locate by kind and name: (name, abs_path, filename, found_via) or None."},
    {"explain", explain, METH_VARARGS, "The report of a search as a tuple."},
    {"supported", supported, METH_VARARGS, "Names of the catalogue of one kind."},
    {"header_of", header_of, METH_O, "The header that proves a folder."},
    {"cuda_path_or_home", cuda_path_or_home, METH_NOARGS, "CUDA_PATH, else CUDA_HOME, else None."},
    {nullptr, nullptr, 0, nullptr},
};

bool add_exception(PyObject* module, const char* name, const char* doc, PyObject* base,
                   PyObject*& slot) {
  const std::string qualified = std::string{"cuda.pathfinder."} + name;
  slot = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  return slot != nullptr && PyModule_AddObjectRef(module, name, slot) == 0;
}

int exec_module(PyObject* module) {
  State& s = *state_of(module);
  const bool ok =
      add_exception(
          module, "DynamicLibNotFoundError",
          "A library was not found. `attempts` lists every place tried as (step, place, outcome).",
          PyExc_RuntimeError, s.dynamic_not_found) &&
      add_exception(module, "DynamicLibNotAvailableError",
                    "A known library that is not made for this platform.", s.dynamic_not_found,
                    s.dynamic_not_available) &&
      add_exception(module, "DynamicLibUnknownError", "The name of a library that is not known.",
                    s.dynamic_not_found, s.dynamic_unknown) &&
      add_exception(module, "StaticLibNotFoundError",
                    "A static library was not found. `attempts` lists every place tried.",
                    PyExc_RuntimeError, s.static_not_found) &&
      add_exception(module, "BitcodeLibNotFoundError",
                    "A bitcode library was not found. `attempts` lists every place tried.",
                    PyExc_RuntimeError, s.bitcode_not_found) &&
      add_exception(module, "UnsupportedBinaryError", "The name of a program that is not known.",
                    PyExc_Exception, s.unsupported_binary);
  return ok ? 0 : -1;
}

int traverse(PyObject* module, visitproc visit, void* arg) {
  State* s = state_of(module);
  if (s == nullptr) return 0;
  for (PyObject* object : {s->dynamic_not_found, s->dynamic_not_available, s->dynamic_unknown,
                           s->static_not_found, s->bitcode_not_found, s->unsupported_binary}) {
    Py_VISIT(object);
  }
  return 0;
}

int clear(PyObject* module) {
  State* s = state_of(module);
  if (s == nullptr) return 0;
  Py_CLEAR(s->dynamic_not_found);
  Py_CLEAR(s->dynamic_not_available);
  Py_CLEAR(s->dynamic_unknown);
  Py_CLEAR(s->static_not_found);
  Py_CLEAR(s->bitcode_not_found);
  Py_CLEAR(s->unsupported_binary);
  return 0;
}

PyModuleDef_Slot kSlots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(exec_module)},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT,
    "_pathfinder",
    "The C++ half of cuda.pathfinder.",
    sizeof(State),
    kMethods,
    kSlots,
    traverse,
    clear,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__pathfinder() { return PyModuleDef_Init(&kModule); }
