// native_memory.cpp: the C++ memory resources, as the `_native` attribute of the Python classes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>

#include "length.hpp"
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

/// Drivers refuse batches in the legacy default stream without a word.
Stream batch_stream(nb::handle stream, const char* function) {
  Stream on = stream_argument(stream.ptr(), function);
  const CUstream handle = on.handle() ? on.handle() : default_stream_handle();
  if (handle == CU_STREAM_LEGACY)
    throw CUDAError{CUDA_ERROR_INVALID_VALUE, result_name(CUDA_ERROR_INVALID_VALUE),
                    std::string{result_name(CUDA_ERROR_INVALID_VALUE)} + ": " + function +
                        ": no batch can be queued in the legacy default stream; give it a stream "
                        "of your own, or the default stream of the thread"};
  return on;
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
  cls.def("export_pointer", [](const Native& n, std::size_t ptr) {
    const CUmemPoolPtrExportData data = [&] {
      WithoutGil release;
      return n.pool().export_pointer(ptr);
    }();
    return nb::bytes(reinterpret_cast<const char*>(&data), sizeof data);
  });
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

  // Plain device allocations shared between processes.
  m.def("ipc_get_mem_handle", [](std::size_t ptr) {
    CUipcMemHandle raw{};
    CUCORE_CALL_WITHOUT_GIL(cuIpcGetMemHandle(&raw, ptr));
    return nb::bytes(reinterpret_cast<const char*>(&raw), sizeof raw);
  });
  // Managed memory: advice, prefetch, ranges.
  m.def("mem_advise",
        [](std::size_t ptr, std::size_t size, int advice, int location_type, int location_id) {
          CUCORE_CALL_WITHOUT_GIL(cuMemAdvise(ptr, size, static_cast<CUmem_advise>(advice),
                                              location(location_type, location_id)));
        });
  m.def("mem_range_attribute", [](std::size_t ptr, std::size_t size, int attribute) {
    int value = 0;
    CUCORE_CALL_WITHOUT_GIL(cuMemRangeGetAttribute(
        &value, sizeof value, static_cast<CUmem_range_attribute>(attribute), ptr, size));
    return value;
  });
  m.def("mem_range_accessed_by", [](std::size_t ptr, std::size_t size, int count) {
    std::vector<int> ids(static_cast<std::size_t>(count), -2);
    CUCORE_CALL_WITHOUT_GIL(cuMemRangeGetAttribute(ids.data(), ids.size() * sizeof(int),
                                                   CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, size));
    return ids;
  });
  m.def("mem_prefetch", [](std::size_t ptr, std::size_t size, int location_type, int location_id,
                           nb::handle stream) {
    const Stream on = stream_argument(stream.ptr(), "prefetch");
    CUCORE_CALL_WITHOUT_GIL(
        cuMemPrefetchAsync(ptr, size, location(location_type, location_id), 0, on.handle()));
  });
  m.def("mem_batch", [](int what, std::vector<std::size_t> ptrs, std::vector<std::size_t> sizes,
                        std::vector<int> location_types, std::vector<int> location_ids,
                        nb::handle stream) {
    constexpr const char* kNames[] = {"prefetch_batch", "discard_batch", "discard_prefetch_batch"};
    const Stream on = batch_stream(stream, kNames[what]);
    std::vector<CUdeviceptr> addresses(ptrs.begin(), ptrs.end());
    std::vector<CUmemLocation> locations;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < location_types.size(); ++i) {
      locations.push_back(location(location_types[i], location_ids[i]));
      indices.push_back(i);
    }
    const std::size_t n = addresses.size();
    if (what == 0) {
      CUCORE_CALL_WITHOUT_GIL(cuMemPrefetchBatchAsync(addresses.data(), sizes.data(), n,
                                                      locations.data(), indices.data(),
                                                      locations.size(), 0, on.handle()));
    } else if (what == 1) {
      CUCORE_CALL_WITHOUT_GIL(
          cuMemDiscardBatchAsync(addresses.data(), sizes.data(), n, 0, on.handle()));
    } else {
      CUCORE_CALL_WITHOUT_GIL(cuMemDiscardAndPrefetchBatchAsync(addresses.data(), sizes.data(), n,
                                                                locations.data(), indices.data(),
                                                                locations.size(), 0, on.handle()));
    }
  });
  m.def("mark_discarded", [](nb::list buffers) {
    for (nb::handle buffer : buffers) open_buffer(buffer.ptr()).discarded = true;
  });
  // One attribute set per copy: (order, src location, dst location, flags)
  m.def("memcpy_batch", [](std::vector<std::size_t> dsts, std::vector<std::size_t> srcs,
                           std::vector<std::size_t> sizes, std::vector<std::vector<int>> attributes,
                           nb::handle stream) {
    const Stream on = batch_stream(stream, "copy_batch");
    std::vector<CUdeviceptr> into(dsts.begin(), dsts.end());
    std::vector<CUdeviceptr> from(srcs.begin(), srcs.end());
    std::vector<CUmemcpyAttributes> attrs;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      CUmemcpyAttributes a{};
      a.srcAccessOrder = static_cast<CUmemcpySrcAccessOrder>(attributes[i][0]);
      a.srcLocHint = location(attributes[i][1], attributes[i][2]);
      a.dstLocHint = location(attributes[i][3], attributes[i][4]);
      a.flags = static_cast<unsigned>(attributes[i][5]);
      attrs.push_back(a);
      indices.push_back(i);
    }
    CUCORE_CALL_WITHOUT_GIL(cuMemcpyBatchAsync(into.data(), from.data(), sizes.data(), into.size(),
                                               attrs.data(), indices.data(), attrs.size(),
                                               on.handle()));
  });
}
CUCORE_BIND(kBindMemory, bind_native_memory)

}  // namespace cucore::python
