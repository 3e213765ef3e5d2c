// SPDX-License-Identifier: Apache-2.0
// stream.cpp: cuda.core.Stream and the two default streams.
#include "core/relaxed_capture.hpp"
#include "protection.hpp"
#include "py_graph_builder.hpp"
#include "submission.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {
namespace {

Steady<Stream> open_stream(PyObject* self) {
  Steady<Stream> stream = steady<Stream>(self);
  if (CUCORE_PROTECTION("closed-stream-check") && stream.is_closed()) [[unlikely]]
    throw InvalidStateError("the stream is closed");
  return stream;
}

PyObject* stream_sync(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const Stream held = open_stream(self);  // another thread may close the object meanwhile
  const unsigned queued = backlog.on(held.handle());
  sync_stream(held.handle());
  backlog.drained(held.handle(), queued);
  Py_RETURN_NONE;
}

PyObject* stream_close(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  self_of<Stream>(self).close();
  Py_RETURN_NONE;
}

// A record or a wait keeps the lock, since drivers queue them without waiting, but for the case
// that a host function is pending, which would need it. Copies stay when another thread closes the
// objects meanwhile.
[[gnu::noinline]] void record_unlocked(Stream stream, Event event) {
  const WithoutGil release;
  stream.StreamRef::record(event);
}
[[gnu::noinline]] void wait_unlocked(Stream stream, Event event) {
  const WithoutGil release;
  stream.wait(static_cast<EventRef>(event));
}
[[gnu::noinline]] Event record_new_unlocked(Stream stream, const EventOptions& options) {
  const WithoutGil release;
  return stream.record(options);
}
[[gnu::noinline]] void wait_unlocked(Stream stream, Stream other) {
  const WithoutGil release;
  stream.wait(static_cast<StreamRef>(other));
}

PyObject* stream_record(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  const Stream& stream = open_stream(self);
  static PyTypeObject* const event_type = reinterpret_cast<PyTypeObject*>(nb::type<Event>().ptr());
  PyObject* event = nullptr;
  PyObject* options = nullptr;
  if (nargs == 1 && kwnames == nullptr) {
    event = args[0];
  } else {
    static const Names<2> names{"event", "options"};
    std::array<PyObject*, 2> given;
    parse("record", names, 2, 0, args, nargs, kwnames, given);
    event = given[0];
    options = given[1];
  }
  if (event != nullptr && event != Py_None) {
    if (Py_TYPE(event) != event_type) {
      PyErr_Format(PyExc_TypeError, "record(): event must be an Event or None, not %s",
                   Py_TYPE(event)->tp_name);
      throw nb::python_error();
    }
    const Event& target = steady<Event>(event);
    if (target.is_closed()) throw InvalidStateError("record(): the event is closed");
    if (target.options().ipc_enabled)
      throw nb::type_error(
          "record(): an event for other processes is recorded once, when record(options=...) "
          "makes it");
    if (host_calls_are_pending()) [[unlikely]]
      record_unlocked(stream, target);
    else
      stream.StreamRef::record(target);
    return Py_NewRef(event);
  }
  const EventOptions wanted = event_options(options);
  if (wanted.ipc_enabled) {  // such an event is made to be sent to another process
    static constinit Member reducer{"cuda.core._ipc", "register_event_reducer"};
    (*reducer)(nb::handle{reinterpret_cast<PyObject*>(event_type)});
  }
  return wrap(record_new_unlocked(stream, wanted)).release().ptr();
}

PyObject* stream_wait(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const Stream& stream = open_stream(self);
  static const Names<1> names{"event_or_stream"};
  std::array<PyObject*, 1> given;
  parse("wait", names, 1, 1, args, nargs, kwnames, given);
  static PyTypeObject* const event_type = reinterpret_cast<PyTypeObject*>(nb::type<Event>().ptr());
  if (Py_TYPE(given[0]) == event_type) {
    const Event& event = steady<Event>(given[0]);
    if (event.is_closed()) throw InvalidStateError("wait(): the event is closed");
    if (host_calls_are_pending()) [[unlikely]]
      wait_unlocked(stream, event);
    else
      stream.wait(static_cast<EventRef>(event));
    Py_RETURN_NONE;
  }
  Stream storage;
  try {
    wait_unlocked(stream, stream_argument(given[0], "wait", storage));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    PyErr_Format(PyExc_ValueError,
                 "wait() takes an Event, a Stream or an object with __cuda_stream__, not %s",
                 Py_TYPE(given[0])->tp_name);
    throw nb::python_error();
  }
  Py_RETURN_NONE;
}

PyObject* stream_protocol(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  return Py_BuildValue("(iK)", 0, reinterpret_cast<unsigned long long>(open_stream(self).handle()));
}

/// Stream(): a new non-blocking stream on the current device, which is device 0 where nothing is
/// current.
PyObject* stream_call(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  try {
    static const Names<1> names{"options"};
    std::array<PyObject*, 1> given;
    parse("Stream", names, 1, 0, args, PyVectorcall_NARGS(nargsf), kwnames, given);
    Context context = Context::current();
    if (!context) {
      context = Context::primary(0);
      context.set_current();
    }
    return wrap(nb::handle{type}, Stream::create(context, stream_options(given[0])))
        .release()
        .ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace

static constexpr auto same_stream = [](const Stream& a, const Stream& b) {
  return a.is_closed() == b.is_closed() && a.handle() == b.handle();
};
static constexpr auto stream_number = [](const Stream& s) {
  return std::hash<void*>{}(s.handle()) ^ 0x53;
};

static nb::handle module;  // this one, which lives as long as its functions

nb::object default_stream_object() {
  return module.attr(driver_info().per_thread_stream ? "PER_THREAD_DEFAULT_STREAM"
                                                     : "LEGACY_DEFAULT_STREAM");
}

void bind_stream(nb::module_& m) {
  nb::class_<Stream> cls(
      m, "Stream", nb::is_weak_referenceable(),
      nb::type_slots(equality_slots<Stream, same_stream, stream_number>),
      CUCORE_POOLED
      "A queue of device work that runs in order: made by Device.create_stream().\n\n"
      "As a context manager, it is closed at the end; asyncio code can await it.\n\n"
      ">>> stream = device.create_stream()\n"
      ">>> event = stream.record()\n"
      ">>> other = device.create_stream()\n"
      ">>> other.wait(event)  # work queued on other from now on comes after what stream had\n"
      ">>> stream.sync()\n"
      ">>> stream.is_done\n"
      "True");
  set_module(cls);
  forbid_new<"Device.create_stream()">(cls);
  set_type_call(cls, stream_call);
  def_fast<stream_sync>(
      cls, "sync", "sync($self)\n--\n\nWait until all queued work is done. Ctrl-C interrupts it.");
  def_fast<alone<stream_close>>(
      cls, "close",
      "close($self)\n--\n\nDestroy the stream; work already queued still runs. Does nothing the "
      "second time.");
  def_fast<stream_record>(
      cls, "record",
      "record($self, event=None, options=None)\n--\n\nMark this point of the queue in an event "
      "(a new one when none is given) and return it.");
  def_fast<stream_wait>(
      cls, "wait",
      "wait($self, event_or_stream)\n--\n\nMake later work here wait for an event, or for what "
      "another stream has queued by now.");
  def_fast<stream_protocol>(
      cls, "__cuda_stream__",
      "__cuda_stream__($self)\n--\n\nThe protocol by which libraries share streams.");
  cls.def("__enter__", [](nb::object self) { return self; });
  cls.def(
      "__exit__", [](Stream& s, nb::args) { s.close(); }, nb::lock_self());
  cls.def("__await__", [](nb::handle self) {
    return nb::module_::import_("cuda.core._wait").attr("wait")(self).attr("__await__")();
  });
  cls.def("_repr_html_", [](nb::handle self) {
    return nb::module_::import_("cuda.core._html").attr("stream")(self);
  });
  cls.def("__reduce__", [](nb::handle self) {
    return nb::module_::import_("cuda.core._pickling").attr("reduce_stream")(self);
  });
  cls.def("__repr__", [](nb::handle self) {
    const Stream& s = steady<Stream>(self.ptr());
    if (s.is_closed()) return std::string{"<Stream closed>"};
    std::size_t context = 0;
    try {
      context = reinterpret_cast<std::size_t>(s.context().handle());
    } catch (const CUDAError&) {  // a default stream where no context is current
    }
    char text[96];
    std::snprintf(text, sizeof text, "<Stream handle=%#zx context=0x%zx>",
                  reinterpret_cast<std::size_t>(s.handle()), context);
    return std::string{text};
  });
  cls.def_prop_ro(
      "is_done",
      [](nb::handle s) {
        return asked(open_stream(s.ptr()), [](const Stream& stream) { return stream.is_done(); });
      },
      "True if all enqueued work is complete.");
  cls.def("_poll", [](nb::handle s) {  // for await: leaves captures of other tasks alone
    return asked(open_stream(s.ptr()), [](const Stream& stream) {
      const detail::RelaxedCaptureScope relaxed;
      return stream.is_done();
    });
  });
  def_value(
      cls, "is_closed", [](const Stream& s) { return s.is_closed(); }, "True after close().");
  def_value(
      cls, "is_nonblocking", [](nb::handle s) { return open_stream(s.ptr()).is_nonblocking(); },
      "True if the stream does not synchronize with the legacy default stream.");
  def_value(
      cls, "priority", [](nb::handle s) { return open_stream(s.ptr()).priority(); },
      "Priority of the stream; a lower number is a higher priority.");
  def_value(
      cls, "handle",
      [](const Stream& s) {
        return driver_object("CUstream", reinterpret_cast<std::uintptr_t>(s.handle()));
      },
      "The driver's handle, for cuda.bindings; int() gives its address.");
  def_value(
      cls, "device", [](nb::handle s) { return device_object(open_stream(s.ptr()).device()); },
      "The device of the stream.");
  def_value(
      cls, "context", [](nb::handle s) { return wrap(open_stream(s.ptr()).context()); },
      "The context of the stream.");
  cls.def_prop_ro(
      "resources",
      [](nb::handle s) {
        return nb::module_::import_("cuda.core._resources")
            .attr("DeviceResources")
            .attr("_of_stream")(s);
      },
      "The device resources of the stream's context.");
  cls.def(
      "create_graph_builder",
      [](nb::handle s) {
        open_stream(s.ptr());
        return make_graph_builder(nb::borrow(s));
      },
      "Start capturing work into a graph through this stream.");
  cls.def_static(
      "from_handle",
      [](nb::handle handle) {
        nb::object number = nb::steal(PyNumber_Long(handle.ptr()));
        if (!number.is_valid()) throw nb::python_error();
        void* raw = PyLong_AsVoidPtr(number.ptr());
        if (raw == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
        return wrap(Stream::view(static_cast<CUstream>(raw)));
      },
      nb::arg("handle"),
      "Wrap a stream with another owner, given its address. It must outlive this object.");
  module = m;
  // A stream of a device's primary context, which need not be current.
  m.def(
      "stream_of",
      [](int device, nb::handle options) {
        return wrap(Stream::create(Context::primary(device), stream_options(options.ptr())));
      },
      "device"_a, "options"_a.none() = nb::none());
  m.attr("LEGACY_DEFAULT_STREAM") = wrap(Stream::legacy_default());
  m.attr("PER_THREAD_DEFAULT_STREAM") = wrap(Stream::per_thread_default());
}
CUCORE_BIND(kBindStream, bind_stream)

}  // namespace cucore::python
