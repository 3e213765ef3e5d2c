// resources.cpp: parts of a device (multiprocessors, work queues), contexts on them, checkpoints,
// graphics.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "length.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

struct Resource {
  CUdevResource raw{};
};

void bind_resource(nb::module_& m) {
  nb::class_<Resource> cls(m, "_DevResource");
  cls.def_static("of_device", [](int device, int type) {
    Resource r;
    CUdevice handle = 0;
    CUCORE_CALL(cuDeviceGet(&handle, device));
    CUCORE_CALL(cuDeviceGetDevResource(handle, &r.raw, static_cast<CUdevResourceType>(type)));
    return r;
  });
  cls.def_static("of_context", [](const Context& context, int type) {
    Resource r;
    if (context.is_green()) {
      CUCORE_CALL(cuGreenCtxGetDevResource(context.green_handle(), &r.raw,
                                           static_cast<CUdevResourceType>(type)));
    } else {
      CUCORE_CALL(
          cuCtxGetDevResource(context.handle(), &r.raw, static_cast<CUdevResourceType>(type)));
    }
    return r;
  });
  cls.def_static("of_stream", [](const Stream& stream, int type) {
    Resource r;
    CUCORE_CALL(
        cuStreamGetDevResource(stream.handle(), &r.raw, static_cast<CUdevResourceType>(type)));
    return r;
  });
  cls.def_prop_ro("address",
                  [](const Resource& r) { return reinterpret_cast<std::uintptr_t>(&r.raw); });
  cls.def_prop_ro("type", [](const Resource& r) { return static_cast<int>(r.raw.type); });
  cls.def_prop_ro("sm_count", [](const Resource& r) { return r.raw.sm.smCount; });
  cls.def_prop_ro("min_partition_size",
                  [](const Resource& r) { return r.raw.sm.minSmPartitionSize; });
  cls.def_prop_ro("coscheduled_alignment",
                  [](const Resource& r) { return r.raw.sm.smCoscheduledAlignment; });
  cls.def_prop_ro("flags", [](const Resource& r) { return r.raw.sm.flags; });
  cls.def_prop_ro("device", [](const Resource& r) { return r.raw.wqConfig.device; });
  cls.def_prop_rw(
      "concurrency_limit", [](const Resource& r) { return r.raw.wqConfig.wqConcurrencyLimit; },
      [](Resource& r, unsigned limit) { r.raw.wqConfig.wqConcurrencyLimit = limit; });
  cls.def_prop_rw(
      "sharing_scope",
      [](const Resource& r) { return static_cast<int>(r.raw.wqConfig.sharingScope); },
      [](Resource& r, int scope) {
        r.raw.wqConfig.sharingScope = static_cast<CUdevWorkqueueConfigScope>(scope);
      });
  // Groups of (sms, coscheduled, preferred coscheduled, flags); sms of 0 lets the driver choose.
  cls.def("split", [](const Resource& r, std::vector<std::vector<unsigned>> groups) {
    std::vector<CU_DEV_SM_RESOURCE_GROUP_PARAMS> params;
    for (const auto& g : groups) {
      CU_DEV_SM_RESOURCE_GROUP_PARAMS p{};
      p.smCount = g[0];
      p.coscheduledSmCount = g[1];
      p.preferredCoscheduledSmCount = g[2];
      p.flags = g[3];
      params.push_back(p);
    }
    std::vector<CUdevResource> made(groups.size());
    Resource rest;
    CUCORE_CALL_WITHOUT_GIL(cuDevSmResourceSplit(made.data(), static_cast<unsigned>(made.size()),
                                                 &r.raw, &rest.raw, 0, params.data()));
    std::vector<Resource> parts;
    for (const CUdevResource& part : made) parts.push_back({part});
    return std::make_pair(parts, rest);
  });
  cls.def("split_by_count", [](const Resource& r, unsigned groups, unsigned min_count) {
    std::vector<CUdevResource> made(groups);
    Resource rest;
    CUCORE_CALL_WITHOUT_GIL(
        cuDevSmResourceSplitByCount(made.data(), &groups, &r.raw, &rest.raw, 0, min_count));
    made.resize(groups);
    std::vector<Resource> parts;
    for (const CUdevResource& part : made) parts.push_back({part});
    return std::make_pair(parts, rest);
  });
  m.def("create_green_context", [](int device, std::vector<Resource> resources) {
    std::vector<CUdevResource> raw;
    for (const Resource& r : resources) raw.push_back(r.raw);
    CUdevResourceDesc descriptor = nullptr;
    CUCORE_CALL_WITHOUT_GIL(
        cuDevResourceGenerateDesc(&descriptor, raw.data(), static_cast<unsigned>(raw.size())));
    return Context::create_green(device, descriptor);
  });
}

void bind_checkpoint(nb::module_& m) {
  m.def("checkpoint_state", [](int pid) {
    CUprocessState state{};
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessGetState(pid, &state));
    return static_cast<int>(state);
  });
  m.def("checkpoint_thread", [](int pid) {
    int tid = 0;
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessGetRestoreThreadId(pid, &tid));
    return tid;
  });
  m.def("checkpoint_lock", [](int pid, unsigned timeout_ms) {
    CUcheckpointLockArgs args{};
    args.timeoutMs = timeout_ms;
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessLock(pid, &args));
  });
  m.def("checkpoint_save", [](int pid) {
    CUcheckpointCheckpointArgs args{};
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessCheckpoint(pid, &args));
  });
  m.def("checkpoint_restore", [](int pid, std::vector<std::pair<nb::bytes, nb::bytes>> pairs) {
    std::vector<CUcheckpointGpuPair> mapping;
    for (const auto& [before, after] : pairs) {
      CUcheckpointGpuPair pair{};
      check_length("a UUID", before.size(), sizeof pair.oldUuid);
      check_length("a UUID", after.size(), sizeof pair.newUuid);
      std::memcpy(&pair.oldUuid, before.c_str(), sizeof pair.oldUuid);
      std::memcpy(&pair.newUuid, after.c_str(), sizeof pair.newUuid);
      mapping.push_back(pair);
    }
    CUcheckpointRestoreArgs args{};
    args.gpuPairs = mapping.empty() ? nullptr : mapping.data();
    args.gpuPairsCount = static_cast<unsigned>(mapping.size());
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessRestore(pid, &args));
  });
  m.def("checkpoint_unlock", [](int pid) {
    CUcheckpointUnlockArgs args{};
    CUCORE_CALL_WITHOUT_GIL(cuCheckpointProcessUnlock(pid, &args));
  });
}

void bind_graphics(nb::module_& m) {
  m.def("graphics_unregister", [](std::size_t h) {
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsUnregisterResource(reinterpret_cast<CUgraphicsResource>(h)));
  });
  m.def("graphics_map", [](std::size_t h, nb::handle stream) {
    const Stream on = stream_argument(stream.ptr(), "map");
    auto resource = reinterpret_cast<CUgraphicsResource>(h);
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsMapResources(1, &resource, on.handle()));
    CUdeviceptr ptr = 0;
    std::size_t size = 0;
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsResourceGetMappedPointer(&ptr, &size, resource));
    return nb::make_tuple(static_cast<std::size_t>(ptr), size);
  });
  m.def("graphics_unmap", [](std::size_t h, nb::handle stream) {
    const Stream on = stream_argument(stream.ptr(), "unmap");
    auto resource = reinterpret_cast<CUgraphicsResource>(h);
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsUnmapResources(1, &resource, on.handle()));
  });
  m.def("graphics_register_gl_buffer", [](unsigned buffer, unsigned flags) {
    CUgraphicsResource resource = nullptr;
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsGLRegisterBuffer(&resource, buffer, flags));
    return reinterpret_cast<std::size_t>(resource);
  });
  m.def("graphics_register_gl_image", [](unsigned image, unsigned target, unsigned flags) {
    CUgraphicsResource resource = nullptr;
    CUCORE_CALL_WITHOUT_GIL(cuGraphicsGLRegisterImage(&resource, image, target, flags));
    return reinterpret_cast<std::size_t>(resource);
  });
}

}  // namespace

void bind_resources(nb::module_& m) {
  bind_resource(m);
  bind_checkpoint(m);
  bind_graphics(m);
  m.def("driver_version", [] {
    const int version = driver_info().version;
    return nb::make_tuple(version / 1000, version % 1000 / 10);
  });
  m.def("driver_path", [] { return nb::str(driver_info().path.c_str()); });
  m.def("is_cpu_device", [] { return driver_info().kind == DeviceKind::cpu; });
  m.def("device_count", [] {
    int n = 0;
    CUCORE_CALL(cuDeviceGetCount(&n));
    return n;
  });
}
CUCORE_BIND(kBindRest, bind_resources)

}  // namespace cucore::python
