// SPDX-License-Identifier: Apache-2.0
// py_graph_builder.hpp: the library's builder inside a cuda.core.graph.GraphBuilder.
#pragma once

#include "cucore/graph_builder.hpp"
#include "support.hpp"

namespace cucore::python {

/// Destroying the object ends a capture that is in progress: without the GIL.
struct PyGraphBuilder : GraphBuilder {
  explicit PyGraphBuilder(GraphBuilder builder) : GraphBuilder{std::move(builder)} {}
  PyGraphBuilder(PyGraphBuilder&&) = default;
  ~PyGraphBuilder();
};

/// A new cuda.core.graph.GraphBuilder that captures from a Stream object.
nb::object make_graph_builder(nb::object stream);

/// For an object of which is_graph_builder() is true; as long as the object lives.
const GraphBuilder& native_builder(PyObject* object);

}  // namespace cucore::python
