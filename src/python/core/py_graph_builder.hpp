// SPDX-License-Identifier: Apache-2.0
// py_graph_builder.hpp: the C++ builder of a cuda.core.graph.GraphBuilder.
#pragma once

#include "cucore/graph_builder.hpp"
#include "support.hpp"

namespace cucore::python {

/// A builder whose destructor releases the GIL, because it ends a capture in progress.
struct PyGraphBuilder : GraphBuilder {
  explicit PyGraphBuilder(GraphBuilder builder) : GraphBuilder{std::move(builder)} {}
  PyGraphBuilder(PyGraphBuilder&&) = default;
  ~PyGraphBuilder();
};

/// Creates a cuda.core.graph.GraphBuilder that captures from a Stream object.
nb::object make_graph_builder(nb::object stream);

/// Returns the C++ builder of an object for which is_graph_builder() is true. Valid for the
/// lifetime of the object.
const GraphBuilder& native_builder(PyObject* object);

}  // namespace cucore::python
