// SPDX-License-Identifier: Apache-2.0
// managed.cpp: what cuda.core.ManagedBuffer and the batches of cuda.core.utils call.
#include "cucore/managed.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "arguments.hpp"
#include "cucore/copy.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// A place as Python gives it: (kind, number), the driver's.
using Place = std::pair<int, int>;

Location location(const Place& place) {
  return {static_cast<CUmemLocationType>(place.first), place.second};
}
Place place(const Location& location) { return {location.type(), location.id()}; }

std::vector<Location> locations(const std::vector<Place>& places) {
  std::vector<Location> out;
  for (const Place& one : places) out.push_back(location(one));
  return out;
}

/// The memory of a list of Buffers.
std::vector<BufferRef> memory_of(nb::list buffers) {
  std::vector<BufferRef> out;
  for (nb::handle buffer : buffers) out.push_back(open_buffer(buffer.ptr()).buffer);
  return out;
}

/// The memory of a buffer; throws when it is closed.
ManagedRef managed(nb::handle buffer) { return ManagedRef{open_buffer(buffer.ptr()).buffer}; }

/// A captured call runs later: the graph keeps the buffers.
void retain(nb::handle stream, nb::list buffers) {
  for (nb::handle buffer : buffers) {
    PyObject* const object = buffer.ptr();
    retain_in_graph(stream.ptr(), &object, 1);
  }
}

CopyOptions copy_options(int order, std::optional<Place> src, std::optional<Place> dst,
                         bool prefers_overlap) {
  CopyOptions out;
  out.src_access_order = static_cast<MemcpySrcAccessOrder>(order);
  if (src) out.src_location_hint = location(*src);
  if (dst) out.dst_location_hint = location(*dst);
  if (prefers_overlap) out.overlap_mode = MemcpyOverlapMode::prefer_overlap_with_compute;
  return out;
}

void bind_advice(nb::module_& m) {
  m.def("managed_read_mostly", [](nb::handle buffer) {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    return memory.read_mostly();
  });
  m.def("managed_set_read_mostly", [](nb::handle buffer, bool value) {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    memory.set_read_mostly(value);
  });
  m.def("managed_preferred_location", [](nb::handle buffer) -> std::optional<Place> {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    const auto found = memory.preferred_location();
    return found ? std::optional{place(*found)} : std::nullopt;
  });
  m.def(
      "managed_set_preferred_location",
      [](nb::handle buffer, std::optional<Place> where) {
        const ManagedRef memory = managed(buffer);
        const WithoutGil release;
        memory.set_preferred_location(where ? std::optional{location(*where)} : std::nullopt);
      },
      "buffer"_a, "where"_a.none());
  m.def("managed_accessed_by", [](nb::handle buffer) {
    const ManagedRef memory = managed(buffer);
    std::vector<Place> places;
    const WithoutGil release;
    for (const Location& found : memory.accessed_by()) places.push_back(place(found));
    return places;
  });
  m.def("managed_set_accessed_by", [](nb::handle buffer, Place where, bool keeps) {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    keeps ? memory.add_accessed_by(location(where)) : memory.remove_accessed_by(location(where));
  });
  m.def("managed_prefetch", [](nb::handle buffer, Place where, nb::handle stream) {
    const ManagedRef memory = managed(buffer);
    const Stream on = stream_argument(stream.ptr(), "prefetch");
    const WithoutGil release;
    memory.prefetch(location(where), on);
  });
}

}  // namespace

void bind_managed(nb::module_& m) {
  bind_advice(m);
  m.def("prefetch_batch", [](nb::handle stream, nb::list buffers, std::vector<Place> places) {
    const auto memory = memory_of(buffers);
    const Stream on = stream_argument(stream.ptr(), "prefetch_batch");
    const WithoutGil release;
    prefetch_batch(on, memory, locations(places));
  });
  m.def("discard_batch", [](nb::handle stream, nb::list buffers) {
    const auto memory = memory_of(buffers);
    const Stream on = stream_argument(stream.ptr(), "discard_batch");
    {
      const WithoutGil release;
      discard_batch(on, memory);
    }
    for (nb::handle buffer : buffers) open_buffer(buffer.ptr()).discarded = true;
  });
  m.def("discard_prefetch_batch",
        [](nb::handle stream, nb::list buffers, std::vector<Place> places) {
          const auto memory = memory_of(buffers);
          const Stream on = stream_argument(stream.ptr(), "discard_prefetch_batch");
          const WithoutGil release;
          discard_prefetch_batch(on, memory, locations(places));
        });
  nb::class_<CopyOptions>(m, "_CopyOptions")
      .def_static("of", &copy_options, "order"_a, "src"_a.none(), "dst"_a.none(),
                  "prefers_overlap"_a);
  m.def("copy_batch",
        [](nb::handle stream, nb::list srcs, nb::list dsts, std::vector<CopyOptions> options) {
          const auto from = memory_of(srcs);
          const auto into = memory_of(dsts);
          const Stream on = stream_argument(stream.ptr(), "copy_batch");
          {
            const WithoutGil release;
            copy_batch(on, from, into, options);
          }
          retain(stream, srcs);
          retain(stream, dsts);
        });
}
CUCORE_BIND(kBindMemory, bind_managed)

}  // namespace cucore::python
