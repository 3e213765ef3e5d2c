// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: cuda.core.Buffer.
#include <cstring>
#include <optional>
#include <type_traits>
#include <typeinfo>

#include "arguments.hpp"
#include "buffer_free_list.hpp"
#include "dlpack.hpp"
#include "fast_path_types.hpp"
#include "py_buffer.hpp"
#include "values.hpp"

namespace cucore::python {

const std::shared_ptr<MemoryResource>& open_native(nb::handle native) {
  const Native& held = self_of<Native>(native.ptr());
  if (held.resource == nullptr) throw InvalidStateError("the memory resource is closed");
  return held.resource;
}

namespace {

/// A memory resource that a user wrote in Python.
class PythonResource final : public MemoryResource {
 public:
  explicit PythonResource(nb::object object)
      : object_{keep_alive(std::move(object))},
        context_{driver_is_loaded() ? Context::current() : Context{}} {}
  CUdeviceptr allocate(std::size_t, StreamRef) override {
    throw InvalidStateError("a Python memory resource allocates in Python");
  }
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override {
    const WithGil gil;
    if (!gil || object() == nullptr) return;  // Python exits: the process frees the memory
    nb::object stream_object =
        stream.handle() != nullptr ? wrap(Stream::view(stream.handle())) : nb::none();
    // The thread that closes or collects the buffer may have no context.
    std::optional<ScopedContext> scope;
    try {
      if (context_) scope.emplace(context_);
    } catch (const CUDAError&) {  // it was destroyed: the resource says what it needs
    }
    nb::handle{object()}.attr("deallocate")(static_cast<std::uintptr_t>(ptr), size,
                                            nb::arg("stream") = stream_object);
  }
  bool is_device_accessible() const noexcept override { return flag("is_device_accessible"); }
  bool is_host_accessible() const noexcept override { return flag("is_host_accessible"); }
  bool is_managed() const noexcept override { return flag("is_managed"); }
  int device_id() const noexcept override {
    if (object() == nullptr) return -1;
    PyObject* value = PyObject_GetAttrString(object(), "device_id");
    const long id = value != nullptr ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    PyErr_Clear();
    return static_cast<int>(id);
  }
  int visit(visitproc visit, void* arg) const noexcept { return visit_kept(object_, visit, arg); }

 private:
  PyObject* object() const noexcept { return kept_object(object_); }
  bool flag(const char* name) const noexcept {
    if (object() == nullptr) return false;
    PyObject* value = PyObject_GetAttrString(object(), name);
    const bool answer = value != nullptr && PyObject_IsTrue(value) == 1;
    Py_XDECREF(value);
    PyErr_Clear();
    return answer;
  }
  std::shared_ptr<void> object_;
  Context context_;  // current when the buffer was made
};

nb::handle managed_buffer_type() {
  static constinit Member type{"cuda.core._managed", "ManagedBuffer"};
  return *type;
}

std::shared_ptr<MemoryResource> resource_of(nb::handle resource) {
  if (nb::object native = native_object(resource); native.is_valid()) return open_native(native);
  return std::make_shared<PythonResource>(nb::borrow(resource));
}

}  // namespace

/// A resource of this class, which nothing derives from: a dynamic_cast would look for a base.
template <class Resource>
static Resource* as(MemoryResource* resource) noexcept {
  static_assert(std::is_final_v<Resource>);
  return resource != nullptr && typeid(*resource) == typeid(Resource)
             ? static_cast<Resource*>(resource)
             : nullptr;
}

MemoryPool& Native::pool() const {
  if (resource == nullptr) throw InvalidStateError("the memory resource is closed");
  auto* pool = as<MemoryPool>(resource.get());
  if (pool == nullptr)
    throw InvalidStateError(
        "the memory resource has no pool: attributes and sharing are for resources made of one");
  return *pool;
}

PyBuffer* buffer_of(PyObject* object) noexcept {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<PyBuffer>().ptr());
  if (Py_TYPE(object) == type || PyType_IsSubtype(Py_TYPE(object), type) != 0)
    return &self_of<PyBuffer>(object);
  return nullptr;
}

PyBuffer& open_buffer(PyObject* object) {
  PyBuffer* buffer = buffer_of(object);
  if (buffer == nullptr) {
    PyErr_Format(PyExc_TypeError, "expected a Buffer, not %s", Py_TYPE(object)->tp_name);
    throw nb::python_error();
  }
  if (buffer->buffer.is_closed()) throw InvalidStateError("the buffer is closed");
  return *buffer;
}

PyBuffer& writable_buffer(PyObject* object) {
  PyBuffer& buffer = open_buffer(object);
  if (buffer.readonly)
    throw nb::type_error(
        "the buffer is read-only: its memory is shared with its sender; copy it to a buffer "
        "of your own");
  return buffer;
}

nb::object make_buffer(PyBuffer&& value, bool managed) {
  if (managed) return wrap(managed_buffer_type(), std::move(value));
  return wrap(std::move(value));
}

nb::object native_object(nb::handle resource) {
  static PyObject* const name = PyUnicode_InternFromString("_native");
  nb::object found = nb::steal(PyObject_GetAttr(resource.ptr(), name));
  if (!found.is_valid()) PyErr_Clear();
  return found.is_valid() && nb::isinstance<Native>(found) ? found : nb::object{};
}

/// An allocation waits when memory must be freed first, perhaps after a host function.
[[gnu::noinline]] static Buffer allocate_unlocked(std::shared_ptr<MemoryResource> from,
                                                  std::size_t bytes, Stream stream) {
  const WithoutGil release;
  return Buffer::allocate(std::move(from), bytes, stream);
}

nb::object allocate_from(nb::handle resource, nb::handle native, PyObject* size, PyObject* stream,
                         const char* function) {
  Stream storage;
  const Stream* on = nullptr;
  if (stream == nullptr || stream == Py_None) {
    storage = Stream::view(default_stream_handle());
    on = &storage;
  } else {
    on = &stream_argument(stream, function, storage);
  }
  if (native.is_valid()) {
    std::shared_ptr<MemoryResource> from = open_native(native);
    if (const auto* pool = as<MemoryPool>(from.get()); pool != nullptr && pool->is_mapped()) {
      throw nb::type_error(
          "a memory resource that came from another process cannot allocate: it only maps the "
          "buffers that process shares");
    }
    const std::size_t bytes = size_argument(size, "size");
    static const nb::handle plain = nb::type<PyBuffer>();
    const bool is_managed = from->is_managed();
    PyBuffer made =
        host_calls_are_pending()
            ? PyBuffer{allocate_unlocked(std::move(from), bytes, *on), nb::borrow(resource)}
            : PyBuffer{std::move(from), bytes, *on, nb::borrow(resource)};
    made.is_plain = !is_managed;
    allocation_fast_path.free.store(driver().cuMemFreeAsync, std::memory_order_relaxed);
    allocation_fast_path.allocate.store(driver().cuMemAllocFromPoolAsync,
                                        std::memory_order_relaxed);
    if (on == &storage) made.capture = on->capture_id();  // a builder's stream, among others
    return wrap(is_managed ? managed_buffer_type() : plain, std::move(made));
  }
  nb::object stream_object =
      stream == nullptr || stream == Py_None ? wrap(*on) : nb::borrow(stream);
  return resource.attr("allocate")(nb::handle{size}, nb::arg("stream") = stream_object);
}

namespace {

/// A Buffer object for memory of a pool where none is kept.
[[gnu::noinline, maybe_unused]] PyObject* new_buffer(CUdeviceptr ptr, std::size_t size,
                                                     SharedOwners* owners, PyObject* resource) {
  PyBuffer made{ptr, size, SharedOwnersRef{owners}, nb::borrow(resource)};
  nb::object buffer = nb::inst_alloc(reinterpret_cast<PyObject*>(fast_path_types.buffer_type));
  new (&value_at<PyBuffer>(buffer.ptr(), fast_path_types.buffer_at)) PyBuffer{std::move(made)};
  nb::inst_mark_ready(buffer);
  return buffer.release().ptr();
}

}  // namespace

PyObject* allocate_usually([[maybe_unused]] nb::handle resource, [[maybe_unused]] nb::handle native,
                           [[maybe_unused]] PyObject* size, [[maybe_unused]] PyObject* stream) {
#ifdef Py_GIL_DISABLED  // another thread may close any of these
  return nullptr;
#else
  const Stream* const on = plain_stream(stream);
  std::int64_t bytes = 0;
  if (on == nullptr || reinterpret_cast<std::uintptr_t>(on->handle()) <= 2 || !native.is_valid() ||
      !PyLong_CheckExact(size) || !as_int64(size, &bytes) || bytes <= 0 || host_calls_are_pending())
    return nullptr;
  const auto& from = value_at<Native>(native.ptr(), allocation_fast_path.native_at);
  const auto call = allocation_fast_path.allocate.load(std::memory_order_relaxed);
  if (from.plain == nullptr || call == nullptr) return nullptr;
  CUdeviceptr ptr = 0;
  const auto count = static_cast<std::size_t>(bytes);
  SharedOwners* const owners =
      SharedOwners::acquire(*on, from.resource);  // nothing throws while it is held here
  if (call(&ptr, count, from.plain, on->handle()) != CUDA_SUCCESS) [[unlikely]]
    return owners->release(), nullptr;
  PyObject* const spare = buffer_free_list.take();
  if (spare == nullptr) [[unlikely]]
    return new_buffer(ptr, count, owners, resource.ptr());
  new (&value_at<PyBuffer>(spare, fast_path_types.buffer_at))
      PyBuffer{ptr, count, SharedOwnersRef{owners}, nb::borrow(resource)};
  return spare;
#endif
}

CUdeviceptr pointer_argument(PyObject* object) {
  if (object == nullptr || object == Py_None) return 0;
  nb::object number = nb::steal(PyNumber_Long(object));
  if (!number.is_valid()) throw nb::python_error();
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return static_cast<CUdeviceptr>(value);
}

MemoryTraits traits_of(const PyBuffer& buffer) {
  MemoryTraits traits = buffer.buffer.traits();
  const auto& resource = buffer.buffer.memory_resource();
  if (!traits.managed && driver_is_loaded() && as<PythonResource>(resource.get()) != nullptr)
    traits.managed = memory_traits(buffer.buffer.handle()).managed;
  return traits;
}

namespace {

/// Any close.
[[gnu::noinline]] PyObject* close_anyhow(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                         PyObject* kwnames) {
  static const Names<1> names{"stream"};
  std::array<PyObject*, 1> given;
  parse("close", names, 1, 0, args, nargs, kwnames, given);
  PyBuffer& value = self_of<PyBuffer>(self);
  if (given[0] != nullptr && given[0] != Py_None) {
    Stream storage;
    const Stream& stream = stream_argument(given[0], "close", storage);
    if (!stream.is_same(value.buffer.deallocation_stream())) {  // counting it again costs a little
      value.settle();
      value.buffer.set_deallocation_stream(stream);
    }
  }
  value.close();
  Py_RETURN_NONE;
}

PyObject* buffer_close(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
#ifndef Py_GIL_DISABLED  // another thread may close the stream
  if (Py_TYPE(self) == fast_path_types.buffer_type && kwnames == nullptr && nargs == 1) {
    const Stream* const stream = plain_stream(args[0]);
    auto& value = value_at<PyBuffer>(self, fast_path_types.buffer_at);
    if (stream != nullptr && stream->is_same(value.buffer.deallocation_stream()) &&
        value.close_plainly()) [[likely]]
      Py_RETURN_NONE;
  }
#endif
  return close_anyhow(self, args, nargs, kwnames);
}

PyObject* buffer_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* kwnames) {
  static const Names<4> names{"stream", "max_version", "dl_device", "copy"};
  std::array<PyObject*, 4> given;
  parse("__dlpack__", names, 0, 0, args, nargs, kwnames, given);
  check_dlpack_stream(given[0]);
  const PyBuffer& value = open_buffer(self);
  const MemoryTraits traits = traits_of(value);
  const DLDevice device = dl_device_of(traits);
  check_dlpack_request(device, given[2], given[3]);
  DLTensor tensor{};
  tensor.data = reinterpret_cast<void*>(value.buffer.handle());
  tensor.device = device;
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 8, 1};
  std::int64_t shape = static_cast<std::int64_t>(value.buffer.size());
  std::int64_t stride = 1;
  tensor.shape = &shape;
  tensor.strides = &stride;
  return make_dlpack_capsule(tensor, wants_versioned(given[1]), value.readonly, hold_memory(self))
      .release()
      .ptr();
}

PyObject* buffer_dlpack_device(PyObject* self, PyObject* const*, Py_ssize_t, PyObject*) {
  const DLDevice device = dl_device_of(traits_of(open_buffer(self)));
  return Py_BuildValue("(ii)", static_cast<int>(device.device_type), device.device_id);
}

/// The buffer protocol, for memory the host can reach.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const nb::ft_object_guard alone{nb::handle{self}};
    PyBuffer& value = open_buffer(self);
    if (!traits_of(value).host) {
      PyErr_SetString(PyExc_BufferError,
                      "the buffer lies in device memory, which the host cannot reach: copy it to "
                      "host memory with copy_to()");
      return -1;
    }
    if (PyBuffer_FillInfo(view, self, reinterpret_cast<void*>(value.buffer.handle()),
                          static_cast<Py_ssize_t>(value.buffer.size()), value.readonly ? 1 : 0,
                          flags) < 0)
      return -1;
    ++value.views;
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace

void end_view(PyObject* self) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  {
    const nb::ft_object_guard alone{nb::handle{self}};
    self_of<PyBuffer>(self).end_view();
  }
  PyErr_Restore(type, value, trace);
}

nb::object buffer_from_handle(nb::handle type, nb::handle ptr, nb::handle size, nb::handle resource,
                              nb::handle owner, nb::handle stream) {
  if (!resource.is_none() && !owner.is_none()) {
    throw nb::value_error("from_handle(): give a memory resource or an owner, not both");
  }
  if (resource.is_none() && stream.is_valid() && !stream.is_none()) {
    throw nb::value_error(
        "from_handle(): a stream orders the release, which needs a memory resource: give mr too");
  }
  const CUdeviceptr address = pointer_argument(ptr.ptr());
  const std::size_t bytes = size_argument(size.ptr(), "size");
  PyBuffer value;
  if (!resource.is_none()) {
    Stream storage;
    if (stream.is_valid() && (!stream.is_none() || driver_is_loaded())) {
      storage = stream.is_none() ? Stream::view(default_stream_handle())
                                 : stream_argument(stream.ptr(), "from_handle");
    }
    value.buffer = Buffer::adopt(address, bytes, resource_of(resource), storage);
    value.resource = nb::borrow(resource);
  } else {
    value.buffer = Buffer::view(address, bytes);
    if (!owner.is_none()) value.owner = nb::borrow(owner);
  }
  const bool keeps =
      value.owner.is_valid() || as<PythonResource>(value.buffer.memory_resource().get()) != nullptr;
  if (keeps && type.is(nb::type<PyBuffer>())) return wrap(KeepingBuffer{std::move(value)});
  return wrap(type, std::move(value));
}

namespace {

void release_buffer(PyObject* self, Py_buffer*) { end_view(self); }

int keeping_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(nb::handle{self})) return 0;
  for (const PyBuffer* at = &self_of<KeepingBuffer>(self); at != nullptr; at = at->left.get()) {
    Py_VISIT(at->owner.ptr());
    Py_VISIT(at->resource.ptr());
    const auto& from = at->buffer.memory_resource();
    if (const auto* mine = as<PythonResource>(from.get());
        mine != nullptr && from.use_count() == 1) {
      if (const int stopped = mine->visit(visit, arg); stopped != 0) return stopped;
    }
  }
  return 0;
}

int keeping_clear(PyObject* self) {
  PyBuffer& buffer = self_of<KeepingBuffer>(self);
  if (buffer.views > 0) return 0;  // who sees the memory is cleared first
  try {
    buffer.close();
  } catch (...) {  // as in a destructor
  }
  buffer.owner.reset();
  return 0;
}

}  // namespace

static constexpr auto same_memory = [](const PyBuffer& a, const PyBuffer& b) {
  return a.buffer.handle() == b.buffer.handle() && a.buffer.size() == b.buffer.size();
};
static constexpr auto memory_number = [](const PyBuffer& b) {
  return std::hash<std::size_t>{}(static_cast<std::size_t>(b.buffer.handle())) ^ b.buffer.size();
};

void bind_buffer(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                                {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                                equality_slots<PyBuffer, same_memory, memory_number>[0],
                                equality_slots<PyBuffer, same_memory, memory_number>[1],
                                { 0, nullptr }};
  nb::class_<PyBuffer> cls(
      m, "Buffer", nb::is_weak_referenceable(), CUCORE_POOLED nb::type_slots(slots),
      "Memory that a device can use: made by Device.allocate() or a memory resource.\n\n"
      "Freed when closed or destroyed, on the stream it was allocated on. As a context manager, it "
      "is closed at the end.\n\n"
      ">>> buffer = device.allocate(8, stream=stream)\n"
      ">>> buffer.copy_from(b'abcdefgh', stream=stream)\n"
      ">>> bytes(buffer.copy_to(bytearray(8), stream=stream))\n"
      "b'abcdefgh'\n"
      ">>> buffer.fill(b'xy', stream=stream)\n"
      ">>> bytes(buffer.copy_to(bytearray(8), stream=stream))\n"
      "b'xyxyxyxy'");
  buffer_free_list.install(reinterpret_cast<PyTypeObject*>(cls.ptr()));
  set_module(cls);
  forbid_new<"Device.allocate(), a memory resource or Buffer.from_handle()">(cls);
  def_fast<buffer_copy_from>(
      cls, "copy_from",
      "copy_from($self, src, *, stream, options=None)\n--\n\nCopy from a Buffer of the same "
      "size, or from any host object with the buffer protocol (to the head of the buffer).");
  def_fast<buffer_copy_to>(
      cls, "copy_to",
      "copy_to($self, dst=None, *, stream, options=None)\n--\n\nCopy to a Buffer of the same "
      "size (a new one when none is given) or to a writable host object; return it.");
  def_fast<buffer_fill>(
      cls, "fill",
      "fill($self, value, *, stream)\n--\n\nRepeat a byte (an int in 0..255) or a pattern of 1, 2 "
      "or 4 bytes.");
  def_fast<alone<buffer_close>>(
      cls, "close",
      "close($self, stream=None)\n--\n\nFree the memory, on this stream or the one it was "
      "allocated on. Does nothing the second time. Memory that a memoryview, an array or a "
      "StridedMemoryView still uses is freed with the last of them.");
  def_fast<buffer_dlpack>(
      cls, "__dlpack__",
      "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
      "Export the bytes (as int8) to a library that understands DLPack.");
  def_fast<buffer_dlpack_device>(
      cls, "__dlpack_device__",
      "__dlpack_device__($self)\n--\n\nThe kind and number of the device the memory is on.");
#if PY_VERSION_HEX < 0x030C0000  // from 3.12 on the slot above gives the type a __buffer__, and
                                 // this one would replace the slot
  cls.def(
      "__buffer__",
      [](nb::handle self, int) {
        nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
        if (!view.is_valid()) throw nb::python_error();
        return view;
      },
      nb::arg("flags"));
#endif
  cls.def("__enter__", [](nb::object self) { return self; });
  cls.def(
      "__exit__", [](PyBuffer& b, nb::handle, nb::handle, nb::handle) { b.close(); },
      nb::arg("exc_type").none(), nb::arg("exc_val").none(), nb::arg("exc_tb").none());
  cls.def("__repr__", [](nb::handle self) {
    const PyBuffer& b = self_of<PyBuffer>(self.ptr());
    const char* name = std::strrchr(Py_TYPE(self.ptr())->tp_name, '.');
    const std::string type = name != nullptr ? name + 1 : Py_TYPE(self.ptr())->tp_name;
    if (b.buffer.is_closed()) return "<" + type + " closed>";
    char text[96];
    std::snprintf(text, sizeof text, " ptr=%#zx size=%zu>",
                  static_cast<std::size_t>(b.buffer.handle()), b.buffer.size());
    return "<" + type + text;
  });
  const auto reduce = [](nb::handle self, int protocol) -> nb::object {
    const nb::module_ pickling = nb::module_::import_("cuda.core._pickling");
    const PyBuffer& value = self_of<PyBuffer>(self.ptr());
    if (value.imported == nullptr)
      return pickling.attr("reduce_buffer")(self, protocol, value.capture != 0);
    const nb::object resource =
        value.imported->resource.is_valid() ? value.imported->resource : nb::object{nb::none()};
    return nb::make_tuple(pickling.attr("open_shared"),
                          nb::make_tuple(resource, value.imported->descriptor));
  };
  cls.def("__reduce_ex__", reduce, nb::arg("protocol"));
  cls.def("__reduce__", [reduce](nb::handle self) { return reduce(self, 4); });
  def_value(
      cls, "handle",
      [](const PyBuffer& b) { return b.buffer.is_closed() ? CUdeviceptr{0} : b.buffer.handle(); },
      "The address, as an int.");
  def_value(
      cls, "size", [](const PyBuffer& b) { return b.buffer.size(); }, "The size in bytes.");
  def_value(
      cls, "is_closed", [](const PyBuffer& b) { return b.buffer.is_closed(); },
      "True after close().");
  def_value(
      cls, "memory_resource",
      [](const PyBuffer& b) -> nb::object {
        return b.resource.is_valid() && !b.buffer.is_closed() ? b.resource : nb::none();
      },
      "The resource that allocated the memory; None for memory with another owner, and after "
      "close().");
  def_value(
      cls, "owner",
      [](const PyBuffer& b) -> nb::object { return b.owner.is_valid() ? b.owner : nb::none(); },
      "The owner of the memory, if it is not this buffer.");
  def_value(
      cls, "device_id", [](nb::handle s) { return traits_of(open_buffer(s.ptr())).device_id; },
      "The number of the device the memory is on; for host memory that the driver knows (pinned) "
      "the device it was allocated or registered for, else -1.");
  def_value(
      cls, "is_device_accessible",
      [](nb::handle s) { return traits_of(open_buffer(s.ptr())).device; },
      "True if kernels can access the memory.");
  def_value(
      cls, "is_host_accessible", [](nb::handle s) { return traits_of(open_buffer(s.ptr())).host; },
      "True if the host can access the memory directly.");
  def_value(
      cls, "is_managed", [](nb::handle s) { return traits_of(open_buffer(s.ptr())).managed; },
      "True for managed memory, which migrates between host and device.");
  def_value(
      cls, "is_mapped", [](const PyBuffer& b) { return b.mapped; },
      "True if the buffer was imported from another process.");
  cls.def(
      "set_deallocation_stream",
      [](nb::handle s, nb::handle stream) {
        PyBuffer& value = open_buffer(s.ptr());
        const Stream on = stream_argument(stream.ptr(), "set_deallocation_stream");
        value.settle();
        value.buffer.set_deallocation_stream(on);
      },
      nb::arg("stream").none(), "Choose the stream on which the memory is freed.");
  const auto descriptor = [](nb::handle s) -> nb::object {
    const PyBuffer& buffer = open_buffer(s.ptr());
    if (buffer.imported != nullptr) return buffer.imported->descriptor;
    return nb::module_::import_("cuda.core._sharing").attr("export_buffer")(s);
  };
  cls.def_prop_ro("ipc_descriptor", descriptor,
                  "Descriptor with which another process opens the buffer. Can be pickled.");
  cls.def("get_ipc_descriptor", descriptor, "The same as ipc_descriptor.");
  cls.def_static(
      "from_handle",
      [](nb::handle ptr, nb::handle size, nb::handle mr, nb::handle owner, nb::handle stream) {
        return buffer_from_handle(nb::type<PyBuffer>(), ptr, size, mr, owner, stream);
      },
      nb::arg("ptr").none(), nb::arg("size"), nb::arg("mr") = nb::none(),
      nb::arg("owner") = nb::none(), nb::kw_only(), nb::arg("stream") = nb::none(),
      "Use memory by its address: mr frees it when the buffer is closed, or owner is kept alive "
      "until then.");
  cls.def_static(
      "from_ipc_descriptor",
      [](nb::handle mr, nb::handle ipc_descriptor, nb::handle stream) {
        return nb::module_::import_("cuda.core._sharing")
            .attr("import_buffer")(mr, ipc_descriptor, stream);
      },
      nb::arg("mr"), nb::arg("ipc_descriptor"), nb::arg("stream") = nb::none(),
      "Import a buffer of another process.");
  static PyType_Slot keeping[] = {{Py_tp_traverse, reinterpret_cast<void*>(&keeping_traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(&keeping_clear)},
                                  {0, nullptr}};
  nb::class_<KeepingBuffer, PyBuffer> keeps(m, "_KeepingBuffer", nb::is_weak_referenceable(),
                                            nb::type_slots(keeping));
  nb::setattr(keeps, "__name__", nb::str("Buffer"));
  nb::setattr(keeps, "__qualname__", nb::str("Buffer"));
  set_module(keeps);
  forbid_new<"Buffer.from_handle()">(keeps);
  m.def("buffer_from_handle", &buffer_from_handle, "type"_a, "ptr"_a.none(), "size"_a,
        "mr"_a.none(), "owner"_a.none(), "stream"_a.none());
  // Memory that its resource takes back at once.
  m.def("buffer_without_stream", [](nb::handle ptr, nb::handle size, nb::handle mr) {
    return buffer_from_handle(nb::type<PyBuffer>(), ptr, size, mr, nb::none(), nb::handle{});
  });
  m.def(
      "allocate",
      [](nb::handle resource, nb::handle size, nb::handle stream) {
        return allocate_from(resource, native_object(resource), size.ptr(), stream.ptr(),
                             "allocate");
      },
      "resource"_a, "size"_a.none(), "stream"_a.none());
}
CUCORE_BIND(kBindMemory, bind_buffer)

}  // namespace cucore::python
