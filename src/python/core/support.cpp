// SPDX-License-Identifier: Apache-2.0
// support.cpp: the parts of the bindings that use the C API of Python.
#include "support.hpp"

#include <structmember.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "../type_table.hpp"
#include "driver/host_function.hpp"
#include "keep_alive.hpp"
#include "protection.hpp"
#include "py_graph_builder.hpp"
#include "python/immortal.hpp"

namespace cucore::python {

// ---- methods and functions

static PyMethodDef* new_method(const char* name, FastFunction function, const char* doc) {
  // Must outlive the type or module, which live until the process exits.
  return new PyMethodDef{name,
                         reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
                         METH_FASTCALL | METH_KEYWORDS, doc};
}

void add_method(nb::handle type, const char* name, FastFunction function, const char* doc) {
  PyObject* method = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                       new_method(name, function, doc));
  if (method == nullptr) throw nb::python_error();
  nb::object held = nb::steal(method);
  nb::setattr(type, name, held);
}

void add_function(nb::module_& m, const char* name, FastFunction function, const char* doc) {
  nb::object module_name = m.attr("__name__");
  PyObject* made = PyCFunction_NewEx(new_method(name, function, doc), nullptr, module_name.ptr());
  if (made == nullptr) throw nb::python_error();
  make_immortal(made);
  m.attr(name) = nb::steal(made);
}

static PyObject* get_guarded(PyObject* self, void* closure) noexcept {
  try {
    return reinterpret_cast<Getter>(closure)(self);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

void def_get(nb::handle type, const char* name, Getter getter, const char* doc) {
  auto* definition =
      new PyGetSetDef{name, &get_guarded, nullptr, doc, reinterpret_cast<void*>(getter)};
  PyObject* made = PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(type.ptr()), definition);
  if (made == nullptr) throw nb::python_error();
  nb::object held = nb::steal(made);
  nb::setattr(type, name, held);
}

void set_module(nb::handle type) { nb::setattr(type, "__module__", nb::str("cuda.core")); }

void set_type_call(nb::handle type, TypeCall call) {
  reinterpret_cast<PyTypeObject*>(type.ptr())->tp_vectorcall = call;
}

PyObject* refuse_new(PyTypeObject* type, const char* hint) {
  const char* const last = std::strrchr(type->tp_name, '.');
  return PyErr_Format(PyExc_RuntimeError, "%s objects cannot be instantiated directly: use %s",
                      last != nullptr ? last + 1 : type->tp_name, hint);
}

void parse_arguments(const char* function, PyObject* const* names, std::size_t count,
                     std::size_t max_positional, std::size_t required, PyObject* const* args,
                     Py_ssize_t nargs, PyObject* kwnames, PyObject** out) {
  if (static_cast<std::size_t>(nargs) > max_positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments (%zd given)",
                 function, max_positional, nargs);
    throw nb::python_error();
  }
  for (Py_ssize_t i = 0; i < nargs; ++i) out[i] = args[i];
  const Py_ssize_t n_keywords = kwnames != nullptr ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < n_keywords; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, k);
    std::size_t found = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (names[i] == keyword) {
        found = i;
        break;
      }
    }
    if (found == count) {  // not interned: compare the text
      for (std::size_t i = 0; i < count; ++i) {
        if (PyUnicode_Compare(names[i], keyword) == 0) {
          found = i;
          break;
        }
      }
    }
    if (found == count) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function,
                   keyword);
      throw nb::python_error();
    }
    if (out[found] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function,
                   keyword);
      throw nb::python_error();
    }
    out[found] = args[nargs + k];
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (out[i] == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() missing required argument: '%U'", function, names[i]);
      throw nb::python_error();
    }
  }
}

// ---- lookups

static std::atomic<Member*> looked_up{nullptr};

nb::handle Member::find() {
  PyObject* found = nb::getattr(nb::module_::import_(module_), name_).release().ptr();
  PyObject* none = nullptr;
  if (!object_.compare_exchange_strong(none, found)) {  // another thread was faster
    Py_DECREF(found);
    return none;
  }
  if (!listed_.exchange(true)) {
    Member* head = looked_up.load();
    do next_ = head;
    while (!looked_up.compare_exchange_weak(head, this));
  }
  return found;
}

void Member::clear_all() noexcept {
  for (Member* member = looked_up.load(); member != nullptr; member = member->next_)
    Py_XDECREF(member->object_.exchange(nullptr));
}

// ---- arguments

CUstream default_stream_handle() {
  return driver_info().per_thread_stream ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

Stream foreign_stream(nb::handle object) {
  nb::object protocol = nb::getattr(object, "__cuda_stream__", nb::handle());
  if (!protocol.is_valid()) return Stream{};
  const bool is_method = PyCallable_Check(protocol.ptr()) != 0;
  if (!is_method && PyErr_WarnFormat(PyExc_DeprecationWarning, 1,
                                     "__cuda_stream__ of %s is an attribute: make it a method",
                                     Py_TYPE(object.ptr())->tp_name) < 0)
    throw nb::python_error();
  nb::object answer = is_method ? protocol() : protocol;
  if (PyTuple_Check(answer.ptr()) == 0 || PyTuple_GET_SIZE(answer.ptr()) != 2) {
    PyErr_Format(PyExc_RuntimeError,
                 "__cuda_stream__ of %s must be a method that returns (version, address)",
                 Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  const long version = PyLong_AsLong(PyTuple_GET_ITEM(answer.ptr(), 0));
  if (version == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (version != 0) {
    PyErr_Format(PyExc_RuntimeError,
                 "__cuda_stream__ protocol version %ld is not known; version 0 is", version);
    throw nb::python_error();
  }
  nb::object number = nb::steal(PyNumber_Long(PyTuple_GET_ITEM(answer.ptr(), 1)));
  if (!number.is_valid()) throw nb::python_error();
  void* raw = PyLong_AsVoidPtr(number.ptr());
  if (raw == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return Stream::view(static_cast<CUstream>(raw), keep_alive(nb::borrow(object)));
}

namespace {

/// Describes a type that was passed as a stream.
struct BuilderType {
  bool is_builder = false;
  std::array<Py_ssize_t, 3> offsets{};  // of the slots, by BuilderSlot; 0: use getattr
};

std::array<PyObject*, 3>& slot_names() {
  static std::array<PyObject*, 3> names{PyUnicode_InternFromString("_stream"),
                                        PyUnicode_InternFromString("_native"),
                                        PyUnicode_InternFromString("_held")};
  return names;
}

TypeTable<BuilderType> builder_types;

[[gnu::noinline]] BuilderType look_at(PyTypeObject* type) {
  BuilderType made;
  PyObject* object = reinterpret_cast<PyObject*>(type);
  made.is_builder = PyObject_HasAttrString(object, "_cucore_stream") == 1;
#ifndef Py_GIL_DISABLED
  for (std::size_t i = 0; made.is_builder && i < made.offsets.size(); ++i) {
    const nb::object slot = nb::steal(PyObject_GetAttr(object, slot_names()[i]));
    if (!slot.is_valid()) {
      PyErr_Clear();
    } else if (Py_TYPE(slot.ptr()) == &PyMemberDescr_Type) {
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member;
      if (member->type == T_OBJECT_EX) made.offsets[i] = member->offset;
    }
  }
#endif
  builder_types.add(type, made);
  return made;
}

}  // namespace

bool is_graph_builder(PyObject* object) {
  const BuilderType* known = builder_types.find(Py_TYPE(object));
  return known != nullptr ? known->is_builder : look_at(Py_TYPE(object)).is_builder;
}

nb::object builder_slot(PyObject* builder, BuilderSlot slot) {
  const auto index = static_cast<std::size_t>(slot);
  const BuilderType* known = builder_types.find(Py_TYPE(builder));
  if (const Py_ssize_t offset = known != nullptr ? known->offsets[index] : 0; offset != 0) {
    PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(builder) + offset);
    if (value != nullptr) return nb::borrow(value);
  }
  return nb::steal(PyObject_GetAttr(builder, slot_names()[index]));
}

BuilderSlots slots_of_open_builder(PyObject* object) noexcept {
  static const nb::handle type = nb::type<PyGraphBuilder>();
  const BuilderType* const known = builder_types.find(Py_TYPE(object));
  if (known == nullptr || !known->is_builder) return {};
  const auto read = [&](BuilderSlot slot) -> PyObject* {
    const Py_ssize_t offset = known->offsets[static_cast<std::size_t>(slot)];
    return offset != 0 ? *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset)
                       : nullptr;
  };
  PyObject* const native = read(BuilderSlot::native);
  PyObject* const stream = read(BuilderSlot::stream);
  PyObject* const held = read(BuilderSlot::held);
  if (native == nullptr || stream == nullptr || held == nullptr || PyList_CheckExact(held) == 0 ||
      !type.is(reinterpret_cast<PyObject*>(Py_TYPE(native))) ||
      !nb::inst_ptr<PyGraphBuilder>(native)->is_building())
    return {};
  return {stream, held};
}

OpenBuilder open_builder(PyObject* object) noexcept {
  const BuilderSlots slots = slots_of_open_builder(object);
  if (slots.stream == nullptr) return {};
  return {nb::borrow(slots.stream), nb::borrow(slots.held)};
}

const Stream& stream_argument(PyObject* object, const char* function, Stream& storage) {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<Stream>().ptr());
  if (Py_TYPE(object) == type || PyObject_TypeCheck(object, type)) {
#ifdef Py_GIL_DISABLED
    const Stream& stream = storage = steady<Stream>(object);
#else
    const Stream& stream = self_of<Stream>(object);
#endif
    if (stream.is_closed())
      throw InvalidStateError(std::string{function} + "(): the stream is closed");
    return stream;
  }
  if (is_graph_builder(object)) {  // its slots are read without a Python call
    if (native_builder(object).is_closed()) throw InvalidStateError("the graph builder is closed");
    const nb::object held = builder_slot(object, BuilderSlot::stream);
    if (!held.is_valid()) throw nb::python_error();
    return storage = stream_argument(held.ptr(), function, storage);
  }
  Stream foreign = foreign_stream(nb::handle{object});
  if (foreign.is_closed()) {
    PyErr_Format(
        PyExc_TypeError,
        "%s(): stream must be a Stream, a GraphBuilder or an object with __cuda_stream__, not %s",
        function, Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  return storage = foreign;
}

Stream stream_argument(PyObject* object, const char* function) {
  Stream storage;
  return stream_argument(object, function, storage);
}

std::size_t size_argument(PyObject* object, const char* name) {
  if (std::int64_t quick = 0; PyLong_CheckExact(object) && as_int64(object, &quick) && quick >= 0)
    return static_cast<std::size_t>(quick);
  nb::object number = nb::steal(PyNumber_Index(object));
  if (!number.is_valid()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be an int, not %s", name, Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  const std::size_t value = PyLong_AsSize_t(number.ptr());
  if (value == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s must be at least 0 and fit in 64 bits, not %R", name,
                 number.ptr());
    throw nb::python_error();
  }
  return value;
}

nb::object driver_object(const char* type, std::uintptr_t value) {
  static std::atomic<PyObject*> known{
      nullptr};  // cuda.bindings.driver, or None if it is not installed
  PyObject* bindings = known.load(std::memory_order_acquire);
  if (bindings == nullptr) {
    bindings = PyImport_ImportModule("cuda.bindings.driver");
    if (bindings == nullptr) {
      PyErr_Clear();
      bindings = Py_NewRef(Py_None);
    }
    known.store(bindings, std::memory_order_release);  // all threads store the same module
  }
  nb::object number = nb::steal(PyLong_FromSize_t(value));
  if (bindings == Py_None) return number;
  return nb::handle{bindings}.attr(type)(number);
}

// ---- options: a class, a dict, or None

/// Returns one field; `name` is interned.
static nb::object field_of(nb::handle options, PyObject* name) {
  nb::object value = nb::steal(PyObject_GetAttr(options.ptr(), name));
  if (!value.is_valid()) throw nb::python_error();
  return value;
}

/// Reads one Boolean field.
static bool flag_of(nb::handle options, PyObject* name, bool fallback) {
  const nb::object value = field_of(options, name);
  if (value.is_none()) return fallback;
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

nb::object options_of(PyObject* object, nb::handle cls) {
  if (PyDict_Check(object) != 0) {
    nb::object empty = nb::steal(PyTuple_New(0));
    nb::object made = nb::steal(PyObject_Call(cls.ptr(), empty.ptr(), object));
    if (!made.is_valid()) throw nb::python_error();
    return made;
  }
  const int is = PyObject_IsInstance(object, cls.ptr());
  if (is < 0) throw nb::python_error();
  if (is == 0) {
    PyErr_Format(PyExc_TypeError, "options must be a %s, a dict of its fields or None, not %s",
                 reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_name, Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  return nb::borrow(object);
}

StreamOptions stream_options_in(const Context& context, PyObject* object) {
  const StreamOptions options = stream_options(object);
  if (context.is_green() && !options.nonblocking)
    throw nb::value_error(
        "streams of a green context are nonblocking: StreamOptions(nonblocking=False) cannot be "
        "had there");
  return options;
}

EventOptions event_options(PyObject* object) {
  EventOptions options;
  if (object == nullptr || object == Py_None) return options;
  static constinit Member type{"cuda.core._options", "EventOptions"};
  nb::object given = options_of(object, *type);
  static const Names<3> names{"timing_enabled", "blocking_sync", "ipc_enabled"};
  options.timing_enabled = flag_of(given, names.objects[0], false);
  options.blocking_sync = flag_of(given, names.objects[1], false);
  options.ipc_enabled = flag_of(given, names.objects[2], false);
  if (options.ipc_enabled && options.timing_enabled)
    throw nb::type_error(
        "an event with ipc_enabled cannot have timing_enabled: ask for one of them");
  return options;
}

StreamOptions stream_options(PyObject* object) {
  StreamOptions options;
  if (object == nullptr || object == Py_None) return options;
  static constinit Member type{"cuda.core._options", "StreamOptions"};
  nb::object given = options_of(object, *type);
  static const Names<2> names{"nonblocking", "priority"};
  options.nonblocking = flag_of(given, names.objects[0], true);
  const nb::object priority = field_of(given, names.objects[1]);
  if (!priority.is_none()) {
    const long value = PyLong_AsLong(priority.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    options.priority = static_cast<int>(value);
  }
  return options;
}

// ---- waiting

/// Returns whether this is the main thread, the only one on which Python handles signals. On Linux
/// its thread ID is the process ID.
static bool signals_arrive_here() { return syscall(SYS_gettid) == getpid(); }

void wait_interruptible(CUresult (*query)(void*), CUresult (*block)(void*), void* what,
                        const char* call) {
  if (detail::in_host_function()) [[unlikely]]
    fail(CUDA_ERROR_NOT_PERMITTED, call);
  CUresult code = query(what);
  if (code == CUDA_SUCCESS) return;
  if (code != CUDA_ERROR_NOT_READY) fail(code, call);
  if (!signals_arrive_here()) {
    {
      WithoutGil release;
      code = block(what);
    }
    check(code, call);
    return;
  }
  // Poll often at first, then at intervals of about a sixteenth of the time waited so far, at most
  // a millisecond.
  constexpr long kSignalPeriodNs = 20'000'000;
  const auto now_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000L + t.tv_nsec;
  };
  const long start = now_ns();
  while (true) {
    {
      WithoutGil release;
      const long until = now_ns() + kSignalPeriodNs;
      while ((code = query(what)) == CUDA_ERROR_NOT_READY) {
        const long now = now_ns();
        if (now >= until) break;
        const long waited = now - start;
        if (waited > 50'000) {
          const long pause = std::min(std::max(waited / 16, 5'000L), 1'000'000L);
          const timespec t{0, pause};
          nanosleep(&t, nullptr);
        }
      }
    }
    if (code == CUDA_SUCCESS) return;
    if (code != CUDA_ERROR_NOT_READY) fail(code, call);
    if (CUCORE_PROTECTION("interruptible-wait") && PyErr_CheckSignals() != 0)
      throw nb::python_error();
  }
}

void sync_stream(CUstream stream) {
  static constexpr auto named = [](void* s) { return StreamRef{static_cast<CUstream>(s)}; };
  wait_interruptible([](void* s) { return detail::query(named(s)); },
                     [](void* s) { return detail::synchronize(named(s)); }, stream,
                     "cuStreamSynchronize");
}

void sync_event(CUevent event) {
  static constexpr auto named = [](void* e) { return EventRef{static_cast<CUevent>(e)}; };
  wait_interruptible([](void* e) { return detail::query(named(e)); },
                     [](void* e) { return detail::synchronize(named(e)); }, event,
                     "cuEventSynchronize");
}

}  // namespace cucore::python
