// SPDX-License-Identifier: Apache-2.0
// errors.cpp: translation of C++ exceptions to Python, and the warning that the CPU device is in
// use.
#include <cstring>
#include <filesystem>

#include "cucore/error.hpp"
#include "driver/state.hpp"
#include "protection.hpp"
#include "support.hpp"

namespace cucore::python {

/// Returns an exception class of cuda/core/_errors.py, imported once. The classes are defined in
/// Python so that they can be pickled.
static PyObject* error_class(const char* name) {
  nb::object module = nb::module_::import_("cuda.core._errors");
  return nb::object(module.attr(name)).release().ptr();
}

/// Converts the message of a C++ exception: a path in it may not be valid UTF-8.
static nb::object readable(const char* what) {
  return nb::steal(PyUnicode_DecodeUTF8(
      what, static_cast<Py_ssize_t>(std::strlen(what)),
      CUCORE_PROTECTION("readable-error-text") ? "backslashreplace" : nullptr));
}

static void set_error(PyObject* type, const char* what) {
  if (const nb::object text = readable(what); text.is_valid()) PyErr_SetObject(type, text.ptr());
}

static void raise_cuda_error(const CUDAError& error, const char* class_name) {
  nb::object type = nb::steal(error_class(class_name));
  nb::object text = readable(error.what());
  if (!text.is_valid()) throw nb::python_error();
  const auto or_none = [](const std::string& known) {
    return known.empty() ? nb::none() : readable(known.c_str());
  };
  nb::object value = type(text, error.code(), error.name().c_str(), or_none(error.call()),
                          or_none(error.object()));
  // add_note() of Python 3.11 and later stores notes in __notes__.
  if (CUCORE_PROTECTION("cleanup-errors-attached") && !error.notes().empty()) {
    nb::list notes;
    for (const std::string& note : error.notes()) notes.append(readable(note.c_str()));
    value.attr("__notes__") = notes;
  }
  PyErr_SetObject(type.ptr(), value.ptr());
  detail::fault_was_raised(error.code());
}

static void translate(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const NVRTCError& error) {
    raise_cuda_error(error, "NVRTCError");
  } catch (const NVMLError& error) {  // cuda.bindings has a class for each result code
    const nb::object value =
        nb::module_::import_("cuda.bindings.nvml").attr("_exception")(error.code());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
  } catch (const OutOfMemoryError& error) {
    raise_cuda_error(error, "OutOfMemoryError");
  } catch (const CUDAError& error) {
    const std::string& name = error.name();  // toolkit libraries have their own exceptions
    raise_cuda_error(error, name.starts_with("NVVM_ERROR")        ? "NVVMError"
                            : name.starts_with("NVJITLINK_ERROR") ? "NvJitLinkError"
                                                                  : "CUDAError");
  } catch (const DriverNotFoundError& error) {
    set_error(PyExc_RuntimeError, error.what());
  } catch (const InvalidStateError& error) {
    set_error(PyExc_RuntimeError, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    set_error(PyExc_RuntimeError, error.what());
  } catch (const std::system_error& error) {
    if (error.code().category() != std::generic_category()) throw;
    const nb::object arguments =
        nb::steal(Py_BuildValue("(is)", error.code().value(), error.what()));
    if (arguments.is_valid()) PyErr_SetObject(PyExc_OSError, arguments.ptr());
  }
}

void set_python_error() noexcept {
  try {
    try {
      throw;
    } catch (nb::python_error& error) {
      error.restore();
    } catch (nb::builtin_exception& error) {
      PyObject* type = error.type() == nb::exception_type::value_error   ? PyExc_ValueError
                       : error.type() == nb::exception_type::type_error  ? PyExc_TypeError
                       : error.type() == nb::exception_type::index_error ? PyExc_IndexError
                                                                         : PyExc_RuntimeError;
      set_error(type, error.what());
    } catch (const CUDAError&) {
      translate(std::current_exception());
    } catch (const DriverNotFoundError&) {
      translate(std::current_exception());
    } catch (const InvalidStateError&) {
      translate(std::current_exception());
    } catch (const std::system_error&) {
      translate(std::current_exception());
    } catch (const std::invalid_argument& error) {
      set_error(PyExc_ValueError, error.what());
    } catch (const std::out_of_range& error) {
      set_error(PyExc_ValueError, error.what());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      set_error(PyExc_RuntimeError, error.what());
    }
  } catch (nb::python_error& error) {  // the import of the classes failed: report that error
    error.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown error");
  }
}

/// cucore.warning sets the category and attributes the warning to the line of the user's program.
void warn(const char* text) { nb::module_::import_("cucore.warning").attr("warn")(text); }

static void warn_about_cpu(const char* text) {
  if (const WithGil gil; gil) warn(text);
}

void bind_errors(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) { translate(p); });
  on_cpu_fallback(&warn_about_cpu);
  if (CUCORE_PROTECTION("no-release-at-exit"))
    leave_to_process_end([] { return interpreter_is_ending(); });
  m.def("result_name", [](int code) { return result_name(static_cast<CUresult>(code)); });
  m.def("result_text", [](int code) { return result_text(static_cast<CUresult>(code)); });
}
CUCORE_BIND(kBindErrors, bind_errors)

}  // namespace cucore::python
