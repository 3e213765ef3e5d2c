// SPDX-License-Identifier: Apache-2.0
// support.hpp: methods written against the C API where a call must cost little, and conversions all
// files share.
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

/// Turns the exception in flight into a Python error. Call inside catch (...).
void set_python_error() noexcept;

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                   PyObject* kwnames);

/// A C function for a method table; no C++ exception leaves it.
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

/// Adds a method that takes its arguments by the fast convention. `doc` starts with "name($self,
/// ...)\n--\n\n", which is where inspect.signature() looks. The strings must live as long as the
/// process.
void add_method(nb::handle type, const char* name, FastFunction guarded_function, const char* doc);
template <FastFunction function>
void def_fast(nb::handle type, const char* name, const char* doc) {
  add_method(type, name, &guarded<function>, doc);
}
/// A method that changes its object: on free-threaded Python one thread at a time runs it.
template <FastFunction function>
PyObject* alone(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const nb::ft_object_guard guard{nb::handle{self}};
  return function(self, args, nargs, kwnames);
}
/// A function of a module, by the same convention.
void add_function(nb::module_& m, const char* name, FastFunction guarded_function, const char* doc);

/// A read-only property. The getter returns a new reference and may throw.
using Getter = PyObject* (*)(PyObject* self);
void def_get(nb::handle type, const char* name, Getter getter, const char* doc);
/// Makes the class say it lives in cuda.core, where users import it from.
void set_module(nb::handle type);

/// Replaces what calling the type does. The function returns a new reference.
using TypeCall = PyObject* (*)(PyObject* type, PyObject* const* args, size_t nargsf,
                               PyObject* kwnames);
void set_type_call(nb::handle type, TypeCall call);

/// Parameter names of a fast function; made once, kept for ever.
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
  bool plain = given <= max_positional;  // the usual call: names are interned, nothing is wrong
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

/// The C++ object inside a Python object of a known type.
template <class T>
T& self_of(PyObject* object) noexcept {
  return *nb::inst_ptr<T>(nb::handle{object});
}

/// The value of an object that any thread may close. Free-threaded Python: a copy, taken while no
/// other thread changes the object. Elsewhere a reference, valid as long as the GIL is held.
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

/// A text as an argument of a template.
template <std::size_t N>
struct Literal {
  char text[N]{};
  consteval Literal(const char (&given)[N]) { std::copy_n(given, N, text); }
};

/// RuntimeError: objects of this type are not made by calling it.
PyObject* refuse_new(PyTypeObject* type, const char* hint);

/// For types whose objects only we make: neither T() nor T.__new__(T), which would give one that
/// holds nothing. The hint says where they come from. What derives from T may have a call of its
/// own (set_type_call), and T, too.
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

/// TypeError when objects of the type are pickled; the reason says what to do instead.
template <Literal reason, class T>
void forbid_pickling(nb::class_<T>& type) {
  type.def("__reduce__", [](nb::handle) -> nb::object { throw nb::type_error(reason.text); });
}

/// A new Python object of `type` (T's own, or derived from it) around a C++ value.
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

/// module.name, looked up once: importing a module that is loaded still costs a microsecond. Make
/// it `static constinit`: the first use then imports without holding the lock of a local static,
/// on which another thread would wait with the GIL. Released when the interpreter exits.
class Member {
 public:
  constexpr Member(const char* module, const char* name) : module_{module}, name_{name} {}
  nb::handle operator*() {
    if (PyObject* known = object_.load(std::memory_order_acquire)) return known;
    return find();
  }
  static void forget_all() noexcept;

 private:
  nb::handle find();
  const char* module_;
  const char* name_;
  std::atomic<PyObject*> object_{nullptr};
  std::atomic<bool> listed_{false};
  Member* next_ = nullptr;  // of those that have been looked up
};

/// The stream an argument names: a Stream, a GraphBuilder, or any object with __cuda_stream__. The
/// second tells whether None stands for the default stream. Throws TypeError.
Stream stream_argument(PyObject* object, const char* function);
/// The same, borrowing where it is a Stream object (no reference counting).
const Stream& stream_argument(PyObject* object, const char* function, Stream& storage);
/// True for a cuda.core.graph.GraphBuilder.
bool is_graph_builder(PyObject* object);
/// What a slot of a GraphBuilder holds, read without a Python call; invalid with an exception set
/// when it is empty.
enum class BuilderSlot : unsigned char { stream, native, held };
nb::object builder_slot(PyObject* builder, BuilderSlot slot);
/// What a captured launch reads of a GraphBuilder: borrowed, until Python code runs.
struct BuilderSlots {
  PyObject* stream = nullptr;
  PyObject* held = nullptr;  ///< a list
};
/// Of a builder that is building; null where it is not, or a slot can be read by Python only.
BuilderSlots slots_of_open_builder(PyObject* object) noexcept;
/// The same, held: arguments may be asked by Python code, which may close the builder.
struct OpenBuilder {
  nb::object stream{};
  nb::object held{};  ///< a list
};
OpenBuilder open_builder(PyObject* object) noexcept;
/// The stream `__cuda_stream__` answers; `object` is kept alive by it.
Stream foreign_stream(nb::handle object);
/// LEGACY_DEFAULT_STREAM or PER_THREAD_DEFAULT_STREAM, whichever is this process's default stream.
nb::object default_stream_object();
/// This process's default stream: per-thread when CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=1.
CUstream default_stream_handle();

/// A cuda.bindings.driver object ("CUstream") for a handle, so that it can be passed to the
/// bindings.
nb::object driver_object(const char* type, std::uintptr_t value);

/// The Device singleton of this thread (src/python/core/device.cpp).
nb::object device_object(int device_id);
/// The devices of this thread go back to their own memory resources: for the end of the module.
void forget_memory_resources() noexcept;
/// The number of a Device, an int, or an object with __index__.
int device_number(nb::handle device);
bool is_device(nb::handle object) noexcept;
/// The size of an allocation; TypeError or ValueError that name the argument.
std::size_t size_argument(PyObject* object, const char* name);

/// An options argument as an object of `cls`: itself, or a dict of its fields. TypeError.
nb::object options_of(PyObject* object, nb::handle cls);
EventOptions event_options(PyObject* object);
/// The options of a stream of this context. ValueError for what a green context has not.
StreamOptions stream_options_in(const Context& context, PyObject* object);
StreamOptions stream_options(PyObject* object);

/// Waits without the GIL until `is_done` says so; Ctrl-C gets out within a few milliseconds.
/// `block` waits for good and is used where no signal can arrive.
void wait_interruptible(CUresult (*query)(void*), CUresult (*block)(void*), void* what,
                        const char* call);
void sync_stream(CUstream stream);
void sync_event(CUevent event);

/// Issues a CucoreWarning at the line of the user's program.
void warn(const char* text);

inline nb::object none() { return nb::none(); }

}  // namespace cucore::python
