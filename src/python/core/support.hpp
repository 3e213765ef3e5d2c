// SPDX-License-Identifier: Apache-2.0
// support.hpp: methods that use the C API of Python for low call overhead, and shared conversions.
#pragma once

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "binding.hpp"
#include "core/query.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/event.hpp"
#include "cucore/stream.hpp"
#include "protection.hpp"
#include "python/gil.hpp"

namespace cucore::python {

/// Translates the current C++ exception to a Python error. Call inside catch (...).
void set_python_error() noexcept;

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                   PyObject* kwnames);

/// Wraps a function for a method table. No C++ exception propagates from it.
template <FastFunction function>
PyObject* guarded(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                  PyObject* kwnames) noexcept {
  try {
    return function(self, args, nargs, kwnames);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// Adds a method with the METH_FASTCALL convention. `doc` starts with "name($self, ...)\n--\n\n",
/// from which inspect.signature() reads the signature. The strings must live until the process
/// exits.
void add_method(nb::handle type, const char* name, FastFunction guarded_function, const char* doc);
template <FastFunction function>
void def_fast(nb::handle type, const char* name, const char* doc) {
  add_method(type, name, &guarded<function>, doc);
}
/// Adds a method that modifies its object: in free-threaded Python, one thread at a time runs it.
template <FastFunction function>
PyObject* alone(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const nb::ft_object_guard guard{nb::handle{self}};
  return function(self, args, nargs, kwnames);
}
/// Adds a function to a module, with the same convention.
void add_function(nb::module_& m, const char* name, FastFunction guarded_function, const char* doc);

/// A read-only property. The getter returns a new reference and may throw.
using Getter = PyObject* (*)(PyObject* self);
void def_get(nb::handle type, const char* name, Getter getter, const char* doc);
/// Sets __module__ of the class to cuda.core, from which users import it.
void set_module(nb::handle type);

/// A replacement for the call of a type. Returns a new reference.
using TypeCall = PyObject* (*)(PyObject* type, PyObject* const* args, size_t nargsf,
                               PyObject* kwnames);
void set_type_call(nb::handle type, TypeCall call);

/// The interned parameter names of a fast function; never released.
template <std::size_t N>
struct Names {
  std::array<PyObject*, N> objects{};
  template <class... T>
  explicit Names(T... names) : objects{PyUnicode_InternFromString(names)...} {}
};

/// Sorts positional and keyword arguments into `out` (null: not given). Throws TypeError as Python
/// would.
void parse_arguments(const char* function, PyObject* const* names, std::size_t count,
                     std::size_t max_positional, std::size_t required, PyObject* const* args,
                     Py_ssize_t nargs, PyObject* kwnames, PyObject** out);
template <std::size_t N>
void parse(const char* function, const Names<N>& names, std::size_t max_positional,
           std::size_t required, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
           std::array<PyObject*, N>& out) {
  out.fill(nullptr);
  const auto given = static_cast<std::size_t>(nargs);
  bool plain = given <= max_positional;  // the common call: names are interned, no errors
  for (std::size_t i = 0; plain && i < given; ++i) out[i] = args[i];
  const Py_ssize_t keywords = kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; plain && k < keywords; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, k);
    std::size_t at = 0;
    while (at < N && names.objects[at] != keyword) ++at;
    plain = at < N && out[at] == nullptr;
    if (plain) out[at] = args[nargs + k];
  }
  for (std::size_t i = 0; plain && i < required; ++i) plain = out[i] != nullptr;
  if (plain) [[likely]]
    return;
  out.fill(nullptr);
  parse_arguments(function, names.objects.data(), N, max_positional, required, args, nargs, kwnames,
                  out.data());
}

/// Returns the C++ object inside a Python object of a known type.
template <class T>
T& self_of(PyObject* object) noexcept {
  return *nb::inst_ptr<T>(nb::handle{object});
}

/// The value of an object that any thread may close. In free-threaded Python it is a copy, made
/// while no other thread modifies the object; otherwise a reference, valid while the GIL is held.
#ifdef Py_GIL_DISABLED
template <class T>
using Steady = T;
#else
template <class T>
using Steady = const T&;
#endif
template <class T>
Steady<T> steady(PyObject* object) {
  const nb::ft_object_guard alone{nb::handle{object}};
  return self_of<T>(object);
}

/// A string literal as a template argument.
template <std::size_t N>
struct Literal {
  char text[N]{};
  consteval Literal(const char (&given)[N]) { std::copy_n(given, N, text); }
};

/// Sets RuntimeError: objects of this type cannot be instantiated directly.
PyObject* refuse_new(PyTypeObject* type, const char* hint);

/// Forbids T() and T.__new__(T), which would create an object without a value. The hint names the
/// functions that create objects. T and classes derived from it may still have their own call
/// (set_type_call).
template <Literal hint>
void forbid_new(nb::handle type) {
  if (!CUCORE_PROTECTION("forbid-direct-construction")) return;
  auto* const made = reinterpret_cast<PyTypeObject*>(type.ptr());
  made->tp_new = [](PyTypeObject* wanted, PyObject*, PyObject*) -> PyObject* {
    return refuse_new(wanted, hint.text);
  };
  set_type_call(type, [](PyObject* wanted, PyObject* const*, size_t, PyObject*) -> PyObject* {
    return refuse_new(reinterpret_cast<PyTypeObject*>(wanted), hint.text);
  });
}

/// Makes pickling of the type raise TypeError; the reason has the alternative.
template <Literal reason, class T>
void forbid_pickling(nb::class_<T>& type) {
  type.def("__reduce__", [](nb::handle) -> nb::object { throw nb::type_error(reason.text); });
}

/// Creates a Python object of `type` (that of T, or derived from it) with a C++ value.
template <class T>
nb::object wrap(nb::handle type, T&& value) {
  nb::object object = nb::inst_alloc(type);
  new (nb::inst_ptr<std::remove_cvref_t<T>>(object)) std::remove_cvref_t<T>(std::forward<T>(value));
  nb::inst_mark_ready(object);
  return object;
}
template <class T>
nb::object wrap(T&& value) {
  static const nb::handle type = nb::type<std::remove_cvref_t<T>>();
  return wrap(type, std::forward<T>(value));
}

/// A cached lookup of module.name: the import of a loaded module still takes a microsecond. Declare
/// it `static constinit`: the first use then imports without the lock of a local static, for which
/// another thread would wait with the GIL. An exit function releases the reference.
class Member {
 public:
  constexpr Member(const char* module, const char* name) : module_{module}, name_{name} {}
  nb::handle operator*() {
    if (PyObject* known = object_.load(std::memory_order_acquire)) return known;
    return find();
  }
  static void clear_all() noexcept;

 private:
  nb::handle find();
  const char* module_;
  const char* name_;
  std::atomic<PyObject*> object_{nullptr};
  std::atomic<bool> listed_{false};
  Member* next_ = nullptr;  // in the list of resolved members
};

/// Converts a stream argument: a Stream, a GraphBuilder, or an object with __cuda_stream__. Throws
/// TypeError that names `function`.
Stream stream_argument(PyObject* object, const char* function);
/// Likewise; returns a reference to the value of a Stream object, without reference counting.
const Stream& stream_argument(PyObject* object, const char* function, Stream& storage);
/// Returns whether an object is a cuda.core.graph.GraphBuilder.
bool is_graph_builder(PyObject* object);
/// The slots of a GraphBuilder, which are read without a Python call; invalid with an exception set
/// if a slot is empty.
enum class BuilderSlot : unsigned char { stream, native, held };
nb::object builder_slot(PyObject* builder, BuilderSlot slot);
/// The slots of a GraphBuilder for a captured launch. Borrowed; valid until Python code runs.
struct BuilderSlots {
  PyObject* stream = nullptr;
  PyObject* held = nullptr;  ///< a list
};
/// Returns the slots of a builder that is building; null if it is not, or if a slot can be read
/// only through Python.
BuilderSlots slots_of_open_builder(PyObject* object) noexcept;
/// Owning references to the slots: the conversion of arguments may run Python code that closes the
/// builder.
struct OpenBuilder {
  nb::object stream{};
  nb::object held{};  ///< a list
};
OpenBuilder open_builder(PyObject* object) noexcept;
/// Returns the stream of `__cuda_stream__`, which keeps `object` alive.
Stream foreign_stream(nb::handle object);
/// Returns the process's default stream: LEGACY_DEFAULT_STREAM or PER_THREAD_DEFAULT_STREAM.
nb::object default_stream_object();
/// Returns the process's default stream: per-thread if
/// CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1.
CUstream default_stream_handle();

/// Creates a cuda.bindings.driver object ("CUstream") for a handle, to pass to the bindings.
nb::object driver_object(const char* type, std::uintptr_t value);

/// Returns this thread's Device singleton (src/python/core/device.cpp).
nb::object device_object(int device_id);
/// Resets the memory resources of this thread's devices to their defaults, when the module is
/// destroyed.
void clear_memory_resources() noexcept;
/// Returns the ordinal of a Device, an int, or an object with __index__.
int device_number(nb::handle device);
bool is_device(nb::handle object) noexcept;
/// Converts the size of an allocation. Throws TypeError or ValueError that names the argument.
std::size_t size_argument(PyObject* object, const char* name);

/// Converts an options argument to an object of `cls`: an instance, or a dict of its fields. Throws
/// TypeError.
nb::object options_of(PyObject* object, nb::handle cls);
EventOptions event_options(PyObject* object);
/// Converts the options of a stream of this context. Throws ValueError for options that a green
/// context does not support.
StreamOptions stream_options_in(const Context& context, PyObject* object);
StreamOptions stream_options(PyObject* object);

/// Waits without the GIL until `query` succeeds; Ctrl-C interrupts the wait within a few
/// milliseconds. `block` waits uninterruptibly and is used if no signal can arrive.
void wait_interruptible(CUresult (*query)(void*), CUresult (*block)(void*), void* what,
                        const char* call);
void sync_stream(CUstream stream);
void sync_event(CUevent event);

/// Issues a CucoreWarning, attributed to the line of the user's program.
void warn(const char* text);

inline nb::object none() { return nb::none(); }

}  // namespace cucore::python
