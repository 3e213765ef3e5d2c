// SPDX-License-Identifier: Apache-2.0
// event.cpp: cuda.core.Event.
#include <cstring>

#include "bytes_argument.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/ipc.hpp"
#include "submission.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {
namespace {

Steady<Event> open_event(PyObject* self) {
  Steady<Event> event = steady<Event>(self);
  if (event.is_closed()) throw InvalidStateError("the event is closed");
  return event;
}

PyObject* event_sync(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const Event held = open_event(self);  // another thread may close the object meanwhile
  sync_event(held.handle());
  Py_RETURN_NONE;
}

PyObject* event_close(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  self_of<Event>(self).close();
  Py_RETURN_NONE;
}

PyObject* event_is_done(PyObject* self) {
  return PyBool_FromLong(asked(open_event(self), [](const Event& e) { return e.is_done(); }));
}

/// Opens another process's event in the current context, or device 0's.
nb::object event_from_ipc(nb::bytes handle, bool blocking_sync) {
  const CUipcEventHandle raw = ipc_event_handle(bytes_of(handle));
  Context context = Context::current();
  if (!context)
    throw InvalidStateError("no device is current: call Device(...).set_current() first");
  Event event = Event::from_ipc_handle(context, raw);
  const_cast<EventOptions&>(event.options()).blocking_sync = blocking_sync;  // as its maker has it
  return wrap(std::move(event));
}

}  // namespace

static constexpr auto same_event = [](const Event& a, const Event& b) {
  return a.handle() == b.handle();
};
static constexpr auto event_number = [](const Event& e) {
  return std::hash<void*>{}(e.handle()) ^ 0x45;
};

void bind_event(nb::module_& m) {
  nb::class_<Event> cls(
      m, "Event", nb::is_weak_referenceable(),
      nb::type_slots(equality_slots<Event, same_event, event_number>),
      CUCORE_POOLED
      "A point in the work queued on a stream: made by Device.create_event() or "
      "Stream.record().\n\n"
      "Subtract two events for the milliseconds between them; await one in asyncio code.\n\n"
      ">>> start = stream.record(options={'timing_enabled': True})\n"
      ">>> end = stream.record(options={'timing_enabled': True})\n"
      ">>> end.sync()\n"
      ">>> end - start >= 0\n"
      "True");
  set_module(cls);
  forbid_new<"Device.create_event() or Stream.record()">(cls);
  cls.def(
      "__sub__",
      [](nb::handle self, nb::handle other) -> nb::object {
        if (!nb::isinstance<Event>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        const Event& end = steady<Event>(self.ptr());
        const Event& start = steady<Event>(other.ptr());
        if (end.is_closed() || start.is_closed()) throw InvalidStateError("the event is closed");
        return nb::float_(static_cast<double>(
            asked(end, [held = start](const Event& e) { return Event::elapsed_ms(held, e); })));
      },
      "other"_a.none());
  cls.def("__repr__", [](nb::handle self) {
    const Event& e = steady<Event>(self.ptr());
    if (e.is_closed()) return std::string{"<Event closed>"};
    char text[64];
    std::snprintf(text, sizeof text, "<Event handle=%#zx device=%d>",
                  reinterpret_cast<std::size_t>(e.handle()), e.context().device());
    return std::string{text};
  });
  cls.def("__reduce__", [](nb::handle self) {
    return nb::module_::import_("cuda.core._pickling").attr("reduce_event")(self);
  });
  cls.def("__await__", [](nb::handle self) {
    return nb::module_::import_("cuda.core._wait").attr("wait")(self).attr("__await__")();
  });
  def_fast<event_sync>(
      cls, "sync",
      "sync($self)\n--\n\nWait until the work before the event is done. Ctrl-C interrupts it.");
  def_fast<alone<event_close>>(
      cls, "close", "close($self)\n--\n\nDestroy the event; does nothing the second time.");
  cls.def("_poll", [](nb::handle e) {  // for await: leaves captures of other tasks alone
    return asked(open_event(e.ptr()), [](const Event& event) {
      const detail::RelaxedCaptureScope relaxed;
      return event.is_done();
    });
  });
  def_get(cls, "is_done", event_is_done, "True once the work before the event is done.");
  def_value(
      cls, "is_closed", [](const Event& e) { return e.is_closed(); }, "True after close().");
  def_value(
      cls, "is_timing_enabled",
      [](nb::handle s) { return open_event(s.ptr()).options().timing_enabled; },
      "True if the event records timing: (end - start) is a time in ms.");
  def_value(
      cls, "is_blocking_sync",
      [](nb::handle s) { return open_event(s.ptr()).options().blocking_sync; },
      "True if sync() blocks the thread instead of spinning.");
  def_value(
      cls, "is_sync_busy_waited",
      [](nb::handle s) { return open_event(s.ptr()).options().blocking_sync; },
      "An older spelling of is_blocking_sync, with the same value.");
  def_value(
      cls, "is_ipc_enabled", [](nb::handle s) { return open_event(s.ptr()).options().ipc_enabled; },
      "True if other processes can open the event.");
  def_value(
      cls, "device",
      [](nb::handle s) -> nb::object {
        const Event& event = open_event(s.ptr());
        return event.is_imported() ? nb::none()
                                   : nb::object{device_object(event.context().device())};
      },
      "The device of the event; None if it was imported from another process.");
  def_value(
      cls, "context",
      [](nb::handle s) -> nb::object {
        const Event& event = open_event(s.ptr());
        return event.is_imported() ? nb::none() : wrap(Context{event.context()});
      },
      "The context of the event; None if it was imported from another process.");
  def_value(
      cls, "handle",
      [](const Event& e) {
        return driver_object("CUevent", reinterpret_cast<std::uintptr_t>(e.handle()));
      },
      "The driver's handle, for cuda.bindings; int() gives its address.");
  const auto descriptor = [](nb::handle s) {
    const Event& event = open_event(s.ptr());
    const CUipcEventHandle raw = [&] {
      WithoutGil release;
      return event.ipc_handle();
    }();
    nb::bytes bytes(reinterpret_cast<const char*>(&raw), sizeof raw);
    return nb::module_::import_("cuda.core._ipc")
        .attr("IPCEventDescriptor")
        .attr("_make")(bytes, event.options().blocking_sync);
  };
  cls.def_prop_ro("ipc_descriptor", descriptor,
                  "Descriptor with which another process opens the event. Can be pickled.");
  cls.def("get_ipc_descriptor", descriptor, "The same as ipc_descriptor.");
  cls.def_static(
      "from_ipc_descriptor",
      [](nb::handle descriptor_object) {
        static constinit Member type{"cuda.core._ipc", "IPCEventDescriptor"};
        if (!nb::isinstance(descriptor_object, *type)) {
          PyErr_Format(PyExc_TypeError, "ipc_descriptor must be an IPCEventDescriptor, not %s",
                       Py_TYPE(descriptor_object.ptr())->tp_name);
          throw nb::python_error();
        }
        nb::bytes handle = nb::cast<nb::bytes>(descriptor_object.attr("_handle"));
        return event_from_ipc(handle, nb::cast<bool>(descriptor_object.attr("_blocking_sync")));
      },
      nb::arg("ipc_descriptor"), "Open an event of another process.");
}
CUCORE_BIND(kBindStream, bind_event)

}  // namespace cucore::python
