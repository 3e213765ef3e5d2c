// SPDX-License-Identifier: Apache-2.0
// program.cpp: the C++ implementation of cuda.core.Program and ProgramOptions
// (cuda/core/_program.py).
#include "cucore/program.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "code_arguments.hpp"
#include "core/program_implementation.hpp"
#include "core/program_options.hpp"
#include "cucore/pathfinder.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

[[noreturn]] void wrong_type(const char* field, nb::handle value, const char* wanted) {
  PyErr_Format(PyExc_TypeError, "option %s must be %s, not %s", field, wanted,
               Py_TYPE(value.ptr())->tp_name);
  throw nb::python_error();
}

bool is_sequence(nb::handle value) {
  return PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0;
}

int int_of(const char* field, nb::handle value) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    wrong_type(field, value, "an int");
  }
  return nb::cast<int>(number);
}

std::string str_of(const char* field, nb::handle value) {
  if (PyUnicode_Check(value.ptr()) == 0 && PyObject_HasAttrString(value.ptr(), "__fspath__") == 0)
    wrong_type(field, value, "a str");
  return text_argument(nb::steal(PyOS_FSPath(value.ptr())), field);
}

/// Throws RuntimeError for a malformed macro, as NVIDIA's package does.
[[noreturn]] void wrong_macro(nb::handle value) {
  PyErr_Format(PyExc_RuntimeError,
               "a macro of define_macro is 'NAME', 'NAME=VALUE' or a pair of strings "
               "('NAME', 'VALUE'), not %R",
               value.ptr());
  throw nb::python_error();
}

/// Converts a macro: "NAME", "NAME=VALUE" or (NAME, VALUE).
std::string macro_of(nb::handle value) {
  if (PyUnicode_Check(value.ptr()) != 0) return str_of("define_macro", value);
  if (PyTuple_Check(value.ptr()) == 0 || PyTuple_GET_SIZE(value.ptr()) != 2 ||
      PyUnicode_Check(PyTuple_GET_ITEM(value.ptr(), 0)) == 0 ||
      PyUnicode_Check(PyTuple_GET_ITEM(value.ptr(), 1)) == 0)
    wrong_macro(value);
  return str_of("define_macro", PyTuple_GET_ITEM(value.ptr(), 0)) + "=" +
         str_of("define_macro", PyTuple_GET_ITEM(value.ptr(), 1));
}

std::vector<std::string> macros_of(nb::handle value) {
  std::vector<std::string> macros;
  // A tuple of two strings is one macro with its value; any other sequence is a list of macros.
  const bool is_pair = PyTuple_Check(value.ptr()) != 0 && PyTuple_GET_SIZE(value.ptr()) == 2 &&
                       PyTuple_Check(PyTuple_GET_ITEM(value.ptr(), 0)) == 0 &&
                       PyTuple_Check(PyTuple_GET_ITEM(value.ptr(), 1)) == 0;
  const bool is_half = PyTuple_Check(value.ptr()) != 0 && PyTuple_GET_SIZE(value.ptr()) == 1 &&
                       PyTuple_Check(PyTuple_GET_ITEM(value.ptr(), 0)) == 0;
  if (!is_sequence(value) || is_pair || is_half) {
    macros.push_back(macro_of(value));
  } else {
    for (nb::handle one : value) macros.push_back(macro_of(one));
  }
  return macros;
}

/// Assigns a Python value to a field of the struct; None leaves it unset.
struct Assign {
  ProgramOptions& options;
  const char* name;
  nb::handle value;

  void operator()(ProgramOptions::Flag ProgramOptions::*member) const {
    const int truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw nb::python_error();
    options.*member = truth != 0;
  }
  void operator()(ProgramOptions::Number ProgramOptions::*member) const {
    options.*member = int_of(name, value);
  }
  void operator()(ProgramOptions::Text ProgramOptions::*member) const {
    if (member == &ProgramOptions::time && PyBool_Check(value.ptr()) != 0) {
      if (value.is(nb::handle{Py_True})) options.time = "true";  // a linker writes no file
      return;
    }
    options.*member = str_of(name, value);
  }
  void operator()(ProgramOptions::Texts ProgramOptions::*member) const {
    if (member == &ProgramOptions::define_macro) {
      options.*member = macros_of(value);
    } else if (is_sequence(value)) {
      for (nb::handle one : value) (options.*member).push_back(str_of(name, one));
    } else {
      options.*member = {str_of(name, value)};
    }
  }
  void operator()(ProgramOptions::Numbers ProgramOptions::*member) const {
    if (is_sequence(value)) {
      for (nb::handle one : value) (options.*member).push_back(int_of(name, one));
    } else {
      options.*member = {int_of(name, value)};
    }
  }
};

CompilerBackend backend_argument(const std::string& name) {
  for (const CompilerBackend backend : {CompilerBackend::nvrtc, CompilerBackend::nvvm}) {
    if (PyOS_stricmp(name.c_str(), backend_name(backend)) == 0) return backend;
  }
  throw nb::value_error(
      ("Unknown backend '" + name + "'. Must be one of: 'nvrtc', 'nvvm'").c_str());
}

nb::list bytes_list(const std::vector<std::string>& flags) {
  nb::list list;
  for (const auto& flag : flags) list.append(nb::bytes(flag.data(), flag.size()));
  return list;
}

/// compile(target, name_expressions) -> (ObjectCode, log), without the GIL.
nb::object compile(Program& program, nb::handle target,
                   const std::vector<std::string>& name_expressions) {
  const CodeType type = target_argument(target);
  std::string log;
  std::optional<ObjectCode> code;
  {
    WithoutGil unlocked;
    code = program.compile(type, name_expressions, &log);
  }
  return nb::make_tuple(wrap(*std::move(code)), text_of_log(log));
}

}  // namespace

nb::object text_of_log(const std::string& log) {
  return nb::steal(
      PyUnicode_DecodeUTF8(log.data(), static_cast<Py_ssize_t>(log.size()), "replace"));
}

CodeType target_argument(nb::handle target) {
  if (PyUnicode_Check(target.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "target_type must be a str, not %s",
                 Py_TYPE(target.ptr())->tp_name);
    throw nb::python_error();
  }
  const std::string name = text_argument(target, "target_type");
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(Py_TOLOWER(static_cast<unsigned char>(c)));
  try {
    return code_type_of(lower);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument{std::string{"target_type: "} + error.what()};
  }
}

ProgramOptions program_options_argument(nb::handle object) {
  ProgramOptions options;
  if (object.is_none()) return options;
  static const std::vector<PyObject*> names =
      [] {  // interned once: their creation would take half of the time
        std::vector<PyObject*> made;
        for (const auto& field : detail::option_fields())
          made.push_back(PyUnicode_InternFromString(field.name));
        return made;
      }();
  std::size_t next = 0;
  for (const auto& field : detail::option_fields()) {
    const nb::object value = nb::steal(PyObject_GetAttr(object.ptr(), names[next++]));
    if (!value.is_valid()) throw nb::python_error();
    if (!value.is_none()) std::visit(Assign{options, field.name, value}, field.member);
  }
  if (const nb::object name = object.attr("name"); !name.is_none())
    options.name = str_of("name", name);
  if (const nb::object arch = object.attr("arch"); !arch.is_none())
    options.arch = str_of("arch", arch);
  if (const nb::object sources = object.attr("extra_sources"); !sources.is_none()) {
    for (nb::handle source : sources) {
      if (!is_sequence(source) || nb::len(source) != 2)
        wrong_type("extra_sources", source, "a list of (name, source) pairs");
      options.extra_sources.emplace_back(str_of("extra_sources", source[0]),
                                         text_argument(source[1], "extra_sources"));
    }
  }
  return options;
}

/// Converts a source type. Throws RuntimeError for an unknown one, as NVIDIA's package does.
static SourceType source_argument(const std::string& type) {
  try {
    return source_type_of(type);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error{error.what()};
  }
}

/// Translates the error for a missing compiler to pathfinder's exception, with the places searched.
static void translate_not_found(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const pathfinder::NotFoundError& error) {
    nb::object type = nb::module_::import_("cuda.pathfinder").attr("DynamicLibNotFoundError");
    nb::object value = type(error.what());
    nb::list attempts;
    for (const auto& a : error.report().attempts) {
      attempts.append(nb::make_tuple(a.step.c_str(), a.place.c_str(), a.outcome.c_str()));
    }
    value.attr("attempts") = nb::tuple(attempts);
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

/// Returns the CUDA version that the driver supports; nullopt without a driver.
static std::optional<int> driver_version() {
  try {
    return driver_info().version;
  } catch (const DriverNotFoundError&) {
    return std::nullopt;
  } catch (const CUDAError&) {
    return std::nullopt;
  }
}

/// Issues a RuntimeWarning, at the caller of Program.compile(), if the PTX version is newer than
/// the driver supports.
static void warn_if_too_new(const ObjectCode& code, std::optional<int> given) {
  const std::optional<int> needed = cuda_version_of_ptx(code.code());
  if (!needed) return;  // unknown: loading the code reports an error
  const int known = (given ? given : driver_version()).value_or(*needed);
  if (*needed <= known) return;
  if (PyErr_WarnFormat(PyExc_RuntimeWarning, 2,
                       "the compiler made PTX for CUDA %d.%d, but the driver knows CUDA %d.%d and "
                       "may not load it: compile to 'cubin', or use a newer driver",
                       *needed / 1000, *needed % 1000 / 10, known / 1000, known % 1000 / 10) < 0)
    throw nb::python_error();
}

/// Checks that ProgramOptions.extra_sources has (name, source) pairs. Throws TypeError otherwise.
static void check_sources(nb::handle sources) {
  if (!is_sequence(sources)) wrong_type("extra_sources", sources, "a list of (name, source) pairs");
  Py_ssize_t place = 0;
  for (nb::handle pair : sources) {
    const std::string name = "extra_sources[" + std::to_string(place++) + "]";
    if (!is_sequence(pair) || nb::len(pair) != 2)
      wrong_type(name.c_str(), pair, "a pair (name, source)");
    if (PyUnicode_Check(nb::object(pair[0]).ptr()) == 0)
      wrong_type((name + ": the name").c_str(), nb::object(pair[0]), "a str");
    PyObject* const source = nb::object(pair[1]).ptr();
    if (PyUnicode_Check(source) == 0 && PyBytes_Check(source) == 0 &&
        PyByteArray_Check(source) == 0)
      wrong_type((name + ": the source").c_str(), nb::object(pair[1]), "str, bytes or bytearray");
  }
}

void bind_program(nb::module_& m) {
  m.def("_warn_if_too_new", &warn_if_too_new, "code"_a, "known"_a = nb::none());
  m.def("_check_sources", &check_sources, "sources"_a.none());
  nb::register_exception_translator(&translate_not_found);
  nb::class_<Program>(m, "_Program")
      .def(
          "__init__",
          [](Program* self, nb::handle code, const std::string& type, nb::handle options) {
            const SourceType source = source_argument(type);
            if (source != SourceType::nvvm && PyUnicode_Check(code.ptr()) == 0 &&
                PyBytes_Check(code.ptr()) == 0 && PyByteArray_Check(code.ptr()) == 0) {
              wrong_type("code", code, "str or bytes");
            }
            std::string text = text_argument(code, "code");
            ProgramOptions converted = program_options_argument(options);
            if (source == SourceType::ptx && converted.numba_debug.value_or(false) &&
                PyErr_WarnEx(PyExc_UserWarning,
                             "numba_debug means nothing to a linker and is ignored for PTX", 2) < 0)
              throw nb::python_error();
            WithoutGil unlocked;  // searches for the compiler
            new (self) Program{std::move(text), source, std::move(converted)};
          })
      .def("compile", &compile)
      .def("close", &Program::close, nb::lock_self(), nb::call_guard<WithoutGil>())
      .def_prop_ro("is_closed", &Program::is_closed)
      .def_prop_ro("backend", [](const Program& p) { return backend_name(p.backend()); })
      .def_prop_ro("handle",
                   [](const Program& p) {
                     WithoutGil unlocked;  // may compile
                     return reinterpret_cast<std::uintptr_t>(p.handle());
                   })
      .def_prop_ro("pch_status", [](const Program& p) -> nb::object {
        const auto status = p.pch_status();
        if (!status) return nb::none();
        const char* names[] = {"created", "not_attempted", "failed"};
        return nb::str(names[static_cast<int>(*status)]);
      });
  m.def(
      "_program_flags",
      [](nb::handle options, const std::string& backend, nb::handle target) {
        std::optional<CodeType> type;
        if (!target.is_none()) type = target_argument(target);
        return bytes_list(program_options_argument(options).flags(backend_argument(backend), type));
      },
      nb::arg("options"), nb::arg("backend"), nb::arg("target").none());
  m.def("_current_arch", []() -> nb::object {
    const std::optional<std::string> arch = detail::arch_if_any();
    return arch ? nb::object{nb::str(arch->c_str())} : nb::none();
  });
  m.def("_runs_on_cpu", [] { return detail::code_runs_on_the_cpu_device(); });
  m.def("_linker_flags",
        [](nb::handle options) { return bytes_list(linker_options_argument(options).flags()); });
}
CUCORE_BIND(kBindCode + 2, bind_program)

}  // namespace cucore::python
