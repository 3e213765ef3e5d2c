// SPDX-License-Identifier: Apache-2.0
// graph_support.hpp: conversions for graphs: node handles, host functions, arguments.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arguments.hpp"
#include "core/blocking_calls.hpp"
#include "cucore/graph.hpp"
#include "cucore/graph_node.hpp"
#include "keep_alive.hpp"
#include "py_kernel.hpp"
#include "py_launch_config.hpp"
#include "support.hpp"

namespace cucore::python {

using Handles = std::vector<std::size_t>;

inline std::vector<CUgraphNode> nodes_of(const Handles& handles) {
  std::vector<CUgraphNode> nodes;
  nodes.reserve(handles.size());
  for (const std::size_t handle : handles) nodes.push_back(reinterpret_cast<CUgraphNode>(handle));
  return nodes;
}

inline Handles handles_of(const std::vector<CUgraphNode>& nodes) {
  Handles handles;
  handles.reserve(nodes.size());
  for (const CUgraphNode node : nodes) handles.push_back(reinterpret_cast<std::size_t>(node));
  return handles;
}

inline std::size_t number(const void* pointer) { return reinterpret_cast<std::size_t>(pointer); }

/// Runs a Python callable on a thread of the driver. Passes its exceptions to sys.unraisablehook.
void CUDA_CB call_python(void* data);

/// Returns the parameters of a host node: a Python callable (`address` is 0), or the addresses of a
/// C function, which may be a ctypes wrapper of Python code, and its data. Graphs may run it
/// repeatedly: it counts as pending from now on.
inline HostNodeParams host_call(nb::handle callable, std::size_t address, std::size_t data) {
  cucore::detail::host_calls.fetch_add(1);
  if (address != 0) return {reinterpret_cast<CUhostFn>(address), reinterpret_cast<void*>(data)};
  return {&call_python, callable.ptr()};
}

/// Returns the Python callable of a host node; None for a C function.
inline nb::object callable_of(const HostNodeParams& call) {
  if (call.function != &call_python || are_all_released()) return nb::none();
  return nb::borrow(static_cast<PyObject*>(call.data));
}

/// Converts the integer value of a handle to a node.
inline GraphNodeRef node_of(std::size_t handle) {
  return GraphNodeRef{reinterpret_cast<CUgraphNode>(handle)};
}

/// Packs the arguments of a kernel and runs `use` with them without the GIL. The driver copies
/// them.
template <class Use>
auto with_arguments(nb::handle kernel, nb::handle args, Use use) {
  const Kernel& k = nb::cast<const PyKernel&>(kernel);
  nb::object tuple = nb::steal(PySequence_Tuple(args.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  PackedArguments packed;
  packed.pack(k, reinterpret_cast<PyTupleObject*>(tuple.ptr())->ob_item,
              static_cast<std::size_t>(PyTuple_GET_SIZE(tuple.ptr())));
  const Kernel held = k;
  WithoutGil release;
  return use(held, packed.pointers());
}

inline MemsetParams memset_of(std::size_t dst, unsigned value, unsigned element_size,
                              std::size_t width, std::size_t height, std::size_t pitch) {
  return {dst, pitch, value, element_size, width, height};
}

/// One end of a copy in Python: (address, array handle or 0).
using PyCopyEnd = std::pair<std::size_t, std::size_t>;
/// (row size in bytes, number of rows, number of planes).
using PyCopyExtent = std::tuple<std::size_t, std::size_t, std::size_t>;

inline CopyEnd copy_end(const PyCopyEnd& end) {
  return {end.first, reinterpret_cast<CUarray>(end.second)};
}
inline CopyExtent copy_extent(const PyCopyExtent& extent) {
  return {std::get<0>(extent), std::get<1>(extent), std::get<2>(extent)};
}
/// Converts a size in bytes. Throws OverflowError if it is negative.
inline std::size_t copy_size(nb::handle size) {
  const nb::object number = nb::steal(PyNumber_Index(size.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const std::size_t value = PyLong_AsSize_t(number.ptr());
  if (PyErr_Occurred() == nullptr) return value;
  PyErr_Clear();
  PyErr_Format(PyExc_OverflowError, "size must be at least 0 and fit in 64 bits, not %R",
               number.ptr());
  throw nb::python_error();
}
inline std::optional<CopyEnd> copy_end(const std::optional<PyCopyEnd>& end) {
  return end ? std::optional{copy_end(*end)} : std::nullopt;
}
inline std::optional<CopyExtent> copy_extent(const std::optional<PyCopyExtent>& extent) {
  return extent ? std::optional{copy_extent(*extent)} : std::nullopt;
}

/// Converts a GraphCompleteOptions, a dict of its fields or None. `upload` receives the upload
/// stream and must outlive the result. Throws TypeError.
GraphCompleteOptions complete_options(nb::handle options, Stream& upload);
/// Instantiates a definition as a cuda.core.graph.Graph.
nb::object make_graph(const GraphDefinition& definition, const GraphCompleteOptions& options);

}  // namespace cucore::python
