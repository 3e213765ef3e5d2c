// SPDX-License-Identifier: Apache-2.0
// cucore/graph_drawing.hpp: SVG drawings of graphs, without external programs.
#pragma once

#include <functional>
#include <string>

#include "cucore/export.hpp"
#include "cucore/graph.hpp"
#include "cucore/graph_node.hpp"

namespace cucore {

/// Returns the name that a drawing shows for a host function; empty if it has none.
using HostFunctionName = std::function<std::string(const HostNodeParams&)>;

/// Returns a drawing of a graph as an SVG document. Each node is below its dependencies; bodies of
/// conditional nodes and child graphs are inside their node. At most 500 nodes of a graph are
/// drawn. `name_of` returns the names of host functions, of which the driver has only the
/// addresses.
[[nodiscard]] CUCORE_EXPORT std::string graph_svg(const GraphDefinition& graph,
                                                  const HostFunctionName& name_of = {});

}  // namespace cucore
