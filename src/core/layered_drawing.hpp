// SPDX-License-Identifier: Apache-2.0
// layered_drawing.hpp: draws graphs as SVG, in layers from top to bottom.
//
// The layout is Sugiyama's: longest-path layers, dummy boxes where an edge crosses a layer,
// barycenter ordering, and positions that move boxes towards the mean of their neighbours.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cucore::detail {

struct Drawing;

/// A node of a drawing: lines of text, and nested drawings below them. Layout computes its
/// position.
struct Box {
  std::vector<std::string> lines{};
  std::string colour = "#f3f3f3";
  std::vector<std::pair<std::string, Drawing>>
      inside{};  ///< each with its title, which may be empty
  std::size_t layer = 0;
  double x = 0;  ///< centre
  double y = 0;  ///< top
  double width = 0;
  double height = 0;
};

/// Positioned boxes, and edges with the points they pass through.
struct Drawing {
  std::vector<Box> boxes{};
  std::vector<std::pair<std::size_t, std::size_t>> edges{};      ///< indices of boxes: from, to
  std::vector<std::vector<std::pair<double, double>>> routes{};  ///< points of the edges
  double width = 0;
  double height = 0;
};

/// Computes the position of every box and the route of every edge. The edges must be acyclic.
Drawing arranged(std::vector<Box> boxes, std::vector<std::pair<std::size_t, std::size_t>> edges);

/// Returns the drawing as an SVG document.
std::string svg_of(const Drawing& drawing);

}  // namespace cucore::detail
