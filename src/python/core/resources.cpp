// SPDX-License-Identifier: Apache-2.0
// resources.cpp: device resources, checkpoints and graphics interoperability of cuda.core.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <climits>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "bytes_argument.hpp"
#include "cucore/checkpoint.hpp"
#include "cucore/device.hpp"
#include "cucore/device_resources.hpp"
#include "cucore/graphics.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

template <class T>
std::uintptr_t address_of(const T& resource) {
  return reinterpret_cast<std::uintptr_t>(&resource.raw());
}

/// A field of SMResourceOptions: one value for all groups, one for each, or None.
struct GroupField {
  GroupField(nb::handle options, const char* field)
      : name{field}, value{options.attr(field)}, is_list{PySequence_Check(value.ptr()) != 0} {}

  const char* name;
  nb::object value;
  bool is_list;

  /// Returns the value of a group; 0 for None. Throws TypeError or ValueError.
  [[nodiscard]] unsigned of(std::size_t group) const {
    const nb::object one = is_list ? nb::object(value[group]) : value;
    if (one.is_none()) return 0;
    if (PyLong_Check(one.ptr()) == 0) {
      PyErr_Format(PyExc_TypeError, "SMResourceOptions.%s[%zu] must be an int, not %s", name, group,
                   Py_TYPE(one.ptr())->tp_name);
      throw nb::python_error();
    }
    const long long number = PyLong_AsLongLong(one.ptr());
    if (number >= 0 && number <= UINT_MAX) return static_cast<unsigned>(number);
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError,
                 "SMResourceOptions.%s[%zu]: counts cannot be negative or over 32 bits: %R", name,
                 group, one.ptr());
    throw nb::python_error();
  }
};

/// Converts SMResourceOptions to groups.
std::vector<SMGroupOptions> groups_of(nb::handle options) {
  const GroupField fields[] = {{options, "count"},
                               {options, "coscheduled_sm_count"},
                               {options, "preferred_coscheduled_sm_count"},
                               {options, "backfill"}};
  std::optional<std::size_t> groups;
  for (const GroupField& field : fields) {
    if (!field.is_list) continue;
    const std::size_t length = nb::len(field.value);
    if (groups.value_or(length) != length)
      throw std::invalid_argument{
          "the sequences of SMResourceOptions must have equal lengths, not " +
          std::to_string(*groups) + " and " + std::to_string(length)};
    groups = length;
  }
  if (groups && !fields[0].is_list && !fields[0].value.is_none())
    throw std::invalid_argument{
        "SMResourceOptions.count is one number, but another field is a sequence: one count per "
        "group"};
  if (groups == 0)
    throw std::invalid_argument{
        "SMResourceOptions.count is empty: a split makes at least one group"};
  std::vector<SMGroupOptions> made;
  for (std::size_t i = 0; i < groups.value_or(1); ++i)
    made.push_back({fields[0].of(i), fields[1].of(i), fields[2].of(i), fields[3].of(i) != 0});
  return made;
}

std::pair<std::vector<SMResource>, SMResource> split(const SMResource& resource,
                                                     nb::handle options) {
  const std::vector<SMGroupOptions> groups = groups_of(options);
  const WithoutGil release;
  return resource.split(groups);
}

Context green_context(int device, nb::list resources) {
  std::vector<DeviceResource> parts;
  for (nb::handle part : resources) {
    if (nb::isinstance<SMResource>(part))
      parts.emplace_back(nb::cast<const SMResource&>(part));
    else
      parts.emplace_back(nb::cast<const WorkqueueResource&>(part));
  }
  const WithoutGil release;
  return create_context(device, parts);
}

void bind_parts(nb::module_& m) {
  nb::class_<SMResource> sm(m, "_SMResource");
  sm.def_prop_ro("address", &address_of<SMResource>);
  sm.def_prop_ro("sm_count", &SMResource::sm_count);
  sm.def_prop_ro("min_partition_size", &SMResource::min_partition_size);
  sm.def_prop_ro("coscheduled_alignment", &SMResource::coscheduled_alignment);
  sm.def_prop_ro("flags", &SMResource::flags);
  sm.def("split", &split);
  nb::class_<WorkqueueResource> queues(m, "_WorkqueueResource");
  queues.def_prop_ro("address", &address_of<WorkqueueResource>);
  queues.def_prop_ro("device", &WorkqueueResource::device_id);
  queues.def_prop_rw("concurrency_limit", &WorkqueueResource::concurrency_limit,
                     &WorkqueueResource::set_concurrency_limit);
  queues.def_prop_rw(
      "sharing_scope",
      [](const WorkqueueResource& r) { return static_cast<int>(r.sharing_scope()); },
      [](WorkqueueResource& r, int scope) {
        r.set_sharing_scope(static_cast<WorkqueueSharingScope>(scope));
      });
  nb::class_<DeviceResources> all(m, "_DeviceResources");
  all.def_static("of_device", [](int device) { return DeviceResources{device}; });
  all.def_static("of_context", [](const Context& context) { return DeviceResources{context}; });
  all.def_static("of_stream", [](const Stream& stream) {
    return DeviceResources{static_cast<const StreamRef&>(stream)};
  });
  all.def_prop_ro("sm", &DeviceResources::sm);
  all.def_prop_ro("workqueue", &DeviceResources::workqueue);
  m.def("create_green_context", &green_context);
}

checkpoint::Uuid uuid_of(const nb::bytes& bytes) {
  checkpoint::Uuid out;
  check_length("a UUID", bytes.size(), out.size());
  std::memcpy(out.data(), bytes.c_str(), out.size());
  return out;
}

void bind_checkpoint(nb::module_& m) {
  using checkpoint::Process;
  nb::class_<Process> cls(m, "_CheckpointProcess");
  cls.def(nb::init<int>());
  cls.def_prop_ro("state", [](const Process& p) {
    const WithoutGil release;
    return static_cast<int>(p.state());
  });
  cls.def_prop_ro("restore_thread_id", [](const Process& p) {
    const WithoutGil release;
    return p.restore_thread_id();
  });
  cls.def("lock", &Process::lock, nb::call_guard<WithoutGil>());
  cls.def("checkpoint", &Process::checkpoint, nb::call_guard<WithoutGil>());
  cls.def("unlock", &Process::unlock, nb::call_guard<WithoutGil>());
  cls.def("restore",
          [](const Process& p, const std::vector<std::pair<nb::bytes, nb::bytes>>& pairs) {
            std::vector<std::pair<checkpoint::Uuid, checkpoint::Uuid>> mapping;
            for (const auto& [before, after] : pairs)
              mapping.emplace_back(uuid_of(before), uuid_of(after));
            const WithoutGil release;
            p.restore(mapping);
          });
}

/// Converts a stream; None is the driver's default stream.
Stream stream_or_default(nb::handle stream, const char* function) {
  return stream.is_none() ? Stream::view(nullptr) : stream_argument(stream.ptr(), function);
}

void bind_graphics(nb::module_& m) {
  nb::class_<GraphicsResource> cls(m, "_GraphicsResource");
  cls.def_static("from_gl_buffer", &GraphicsResource::from_gl_buffer, "gl_buffer"_a, "flags"_a,
                 nb::call_guard<WithoutGil>());
  cls.def_static("from_gl_image", &GraphicsResource::from_gl_image, "image"_a, "target"_a,
                 "flags"_a, nb::call_guard<WithoutGil>());
  cls.def_prop_ro("handle", [](const GraphicsResource& r) {
    return reinterpret_cast<std::uintptr_t>(r.handle());
  });
  cls.def_prop_ro("address", [](const GraphicsResource& r) { return r.memory().handle(); });
  cls.def_prop_ro("is_closed", &GraphicsResource::is_closed);
  cls.def_prop_ro("is_mapped", &GraphicsResource::is_mapped);
  cls.def(
      "map",
      [](GraphicsResource& r, nb::handle stream) {
        const Stream on = stream_argument(stream.ptr(), "map");
        const WithoutGil release;
        const BufferRef memory = r.map(on);
        return std::pair{memory.handle(), memory.size()};
      },
      "stream"_a.none(), nb::lock_self());
  cls.def(
      "unmap",
      [](GraphicsResource& r, nb::handle stream) {
        const Stream on = stream_argument(stream.ptr(), "unmap");
        const WithoutGil release;
        r.unmap(on);
      },
      "stream"_a.none(), nb::lock_self());
  cls.def(
      "close",
      [](GraphicsResource& r, nb::handle stream) {
        const Stream on = stream_or_default(stream, "close");
        const WithoutGil release;
        r.close(on);
      },
      "stream"_a.none(), nb::lock_self());
}

}  // namespace

void bind_resources(nb::module_& m) {
  bind_parts(m);
  bind_checkpoint(m);
  bind_graphics(m);
  m.def("driver_version", [] {
    const int version = driver_info().version;
    return nb::make_tuple(version / 1000, version % 1000 / 10);
  });
  m.def("driver_path", [] { return nb::str(driver_info().path.c_str()); });
  m.def("is_cpu_device", [] { return driver_info().kind == DeviceKind::cpu; });
  m.def("device_count", &Device::count);
}
CUCORE_BIND(kBindRest, bind_resources)

}  // namespace cucore::python
