// SPDX-License-Identifier: Apache-2.0
// managed.cpp: the implementation of cuda.core.ManagedBuffer and of the batches of cuda.core.utils.
#include "cucore/managed.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "arguments.hpp"
#include "copy_buffers.hpp"
#include "cucore/copy.hpp"
#include "location.hpp"
#include "py_buffer.hpp"

namespace cucore::python {
namespace {

/// Converts a location or None.
std::optional<Location> place_or_none(nb::handle place) {
  return place.is_none() ? std::nullopt : std::optional{location_argument(place)};
}

/// Returns the memory of a list of Buffers.
std::vector<BufferRef> memory_of(nb::list buffers) {
  std::vector<BufferRef> out;
  for (nb::handle buffer : buffers) out.push_back(open_buffer(buffer.ptr()).buffer);
  return out;
}

/// Returns the memory of a buffer. Throws if it is closed.
ManagedRef managed(nb::handle buffer) { return ManagedRef{open_buffer(buffer.ptr()).buffer}; }

/// Converts an argument to a list of Buffers. Throws TypeError or RuntimeError that names the
/// argument and the index.
nb::list buffer_list(nb::handle buffers, const char* name) {
  const nb::object items = buffer_of(buffers.ptr()) == nullptr
                               ? nb::steal(PyObject_GetIter(buffers.ptr()))
                               : nb::object{};
  if (!items.is_valid()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be a sequence of Buffers, not %s", name,
                 Py_TYPE(buffers.ptr())->tp_name);
    throw nb::python_error();
  }
  const nb::object all = nb::steal(PySequence_List(items.ptr()));
  if (!all.is_valid()) throw nb::python_error();
  nb::list found = nb::borrow<nb::list>(all);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const nb::object item = found[i];
    const PyBuffer* const buffer = buffer_of(item.ptr());
    if (buffer == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s must hold Buffers, not %s (%s[%zu])", name,
                   Py_TYPE(item.ptr())->tp_name, name, i);
      throw nb::python_error();
    }
    if (buffer->buffer.is_closed()) {
      PyErr_Format(PyExc_RuntimeError, "%s holds a closed buffer: %s[%zu]", name, name, i);
      throw nb::python_error();
    }
  }
  return found;
}

/// Like buffer_list(), for managed buffers. Throws ValueError for others.
nb::list managed_list(nb::handle buffers) {
  nb::list found = buffer_list(buffers, "buffers");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (traits_of(open_buffer(nb::object{found[i]}.ptr())).managed) continue;
    PyErr_Format(PyExc_ValueError,
                 "only managed buffers can be prefetched or discarded, and buffers[%zu] is not: "
                 "allocate it from a ManagedMemoryResource",
                 i);
    throw nb::python_error();
  }
  return found;
}

/// Converts the options of a batch: one for all copies, one for each, or None.
std::vector<CopyOptions> batch_options(nb::handle options, std::size_t copies) {
  static constinit Member type{"cuda.core._copy", "CopyOptions"};
  const auto is_options = [&](nb::handle thing) { return nb::isinstance(thing, *type); };
  const auto described = [](nb::handle how) {
    return nb::cast<CopyOptions>(how.attr("_described")());
  };
  std::vector<CopyOptions> out;
  if (options.is_none()) return out;
  if (is_options(options)) {
    out.push_back(described(options));
    return out;
  }
  if (PySequence_Check(options.ptr()) == 0 || PyUnicode_Check(options.ptr()) != 0) {
    PyErr_Format(PyExc_TypeError,
                 "options must be a CopyOptions, a sequence of them or None, not %s",
                 Py_TYPE(options.ptr())->tp_name);
    throw nb::python_error();
  }
  std::size_t place = 0;
  for (nb::handle how : options) {
    if (!is_options(how)) {
      PyErr_Format(PyExc_TypeError, "options must hold CopyOptions, not %s (options[%zu])",
                   Py_TYPE(how.ptr())->tp_name, place);
      throw nb::python_error();
    }
    out.push_back(described(how));
    ++place;
  }
  if (out.size() != copies) {
    PyErr_Format(PyExc_ValueError,
                 "there are %zu copies but %zu options: give one for all, or one each", copies,
                 out.size());
    throw nb::python_error();
  }
  return out;
}

CopyOptions copy_options(int order, nb::handle src, nb::handle dst, bool prefers_overlap) {
  CopyOptions out;
  out.src_access_order = static_cast<MemcpySrcAccessOrder>(order);
  out.src_location_hint = place_or_none(src);
  out.dst_location_hint = place_or_none(dst);
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
  m.def("managed_preferred_location", [](nb::handle buffer) {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    return memory.preferred_location();
  });
  m.def(
      "managed_set_preferred_location",
      [](nb::handle buffer, nb::handle where) {
        const std::optional<Location> place = place_or_none(where);
        const ManagedRef memory = managed(buffer);
        const WithoutGil release;
        memory.set_preferred_location(place);
      },
      "buffer"_a, "where"_a.none());
  m.def("managed_accessed_by", [](nb::handle buffer) {
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    return memory.accessed_by();
  });
  m.def(
      "managed_set_accessed_by",
      [](nb::handle buffer, nb::handle where, bool keeps) {
        const Location place = location_argument(where);
        const ManagedRef memory = managed(buffer);
        const WithoutGil release;
        keeps ? memory.add_accessed_by(place) : memory.remove_accessed_by(place);
      },
      "buffer"_a, "where"_a.none(), "keeps"_a);
  m.def("managed_assign_accessed_by", [](nb::handle buffer, nb::list where) {
    std::vector<Location> places;
    for (nb::handle place : where) places.push_back(location_argument(place));
    const ManagedRef memory = managed(buffer);
    const WithoutGil release;
    memory.set_accessed_by(places);
  });
  m.def(
      "managed_prefetch",
      [](nb::handle buffer, nb::handle where, nb::handle stream) {
        const Location place = location_argument(where);
        const ManagedRef memory = managed(buffer);
        const Stream on = stream_argument(stream.ptr(), "prefetch");
        const WithoutGil release;
        memory.prefetch(place, on);
      },
      "buffer"_a, "where"_a.none(), "stream"_a.none());
}

}  // namespace

void copy_buffers(nb::handle stream, nb::handle srcs, nb::handle dsts, nb::handle options) {
  const nb::list sources = buffer_list(srcs, "srcs");  // kept alive until the copies are enqueued
  const nb::list targets = buffer_list(dsts, "dsts");
  const auto from = memory_of(sources);
  const auto into = memory_of(targets);
  for (nb::handle target : targets) writable_buffer(target.ptr());
  const std::vector<CopyOptions> how = batch_options(options, from.size());
  const Stream on = stream_argument(stream.ptr(), "copy_batch");
  try {
    const WithoutGil release;
    copy_batch(on, from, into, how);
  } catch (const BatchStreamError& error) {
    throw nb::type_error(error.what());
  }
}

void bind_managed(nb::module_& m) {
  bind_advice(m);
  const auto to_places = [](const char* name, auto batch) {
    return [=](nb::handle stream, nb::handle buffers, nb::handle where) {
      const nb::list found = managed_list(buffers);
      const auto memory = memory_of(found);
      const std::vector<Location> places = location_arguments(where, memory.size());
      const Stream on = stream_argument(stream.ptr(), name);
      const WithoutGil release;
      batch(on, memory, places);
    };
  };
  m.def("prefetch_batch", to_places("prefetch_batch", &prefetch_batch), "stream"_a.none(),
        "buffers"_a.none(), "locations"_a.none());
  m.def("discard_prefetch_batch", to_places("discard_prefetch_batch", &discard_prefetch_batch),
        "stream"_a.none(), "buffers"_a.none(), "locations"_a.none());
  m.def(
      "discard_batch",
      [](nb::handle stream, nb::handle buffers) {
        const nb::list found = managed_list(buffers);
        const auto memory = memory_of(found);
        const Stream on = stream_argument(stream.ptr(), "discard_batch");
        {
          const WithoutGil release;
          discard_batch(on, memory);
        }
        for (nb::handle buffer : found) open_buffer(buffer.ptr()).discarded = true;
      },
      "stream"_a.none(), "buffers"_a.none());
  nb::class_<CopyOptions>(m, "_CopyOptions")
      .def_static("of", &copy_options, "order"_a, "src"_a.none(), "dst"_a.none(),
                  "prefers_overlap"_a);
  m.def("copy_batch", &copy_buffers, "stream"_a.none(), "srcs"_a.none(), "dsts"_a.none(),
        "options"_a.none());
}
CUCORE_BIND(kBindMemory, bind_managed)

}  // namespace cucore::python
