// SPDX-License-Identifier: Apache-2.0
// cucore/graph_drawing.hpp: a picture of a graph, without other programs.
#pragma once

#include <functional>
#include <string>

#include "cucore/export.hpp"
#include "cucore/graph.hpp"
#include "cucore/graph_node.hpp"

namespace cucore {

/// The name that a drawing shows for a function of the host; empty: it has none.
using HostFunctionName = std::function<std::string(const HostNodeParams&)>;

/// A picture of a graph as an SVG document: each node below those it waits for, with the bodies of
/// conditional nodes and child graphs inside their node. A graph of more than 500 nodes is cut.
/// `name_of` names functions of the host; the driver knows their addresses only.
[[nodiscard]] CUCORE_EXPORT std::string graph_svg(const GraphDefinition& graph,
                                                  const HostFunctionName& name_of = {});

}  // namespace cucore
