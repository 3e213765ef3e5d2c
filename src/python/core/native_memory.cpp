// SPDX-License-Identifier: Apache-2.0
// native_memory.cpp: the C++ memory resources, as the `_native` attribute of the Python classes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "cucore/device.hpp"
#include "cucore/ipc.hpp"
#include "cucore/location.hpp"
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

/// Wraps a pool as a memory resource.
static Native native_of(std::shared_ptr<MemoryPool> pool) {
  const CUmemoryPool plain = pool->is_managed() || pool->is_mapped() ? nullptr : pool->handle();
  return Native{std::move(pool), plain};
}

/// Converts a number and a location type to the preferred location; nullopt if both are missing.
static std::optional<Location> preferred_place(std::optional<int> number,
                                               const std::optional<std::string>& word) {
  if (!word && !number) return std::nullopt;
  const std::string kind = word ? *word : *number == -1 ? "host" : "device";
  const auto wrong = [&](const char* allowed) {
    return std::invalid_argument{"preferred_location must be " + std::string{allowed} + ", not " +
                                 (number ? std::to_string(*number) : "None")};
  };
  if (kind == "device") {
    if (!number || *number < 0) throw wrong("a device number of at least 0");
    return Location::device(*number);
  }
  if (kind == "host") {
    if (word && number) throw wrong("None for the type 'host'");
    return Location::host();
  }
  if (kind == "host_numa") {
    if (number && *number < 0) throw wrong("a NUMA node of at least 0 for the type 'host_numa'");
    const int near = Device::current().attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    return Location::host_numa(number.value_or(std::max(near, 0)));
  }
  throw std::invalid_argument{
      "preferred_location_type must be 'device', 'host' or 'host_numa', not '" + kind + "'"};
}

/// Returns the pool of managed memory with a preferred location, and the location as (type,
/// number).
static nb::object managed_pool(std::optional<int> number, const std::optional<std::string>& word) {
  const std::optional<Location> place = preferred_place(number, word);
  if (!place) {
    const CUmemLocation anywhere{CU_MEM_LOCATION_TYPE_INVALID, {0}};
    return nb::make_tuple(
        native_of(MemoryPool::default_of(anywhere, CU_MEM_ALLOCATION_TYPE_MANAGED)), nb::none());
  }
  PoolOptions options;
  options.type = CU_MEM_ALLOCATION_TYPE_MANAGED;
  options.location = place->raw();
  Native pool = native_of(MemoryPool::create(options));
  const nb::object name = place->is_device() ? nb::make_tuple("device", place->id())
                          : place->type() == CU_MEM_LOCATION_TYPE_HOST
                              ? nb::make_tuple("host", nb::none())
                              : nb::make_tuple("host_numa", place->id());
  return nb::make_tuple(std::move(pool), name);
}

void bind_native_memory(nb::module_& m) {
  nb::class_<Native> cls(m, "_Native");
  cls.def_static("current_pool",
                 [](int device) { return native_of(MemoryPool::current_of(device)); });
  cls.def_static("create_pool",
                 [](int type, int location_type, int location_id, bool ipc, std::size_t max_size) {
                   return native_of(MemoryPool::create(
                       pool_options(type, location_type, location_id, ipc, max_size)));
                 });
  cls.def_static("import_pool", [](int fd, int type, int location_type, int location_id) {
    return native_of(MemoryPool::from_file_descriptor(
        fd, pool_options(type, location_type, location_id, true, 0)));
  });
  cls.def_static("default_pinned", [] { return native_of(MemoryPool::default_pinned()); });
  cls.def_static(
      "create_pinned",
      [](bool ipc, std::optional<int> numa, std::size_t max_size) {
        return native_of(MemoryPool::create_pinned({ipc, numa, max_size}));
      },
      "ipc"_a, "numa"_a.none(), "max_size"_a);
  // The NUMA node of the memory; -1 for any.
  cls.def_prop_ro("numa_id", [](const Native& n) {
    const CUmemLocation& where = n.pool().options().location;
    return where.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? where.id : -1;
  });
  cls.def_static("managed_pool", &managed_pool, "place"_a.none(), "kind"_a.none());
  // A second owner of the pool, which stays valid after close().
  cls.def("share", [](const Native& n) {
    (void)n.pool();
    return n;
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
    const CUmemoryPool pool = n.resource != nullptr ? n.pool().handle() : nullptr;
    return driver_object("CUmemoryPool", reinterpret_cast<std::uintptr_t>(pool));
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
  cls.def("access",
          [](const Native& n, int device) { return static_cast<int>(n.pool().access(device)); });
  cls.def("peers", [](const Native& n) { return n.pool().peer_accessible_by(); });
  cls.def(
      "add_peer", [](const Native& n, int device) { n.pool().add_peer_accessible_by(device); },
      nb::call_guard<WithoutGil>());
  cls.def(
      "remove_peer",
      [](const Native& n, int device) { n.pool().remove_peer_accessible_by(device); },
      nb::call_guard<WithoutGil>());
  cls.def(
      "set_peers",
      [](const Native& n, const std::vector<int>& devices) {
        n.pool().set_peer_accessible_by(devices);
      },
      nb::call_guard<WithoutGil>());
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

  // Exports a buffer to other processes; `native` is its pool, None for a plain allocation.
  m.def(
      "export_memory",
      [](std::size_t ptr, std::size_t size, const Native* native) {
        const auto descriptor = [&] {
          const WithoutGil release;
          return export_memory({ptr, size}, native != nullptr ? &native->pool() : nullptr);
        }();
        return nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(descriptor.payload.data()),
                                        descriptor.payload.size()),
                              descriptor.kind_name());
      },
      "ptr"_a, "size"_a, "native"_a.none());
}
CUCORE_BIND(kBindMemory, bind_native_memory)

}  // namespace cucore::python
