// SPDX-License-Identifier: Apache-2.0
// device.cpp: cuda.core.Device, one object per device and thread.
#include "cucore/device.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "../type_table.hpp"
#include "device_properties.hpp"
#include "fast_path_types.hpp"
#include "py_buffer.hpp"
#include "py_graph_builder.hpp"
#include "submission.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {
namespace {

/// The value of a Device object. `context` is null until set_current().
struct PyDevice {
  int id;
  Context context;
  nb::object context_object{};  // argument of set_current(), while it is current
  nb::object memory_resource;
  nb::object native_memory;  // native_object(memory_resource)
  // Immutable attributes, cached on first access.
  nb::object properties{}, capability{}, name{}, uuid{}, pci_bus_id{}, arch{};
};

/// Borrowed from the thread state's dictionary, which releases the objects when the thread ends.
thread_local std::vector<PyObject*> devices_of_thread;
std::atomic<int> known_count{-1};  // the number of devices is constant in a process

int device_count() {
  if (known_count < 0) known_count = Device::count();
  return known_count;
}

PyObject* make_singletons(int id) {
  const int count = device_count();
  if (id < 0 || id >= count) {
    if (count == 0)
      throw nb::value_error("this process sees no device (is CUDA_VISIBLE_DEVICES set?)");
    throw nb::value_error(("device_id must be at least 0 and below " + std::to_string(count) +
                           ", the number of devices, not " + std::to_string(id))
                              .c_str());
  }
  PyObject* dictionary = PyThreadState_GetDict();  // borrowed
  if (dictionary == nullptr) throw std::runtime_error("this thread has no Python state");
  nb::list objects;
  for (int i = 0; i < count; ++i) objects.append(wrap(PyDevice{i, {}, {}, {}, {}}));
  if (PyDict_SetItemString(dictionary, "cuda.core.devices", objects.ptr()) < 0)
    throw nb::python_error();
  std::vector<PyObject*> borrowed;
  for (nb::handle object : objects) borrowed.push_back(object.ptr());
  devices_of_thread = std::move(borrowed);
  return devices_of_thread[static_cast<std::size_t>(id)];
}

PyObject* singleton(int id) {
  if (static_cast<std::size_t>(id) < devices_of_thread.size()) [[likely]] {
    return devices_of_thread[static_cast<std::size_t>(id)];
  }
  return make_singletons(id);
}

PyObject* device_call(PyObject*, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  try {
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    PyObject* given = nullptr;
    if (kwnames == nullptr && nargs <= 1) {
      if (nargs == 1) given = args[0];
    } else {
      static const Names<1> names{"device_id"};
      std::array<PyObject*, 1> out;
      parse("Device", names, 1, 0, args, nargs, kwnames, out);
      given = out[0];
    }
    const int id =
        given == nullptr || given == Py_None ? Device::current_id() : device_number(given);
    return Py_NewRef(singleton(id));
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// Device.__new__, also of derived classes: there is one object per device and thread.
PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  return PyObject_VectorcallDict(nb::type<PyDevice>().ptr(),
                                 reinterpret_cast<PyTupleObject*>(args)->ob_item,
                                 static_cast<size_t>(PyTuple_GET_SIZE(args)), keywords);
}

PyDevice& device_of(PyObject* self) { return self_of<PyDevice>(self); }

const Context& bound_context(PyDevice& device) {
  if (!device.context) {  // other code (another library, Stream()) may have set the device
                          // current
    const Context current = Context::current();
    if (current && current.device() == device.id) device.context = current;
  }
  if (!device.context) {
    throw InvalidStateError("Device " + std::to_string(device.id) +
                            " is not initialised on this thread: call Device(" +
                            std::to_string(device.id) + ").set_current() first");
  }
  return device.context;
}

PyObject* device_set_current(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                             PyObject* kwnames) {
  static const Names<1> names{"ctx"};
  std::array<PyObject*, 1> given;
  parse("set_current", names, 1, 0, args, nargs, kwnames, given);
  PyDevice& device = device_of(self);
  if (given[0] == nullptr || given[0] == Py_None) {
    if (!device.context || device.context.is_green() || device.context.was_reset())
      device.context = Context::primary(device.id);
    device.context.set_current();
    device.context_object.reset();
    Py_RETURN_NONE;
  }
  if (!nb::isinstance<Context>(nb::handle{given[0]})) {
    PyErr_Format(PyExc_TypeError, "set_current(): ctx must be a Context or None, not %s",
                 Py_TYPE(given[0])->tp_name);
    throw nb::python_error();
  }
  const Context& context = self_of<Context>(given[0]);
  if (!context) throw InvalidStateError("set_current(): the context is closed");
  if (context.device() != device.id) {
    throw InvalidStateError("set_current(): the context belongs to device " +
                            std::to_string(context.device()) + ", not to device " +
                            std::to_string(device.id));
  }
  Context old = device.context == ContextRef::current() ? device.context : Context::current();
  context.set_current();
  device.context = context;
  nb::object before = std::exchange(device.context_object, nb::borrow(given[0]));
  if (!old) Py_RETURN_NONE;
  if (before.is_valid() && self_of<Context>(before.ptr()) == old) return before.release().ptr();
  return wrap(std::move(old)).release().ptr();
}

const nb::object& default_resource(PyDevice& device) {
  if (!device.memory_resource.is_valid()) {
    device.memory_resource =
        nb::module_::import_("cuda.core._memory").attr("_default_device_resource")(device.id);
    device.native_memory = native_object(device.memory_resource);
  }
  return device.memory_resource;
}

PyObject* device_allocate(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                          PyObject* kwnames) {
  PyDevice& device = device_of(self);
  // allocate(n, stream=s), or with a positional stream, on a device that has been used.
  const bool is_usual = kwnames == nullptr
                            ? nargs == 2
                            : nargs == 1 && PyTuple_GET_SIZE(kwnames) == 1 &&
                                  PyTuple_GET_ITEM(kwnames, 0) == fast_path_types.stream_name;
  if (is_usual && device.context && device.memory_resource.is_valid()) {
    if (PyObject* made =
            allocate_usually(device.memory_resource, device.native_memory, args[0], args[1]))
      return made;
  }
  static const Names<2> names{"size", "stream"};
  std::array<PyObject*, 2> given;
  parse("allocate", names, 2, 1, args, nargs, kwnames, given);
  if (!device.context && !Context::current()) {  // an allocation may be the first CUDA call
    device.context = Context::primary(device.id);
    device.context.set_current();
  }
  bound_context(device);
  const nb::object resource = default_resource(device);
  return allocate_from(resource, device.native_memory, given[0], given[1], "allocate")
      .release()
      .ptr();
}

/// For drivers without such an event: another thread synchronizes, and is abandoned on Ctrl-C.
void sync_context_by_thread(const Context& context) {
  constexpr int kWaiting = -1;
  const auto result = std::make_shared<std::atomic<int>>(kWaiting);
  std::thread([result, context] { result->store(detail::synchronize(context)); }).detach();
  const auto query = [](void* state) {
    const int code = static_cast<std::atomic<int>*>(state)->load();
    return code == kWaiting ? CUDA_ERROR_NOT_READY : static_cast<CUresult>(code);
  };
  const auto block = [](void* state) {
    auto& code = *static_cast<std::atomic<int>*>(state);
    while (code.load() == kWaiting) std::this_thread::sleep_for(std::chrono::microseconds{100});
    return static_cast<CUresult>(code.load());
  };
  wait_interruptible(query, block, result.get(), "cuCtxSynchronize");
}

PyObject* device_sync(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const Context& context = bound_context(device_of(self));
  const ScopedContext scope{context};
  // An event for all work of the context can be polled, so that Ctrl-C interrupts the wait.
  static const bool has_event = driver_has("cuCtxRecordEvent");
  static const bool is_only_device = Device::count() == 1;
  const Backlog before = is_only_device ? backlog : Backlog{};
  if (has_event) {
    const Event event = Event::create(context);
    const auto record = [&] {
      WithoutGil release;
      return detail::record(context, event);
    };
    if (record() == CUDA_SUCCESS) {
      sync_event(event.handle());
      backlog.drained(before);
      Py_RETURN_NONE;
    }
  }
  sync_context_by_thread(context);
  backlog.drained(before);
  Py_RETURN_NONE;
}

PyObject* device_create_stream(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                               PyObject* kwnames) {
  static const Names<2> names{"obj", "options"};
  std::array<PyObject*, 2> given;
  parse("create_stream", names, 2, 0, args, nargs, kwnames, given);
  const Context& context = bound_context(device_of(self));
  if (given[0] != nullptr && given[0] != Py_None) {
    if (given[1] != nullptr && given[1] != Py_None) {
      throw nb::value_error("create_stream(): a foreign stream takes no options");
    }
    Stream foreign = foreign_stream(nb::handle{given[0]});
    if (foreign.is_closed()) {
      PyErr_Format(PyExc_TypeError, "create_stream(): obj must have __cuda_stream__; %s has not",
                   Py_TYPE(given[0])->tp_name);
      throw nb::python_error();
    }
    return wrap(std::move(foreign)).release().ptr();
  }
  return wrap(Stream::create(context, stream_options_in(context, given[1]))).release().ptr();
}

PyObject* device_create_event(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                              PyObject* kwnames) {
  static const Names<1> names{"options"};
  std::array<PyObject*, 1> given;
  parse("create_event", names, 1, 0, args, nargs, kwnames, given);
  const EventOptions options = event_options(given[0]);
  if (options.ipc_enabled)  // another process cannot tell several records of an event apart
    throw nb::type_error(
        "create_event() makes no event for other processes: use Stream.record(options=...), which "
        "records it too");
  return wrap(Event::create(bound_context(device_of(self)), options)).release().ptr();
}

PyObject* device_id(PyObject* self) { return PyLong_FromLong(device_of(self).id); }

nb::object capability_of(const PyDevice& device) {
  const ComputeCapability cc = Device{device.id}.compute_capability();
  return nb::module_::import_("cuda.core._device").attr("ComputeCapability")(cc.major, cc.minor);
}

template <auto text>
nb::object text_of(const PyDevice& device) {
  return nb::str((Device{device.id}.*text)().c_str());
}

nb::object helper(const char* module, const char* function) {
  return nb::module_::import_(module).attr(function);
}

}  // namespace

nb::object device_object(int id) { return nb::borrow(singleton(id)); }

void clear_memory_resources() noexcept {
  for (PyObject* device : devices_of_thread) {
    PyDevice& d = self_of<PyDevice>(device);
    d.native_memory.reset();
    d.memory_resource.reset();
  }
}

int device_number(nb::handle object) {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<PyDevice>().ptr());
  if (Py_TYPE(object.ptr()) == type) return self_of<PyDevice>(object.ptr()).id;
  if (std::int64_t quick = -1; PyLong_CheckExact(object.ptr()) && as_int64(object.ptr(), &quick) &&
                               quick >= 0 && quick < known_count)
    return static_cast<int>(quick);
  nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "a device must be a Device, an int or None, not %s",
                 Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  const long value = PyLong_AsLong(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (value < 0 || value >= device_count())
    make_singletons(static_cast<int>(value));  // throws the appropriate error
  return static_cast<int>(value);
}

bool is_device(nb::handle object) noexcept { return nb::isinstance<PyDevice>(object); }

Context device_context(nb::handle device) { return bound_context(device_of(device.ptr())); }

void bind_device(nb::module_& m) {
  nb::class_<PyDevice> cls(
      m, "Device", nb::is_weak_referenceable(),
      "A device: Device() is the current one (or device 0), Device(1) another.\n\n"
      "For one device a thread always gets the same object. Call set_current() before making "
      "streams or allocating;\nfrom then on methods act on this device whatever is current.\n\n"
      ">>> device = Device()\n"
      ">>> device.set_current()\n"
      ">>> stream = device.create_stream()\n"
      ">>> buffer = device.allocate(1024, stream=stream)\n"
      ">>> Device(0) is Device(0)\n"
      "True\n"
      ">>> device.compute_capability >= (7, 5)\n"
      "True");
  set_module(cls);
  set_type_call(cls, device_call);
  reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new = device_new;
  def_fast<device_set_current>(
      cls, "set_current",
      "set_current($self, ctx=None)\n--\n\nMake this device current on this thread, in its "
      "primary context or in ctx; with ctx, return the context that was current before.");
  def_fast<device_allocate>(
      cls, "allocate",
      "allocate($self, size, *, stream=None)\n--\n\nAllocate size bytes from the device's "
      "memory resource, ordered on a stream.");
  def_fast<device_sync>(
      cls, "sync",
      "sync($self)\n--\n\nWait until all work of the device is done. Ctrl-C interrupts it.");
  def_fast<device_create_stream>(
      cls, "create_stream",
      "create_stream($self, obj=None, options=None)\n--\n\nMake a stream, or use the "
      "stream of an object with __cuda_stream__.");
  def_fast<device_create_event>(
      cls, "create_event",
      "create_event($self, options=None)\n--\n\nMake an event; see EventOptions.");
  def_get(cls, "device_id", device_id, "The device's number.");
  def_kept<PyDevice, &PyDevice::capability, capability_of>(cls, "compute_capability",
                                                           "ComputeCapability(major, minor).");
  m.def("sync_device_by_thread",
        [](nb::handle device) {  // the path of sync() on older drivers, for tests
          const Context& context = bound_context(device_of(device.ptr()));
          const ScopedContext scope{context};
          sync_context_by_thread(context);
        });
  cls.def("__int__", [](const PyDevice& d) { return d.id; });
  cls.def("__index__", [](const PyDevice& d) { return d.id; });
  cls.def(
      "__eq__",
      [](const PyDevice& d, nb::handle other) -> nb::object {
        if (!nb::isinstance<PyDevice>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        return nb::bool_(d.id == nb::cast<const PyDevice&>(other).id);
      },
      "other"_a.none());
  cls.def("__hash__", [](const PyDevice& d) { return std::hash<int>{}(d.id) ^ 0xde71ce; });
  cls.def("__repr__", [](const PyDevice& d) {
    return "<Device " + std::to_string(d.id) + " (" + Device{d.id}.name() + ")>";
  });
  cls.def("_repr_html_", [](nb::handle self) {
    return nb::module_::import_("cuda.core._html").attr("device")(self);
  });
  cls.def("__reduce__", [](const PyDevice& d) {
    return nb::make_tuple(nb::type<PyDevice>(), nb::make_tuple(d.id));
  });
  def_kept<PyDevice, &PyDevice::name, text_of<&Device::name>>(cls, "name", "The device's name.");
  def_kept<PyDevice, &PyDevice::uuid, text_of<&Device::uuid>>(
      cls, "uuid", "The same for this device in every process.");
  def_kept<PyDevice, &PyDevice::pci_bus_id, text_of<&Device::pci_bus_id>>(
      cls, "pci_bus_id", "domain:bus:device.function");
  def_kept<PyDevice, &PyDevice::arch, text_of<&Device::arch>>(
      cls, "arch", "The compute capability as compilers want it: '90'.");
  cls.def_prop_ro(
      "total_memory", [](const PyDevice& d) { return Device{d.id}.total_memory(); },
      "The device's memory in bytes.");
  def_kept<PyDevice, &PyDevice::properties, [](const PyDevice& d) {
    return wrap(DeviceProperties{d.id});
  }>(cls, "properties", "What the device can do.");
  cls.def_prop_rw(
      "memory_resource",
      [](PyDevice& d) {
        bound_context(d);
        return default_resource(d);
      },
      [](PyDevice& d, nb::object resource) {
        nb::object base = helper("cuda.core._memory", "MemoryResource");
        if (PyObject_IsInstance(resource.ptr(), base.ptr()) != 1) {
          PyErr_Format(PyExc_TypeError, "memory_resource must be a MemoryResource, not %s",
                       Py_TYPE(resource.ptr())->tp_name);
          throw nb::python_error();
        }
        d.native_memory = native_object(resource);
        d.memory_resource = std::move(resource);
      },
      "The memory resource that allocate() uses.");
  cls.def_prop_ro(
      "context", [](PyDevice& d) { return wrap(Context{bound_context(d)}); },
      "The context that the methods of this device use.");
  cls.def_prop_ro(
      "default_stream", [](const PyDevice&) -> nb::object { return default_stream_object(); },
      "The default stream: the legacy or the per-thread default stream.");
  cls.def_prop_ro(
      "resources",
      [](nb::handle d) {
        bound_context(device_of(d.ptr()));
        return helper("cuda.core._resources", "DeviceResources").attr("_of_device")(d);
      },
      "The resources of the device (SMs, work queues), for ContextOptions.");
  cls.def(
      "can_access_peer",
      [](const PyDevice& d, nb::handle peer) {
        return Device{d.id}.can_access_peer(Device{device_number(peer)});
      },
      nb::arg("peer"), "True when this device can read and write the other's memory.");
  cls.def(
      "create_context",
      [](nb::handle d, nb::handle options) {
        return helper("cuda.core._resources", "create_context")(d, options);
      },
      nb::arg("options") = nb::none(), "Create a context with the resources given in the options.");
  cls.def(
      "create_graph_builder",
      [](nb::handle d) {
        const Context& context = bound_context(device_of(d.ptr()));
        return make_graph_builder(wrap(Stream::create(context)));
      },
      "Start capturing work into a graph.");
  cls.def(
      "create_opaque_array",
      [](nb::handle d, nb::handle options) {
        return helper("cuda.core.texture", "OpaqueArray").attr("_create")(d, options);
      },
      nb::arg("options"), "Make an array that textures and surfaces read.");
  cls.def(
      "create_mipmapped_array",
      [](nb::handle d, nb::handle options) {
        return helper("cuda.core.texture", "MipmappedArray").attr("_create")(d, options);
      },
      nb::arg("options"), "Make an array with smaller copies of itself.");
  cls.def(
      "create_texture_object",
      [](nb::handle d, nb::handle resource, nb::handle options) {
        return helper("cuda.core.texture", "TextureObject").attr("_create")(d, resource, options);
      },
      nb::kw_only(), nb::arg("resource"), nb::arg("options") = nb::none(),
      "Create a texture object for a resource.");
  cls.def(
      "create_surface_object",
      [](nb::handle d, nb::handle resource) {
        return helper("cuda.core.texture", "SurfaceObject").attr("_create")(d, resource);
      },
      nb::kw_only(), nb::arg("resource"), "Make a surface over a resource.");
  cls.def(
      "to_system_device",
      [](const PyDevice& d) { return helper("cuda.core.system", "Device").attr("_of_cuda")(d.id); },
      "The cuda.core.system (NVML) object of this device.");
  cls.def_static(
      "get_all_devices",
      [] {
        nb::list all;
        for (int i = 0, n = device_count(); i < n; ++i) all.append(device_object(i));
        return nb::tuple(all);
      },
      "Return a tuple of all devices.");
}
CUCORE_BIND(kBindDevice, bind_device)

}  // namespace cucore::python
