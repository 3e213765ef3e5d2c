// SPDX-License-Identifier: Apache-2.0
// context.cpp: cuda.core.Context.
#include "support.hpp"

namespace cucore::python {

void bind_context(nb::module_& m) {
  nb::class_<Context> cls(
      m, "Context", nb::is_weak_referenceable(),
      "The state of one device for this process: made by Device.set_current() or "
      "Device.create_context().\n\n"
      ">>> device.context.device == device\n"
      "True");
  set_module(cls);
  forbid_new<"Device.set_current() or Device.create_context()">(cls);
  forbid_pickling<"a Context cannot be pickled: it belongs to this process; pickle the Device">(
      cls);
  cls.def(
      "close",
      [](Context& c) {
        if (c && !c.is_green()) return;  // primary contexts are shared by the whole process
        if (c && Context::current() == c)
          throw InvalidStateError(
              "the context is current and cannot be closed: make another one current first, "
              "Device.set_current()");
        c = Context{};
      },
      "Destroy a context created by create_context(). Idempotent.");
  cls.def_prop_ro(
      "handle",
      [](const Context& c) -> nb::object {
        if (!c) return nb::none();
        return driver_object("CUcontext", reinterpret_cast<std::uintptr_t>(c.handle()));
      },
      "The driver's handle, for cuda.bindings; int() gives its address.");
  cls.def_prop_ro(
      "is_closed", [](const Context& c) { return !c; }, "True after close().");
  cls.def_prop_ro("is_green", &Context::is_green, "True when it runs on part of a device only.");
  cls.def_prop_ro(
      "device", [](const Context& c) { return device_object(c.device()); },
      "The device it belongs to.");
  cls.def_prop_ro(
      "resources",
      [](nb::handle c) {
        if (!nb::cast<const Context&>(c)) throw InvalidStateError("the context is closed");
        return nb::module_::import_("cuda.core._resources")
            .attr("DeviceResources")
            .attr("_of_context")(c);
      },
      "The device resources of the context.");
  cls.def(
      "create_stream",
      [](const Context& c, nb::handle options) {
        if (!c) throw InvalidStateError("the context is closed");
        return wrap(Stream::create(c, stream_options_in(c, options.ptr())));
      },
      nb::arg("options") = nb::none(), "Make a stream whose work runs in this context.");
  cls.def(
      "__eq__",
      [](const Context& a, nb::handle other) -> nb::object {
        if (!nb::isinstance<Context>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        return nb::bool_(a == nb::cast<const Context&>(other));
      },
      "other"_a.none());
  cls.def("__hash__", [](const Context& c) { return std::hash<void*>{}(c.handle()) ^ 0x43; });
  cls.def("__repr__", [](const Context& c) {
    if (!c) return std::string{"<Context closed>"};
    char text[80];
    std::snprintf(text, sizeof text, "<Context handle=%#zx device=%d%s>",
                  reinterpret_cast<std::size_t>(c.handle()), c.device(),
                  c.is_green() ? " green" : "");
    return std::string{text};
  });
}
CUCORE_BIND(kBindDevice, bind_context)

}  // namespace cucore::python
