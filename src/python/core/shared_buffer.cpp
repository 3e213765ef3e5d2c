// SPDX-License-Identifier: Apache-2.0
// shared_buffer.cpp: interprocess sharing of buffers, for cuda/core/_sharing.py.
#include "cucore/shared_buffer.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "arguments.hpp"
#include "bytes_argument.hpp"
#include "core/exporter.hpp"
#include "core/ipc_link.hpp"
#include "cucore/ipc.hpp"
#include "py_buffer.hpp"

namespace cucore::python {

using cucore::detail::Exporter;
using cucore::detail::IPCLink;
using cucore::detail::PoolName;

/// The number by which other processes identify a buffer, valid for the buffer's lifetime.
struct Offer {
  std::shared_ptr<Exporter> exporter;
  std::uint64_t number = 0;
};

void Withdraw::operator()(Offer* offer) const noexcept {
  offer->exporter->withdraw(offer->number);
  delete offer;
}

namespace {

std::string_view text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes to_bytes(std::string_view text) { return nb::bytes{text.data(), text.size()}; }

/// Owns a reference to a Python object that any thread may release. It is leaked during
/// finalization.
std::shared_ptr<PyObject> held_anywhere(PyObject* reference) {
  return {reference, [](PyObject* object) {
            const WithGil locked;
            if (locked) Py_DECREF(object);
          }};
}

/// Returns an owner of the memory of a weakly referenced buffer: the capsule of hold_memory().
std::shared_ptr<void> hold_for_others(PyObject* weak) {
  const WithGil locked;
  if (!locked) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  (void)PyWeakref_GetRef(weak, &found);
  const nb::object buffer = nb::steal(found);
#else
  const nb::object buffer = nb::borrow(PyWeakref_GetObject(weak));
#endif
  if (!buffer.is_valid() || buffer.is_none()) return nullptr;
  try {
    return held_anywhere(hold_memory(buffer.ptr()).release().ptr());
  } catch (const std::exception&) {  // closed meanwhile
    PyErr_Clear();
    return nullptr;
  }
}

std::uint64_t number_of(const std::shared_ptr<Exporter>& exporter, nb::handle buffer) {
  const nb::ft_object_guard alone{buffer};
  PyBuffer& value = open_buffer(buffer.ptr());
  if (value.offer != nullptr && value.offer->exporter == exporter) return value.offer->number;
  PyObject* const weak = PyWeakref_NewRef(buffer.ptr(), nullptr);
  if (weak == nullptr) throw nb::python_error();
  value.offer.reset(new Offer{exporter, 0});
  value.offer->number =
      exporter->offer([weak = held_anywhere(weak)] { return hold_for_others(weak.get()); });
  return value.offer->number;
}

/// Opens a buffer that this process itself exports: returns a buffer of the same memory, which can
/// be exported again.
nb::object come_home(Exporter& exporter, std::uint64_t number, nb::handle resource,
                     nb::handle descriptor) {
  const std::shared_ptr<void> held = exporter.hold(number);
  if (held == nullptr)
    throw InvalidStateError{"the buffer was closed before its pickle was loaded"};
  auto* const capsule = static_cast<PyObject*>(held.get());
  auto* const buffer =
      static_cast<PyObject*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  const Buffer& own = open_buffer(buffer).buffer;
  PyBuffer made{Buffer::view(own.handle(), own.size()), {}, nb::borrow(capsule)};
  made.imported =
      std::make_unique<ImportedFrom>(ImportedFrom{nb::borrow(resource), nb::borrow(descriptor)});
  return wrap(KeepingBuffer{std::move(made)});
}

/// Opens a buffer of another process from a descriptor. `lease` is called without the GIL.
template <class Lease>
nb::object open_imported(nb::handle resource, nb::handle named, nb::handle stream, Lease lease) {
  Stream on;
  if (!stream.is_none()) on = stream_argument(stream.ptr(), "from_ipc_descriptor");
  const auto payload = nb::cast<nb::bytes>(named.attr("_payload"));
  const auto descriptor = IPCBufferDescriptor::from_parts(
      bytes_of(payload), nb::cast<std::uint64_t>(named.attr("size")),
      resource.is_none() ? "memory" : "pool");
  std::shared_ptr<MemoryPool> pool;
  if (!resource.is_none())
    pool = std::dynamic_pointer_cast<MemoryPool>(open_native(native_object(resource)));
  PyBuffer made;
  {
    const WithoutGil unlocked;
    made.buffer = import_buffer(pool, descriptor, on, lease());
  }
  if (!resource.is_none()) made.resource = nb::borrow(resource);
  made.mapped = true;
  made.imported = std::make_unique<ImportedFrom>(ImportedFrom{made.resource, nb::borrow(named)});
  return wrap(std::move(made));
}

}  // namespace

void bind_shared_buffer(nb::module_& m) {
  nb::class_<Exporter>(m, "_Exporter")
      .def_static("mine", &Exporter::mine)
      .def_static(
          "end", [] { stop_sharing(); }, nb::call_guard<WithoutGil>())
      .def_prop_ro("name", [](const Exporter& e) { return to_bytes(e.name()); })
      .def_prop_ro("key", [](const Exporter& e) { return to_bytes(e.key()); })
      .def("number_of", &number_of, "buffer"_a)
      .def("offer_pool", [](Exporter& e, const Native& native, const nb::bytes& name) {
        PoolName key{};
        check_length("the name of a pool", name.size(), key.size());
        std::memcpy(key.data(), name.c_str(), key.size());
        e.offer_pool(key, std::dynamic_pointer_cast<MemoryPool>(native.resource));
      });
  // Returns a file descriptor of another process's pool; -1 if there is no such pool.
  m.def("shared_pool", [](const nb::bytes& name, const nb::bytes& key, const nb::bytes& pool) {
    const WithoutGil unlocked;
    return cucore::detail::query_exporter(text_of(name), text_of(key),
                                          [&](IPCLink& link) { return link.pool(text_of(pool)); });
  });
  m.def(
      "open_imported",
      [](nb::handle resource, nb::handle descriptor, nb::handle stream) {
        return open_imported(resource, descriptor, stream, [] { return std::shared_ptr<void>{}; });
      },
      "resource"_a.none(), "descriptor"_a, "stream"_a.none());
  // Opens a buffer with a lease: its process keeps the memory meanwhile. Works in that process,
  // too.
  m.def(
      "open_shared",
      [](nb::handle resource, nb::handle descriptor, nb::handle stream, const nb::bytes& name,
         const nb::bytes& key, std::uint64_t number) {
        if (const auto own = Exporter::named(text_of(name)))
          return come_home(*own, number, resource, descriptor);
        return open_imported(resource, descriptor, stream, [&] {
          return cucore::detail::query_exporter(text_of(name), text_of(key), [&](IPCLink& link) {
            return cucore::detail::leased(link, number);
          });
        });
      },
      "resource"_a, "descriptor"_a, "stream"_a.none(), "name"_a, "key"_a, "number"_a);
  m.def("visible_device",
        [](const std::string& uuid) { return cucore::detail::visible_device(uuid); });
}
CUCORE_BIND(kBindMemory + 1, bind_shared_buffer)

}  // namespace cucore::python
