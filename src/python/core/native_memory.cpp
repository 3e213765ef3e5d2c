// SPDX-License-Identifier: Apache-2.0
// native_memory.cpp: the C++ memory resources, as the `_native` attribute of the Python classes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>

#include "cucore/ipc.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

CUmemLocation location(int type, int id) { return {static_cast<CUmemLocationType>(type), {id}}; }

PoolOptions pool_options(int type, int location_type, int location_id, bool ipc_enabled,
                         std::size_t max_size) {
  PoolOptions options;
  options.type = static_cast<CUmemAllocationType>(type);
  options.location = location(location_type, location_id);
  options.ipc_enabled = ipc_enabled;
  options.max_size = max_size;
  return options;
}

GraphMemory& graph_memory(const Native& native) {
  auto* memory = dynamic_cast<GraphMemory*>(native.resource.get());
  if (memory == nullptr) throw InvalidStateError("the memory resource is no GraphMemoryResource");
  return *memory;
}

}  // namespace

/// A pool as a resource.
static Native native_of(std::shared_ptr<MemoryPool> pool) {
  const CUmemoryPool plain = pool->is_managed() || pool->is_mapped() ? nullptr : pool->handle();
  return Native{std::move(pool), plain};
}

void bind_native_memory(nb::module_& m) {
  nb::class_<Native> cls(m, "_Native");
  cls.def_static("current_pool",
                 [](int device) { return native_of(MemoryPool::current_of(device)); });
  cls.def_static("default_pool", [](int type, int location_type, int location_id) {
    return native_of(MemoryPool::default_of(location(location_type, location_id),
                                            static_cast<CUmemAllocationType>(type)));
  });
  cls.def_static("create_pool",
                 [](int type, int location_type, int location_id, bool ipc, std::size_t max_size) {
                   return native_of(MemoryPool::create(
                       pool_options(type, location_type, location_id, ipc, max_size)));
                 });
  cls.def_static("import_pool", [](int fd, int type, int location_type, int location_id) {
    return native_of(MemoryPool::from_file_descriptor(
        fd, pool_options(type, location_type, location_id, true, 0)));
  });
  cls.def_static("legacy_pinned", [] { return Native{std::make_shared<LegacyPinnedMemory>()}; });
  cls.def_static("synchronous",
                 [](int device) { return Native{std::make_shared<SynchronousMemory>(device)}; });
  cls.def_static("graph", [](int device) { return Native{std::make_shared<GraphMemory>(device)}; });
  cls.def(
      "close",
      [](Native& n) {
        n.plain = nullptr;
        n.resource.reset();
      },
      nb::lock_self());
  cls.def_prop_ro("is_closed", [](const Native& n) { return n.resource == nullptr; });
  cls.def_prop_ro("handle", [](const Native& n) -> nb::object {
    return driver_object("CUmemoryPool", reinterpret_cast<std::uintptr_t>(n.pool().handle()));
  });
  cls.def_prop_ro("is_handle_owned", [](const Native& n) { return n.pool().is_handle_owned(); });
  cls.def_prop_ro("is_ipc_enabled", [](const Native& n) { return n.pool().is_ipc_enabled(); });
  cls.def_prop_ro("is_mapped", [](const Native& n) { return n.pool().is_mapped(); });
  cls.def_prop_ro("device_id",
                  [](const Native& n) { return n.resource ? n.resource->device_id() : -1; });
  cls.def("attribute", [](const Native& n, int attribute) {
    return n.pool().attribute(static_cast<CUmemPool_attribute>(attribute));
  });
  cls.def(
      "set_attribute",
      [](const Native& n, int attribute, std::size_t value) {
        n.pool().set_attribute(static_cast<CUmemPool_attribute>(attribute), value);
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "trim_to", [](const Native& n, std::size_t keep) { n.pool().trim_to(keep); },
      nb::call_guard<WithoutGil>());
  cls.def(
      "export_fd", [](const Native& n) { return n.pool().export_file_descriptor(); },
      nb::call_guard<WithoutGil>());
  cls.def(
      "set_access",
      [](const Native& n, int device, int flags) {
        n.pool().set_access(device, static_cast<CUmemAccess_flags>(flags));
      },
      nb::call_guard<WithoutGil>());
  cls.def("access",
          [](const Native& n, int device) { return static_cast<int>(n.pool().access(device)); });
  cls.def("graph_attribute", [](const Native& n, int attribute) {
    return graph_memory(n).attribute(static_cast<CUgraphMem_attribute>(attribute));
  });
  cls.def(
      "reset_graph_attribute",
      [](const Native& n, int attribute) {
        graph_memory(n).reset_attribute(static_cast<CUgraphMem_attribute>(attribute));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "trim_graph", [](const Native& n) { graph_memory(n).trim(); }, nb::call_guard<WithoutGil>());
  cls.def(
      "deallocate",
      [](const Native& n, nb::handle ptr, std::size_t size, nb::handle stream) {
        if (n.resource == nullptr) throw InvalidStateError("the memory resource is closed");
        Stream on = stream.is_none() ? Stream::view(default_stream_handle())
                                     : stream_argument(stream.ptr(), "deallocate");
        n.resource->deallocate(pointer_argument(ptr.ptr()), size, on);
      },
      "ptr"_a.none(), "size"_a, "stream"_a.none());

  // A buffer for other processes; `native` is its pool, None for a plain allocation.
  m.def(
      "export_memory",
      [](std::size_t ptr, std::size_t size, const Native* native) {
        const auto descriptor = [&] {
          const WithoutGil release;
          return export_memory({ptr, size}, native != nullptr ? &native->pool() : nullptr);
        }();
        return nb::make_tuple(
            nb::bytes(reinterpret_cast<const char*>(descriptor.payload.data()),
                      descriptor.payload.size()),
            descriptor.kind == IPCBufferDescriptor::Kind::pool ? "pool" : "memory");
      },
      "ptr"_a, "size"_a, "native"_a.none());
}
CUCORE_BIND(kBindMemory, bind_native_memory)

}  // namespace cucore::python
