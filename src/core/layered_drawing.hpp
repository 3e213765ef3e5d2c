// SPDX-License-Identifier: Apache-2.0
// layered_drawing.hpp: boxes and arrows as SVG, in layers from top to bottom.
//
// The layout is Sugiyama's: longest-path layers, dummy boxes where an edge crosses a layer, an
// order that follows the neighbours (barycenters), and positions that pull boxes under the middle
// of their neighbours.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cucore::detail {

struct Drawing;

/// A node of a drawing: lines of text, and drawings below them. Its place is part of the layout.
struct Box {
  std::vector<std::string> lines{};
  std::string colour = "#f3f3f3";
  std::vector<std::pair<std::string, Drawing>>
      inside{};  ///< each with its title, which may be empty
  std::size_t layer = 0;
  double x = 0;  ///< of its centre
  double y = 0;  ///< of its top
  double width = 0;
  double height = 0;
};

/// Boxes with places, and edges with the points that they pass.
struct Drawing {
  std::vector<Box> boxes{};
  std::vector<std::pair<std::size_t, std::size_t>> edges{};      ///< numbers of boxes: from, to
  std::vector<std::vector<std::pair<double, double>>> routes{};  ///< of the edges
  double width = 0;
  double height = 0;
};

/// A drawing with a place for every box and a route for every edge. Edges must not form a cycle.
Drawing arranged(std::vector<Box> boxes, std::vector<std::pair<std::size_t, std::size_t>> edges);

/// The drawing as an SVG document.
std::string svg_of(const Drawing& drawing);

}  // namespace cucore::detail
