// SPDX-License-Identifier: Apache-2.0
// graph_drawing_test.cpp: pictures of graphs.
#include "cucore/graph_drawing.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "core/layered_drawing.hpp"
#include "cucore/device.hpp"
#include "cucore/graph_builder.hpp"

namespace cucore {
namespace {

using detail::arranged;
using detail::Box;
using detail::Drawing;

Box box_of(std::vector<std::string> lines) {
  Box box;
  box.lines = std::move(lines);
  return box;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(GraphDrawing, BoxesDoNotOverlapAndEdgesGoDown) {
  std::mt19937 random{1};
  std::vector<Box> boxes;
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (std::size_t n = 0; n < 60; ++n) {
    boxes.push_back(box_of({"node", std::string(random() % 30, 'x')}));
    for (int i = 0; i < 2 && n > 0; ++i) edges.emplace_back(random() % n, n);
  }
  const Drawing drawing = arranged(std::move(boxes), edges);
  ASSERT_EQ(drawing.boxes.size(), 60U);
  for (std::size_t i = 0; i < 60; ++i) {
    const Box& a = drawing.boxes[i];
    EXPECT_GE(a.x - a.width / 2, 0);
    EXPECT_LE(a.x + a.width / 2, drawing.width);
    for (std::size_t j = 0; j < i; ++j) {
      const Box& b = drawing.boxes[j];
      EXPECT_TRUE(std::abs(a.x - b.x) >= (a.width + b.width) / 2 || a.y + a.height <= b.y ||
                  b.y + b.height <= a.y)
          << i << " and " << j;
    }
  }
  ASSERT_EQ(drawing.routes.size(), edges.size());
  for (const auto& route : drawing.routes)
    for (std::size_t i = 1; i < route.size(); ++i) EXPECT_LT(route[i - 1].second, route[i].second);
}

TEST(GraphDrawing, TextsAreEscaped) {
  const std::string svg = svg_of(arranged({box_of({"a<b>&c", "\"quoted\"\x01"})}, {}));
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;c"), svg.npos);
  EXPECT_NE(svg.find("&quot;quoted&quot; "), svg.npos);
}

TEST(GraphDrawing, DrawingWithoutBoxesSaysSo) {
  EXPECT_NE(svg_of(arranged({}, {})).find("no nodes"), std::string::npos);
}

TEST(GraphDrawing, ConditionalNodesShowTheirBodiesUntilTheyAreRemoved) {
  Device{0}.set_current();
  GraphDefinition graph = GraphDefinition::create();
  const auto condition = graph.create_condition(1, true);
  std::vector<CUgraph> bodies;
  const CUgraphNode node =
      graph.add_conditional({}, condition, CU_GRAPH_COND_TYPE_SWITCH, 3, bodies);
  EXPECT_EQ(graph.conditional_type(node), CU_GRAPH_COND_TYPE_SWITCH);
  ASSERT_EQ(graph.bodies(node).size(), 3U);
  EXPECT_EQ(graph.bodies(node)[1].handle(), bodies[1]);
  graph.bodies(node)[2].add_empty({});
  const std::string svg = graph_svg(graph);
  for (const char* text : {">switch<", ">case 0<", ">case 2<", ">empty<"})
    EXPECT_EQ(count_of(svg, text), 1U) << text;
  graph.remove(node);
  EXPECT_EQ(graph.conditional_type(node), std::nullopt);
  EXPECT_NE(graph_svg(graph).find("no nodes"), std::string::npos);
}

TEST(GraphDrawing, HostFunctionsHaveTheNamesThatTheCallerGives) {
  Device{0}.set_current();
  GraphDefinition graph = GraphDefinition::create();
  int data = 0;
  const CUgraphNode first = graph.add_host(
      {}, [](void*) {}, &data);
  graph.add_host(
      {&first, 1}, [](void*) {}, nullptr);
  const std::string svg = graph_svg(graph, [&](const HostNodeParams& call) {
    return std::string{call.data == &data ? "count" : ""};
  });
  EXPECT_EQ(count_of(svg, ">count<"), 1U);
  EXPECT_EQ(count_of(svg, ">a C function<"), 1U);
  EXPECT_EQ(count_of(svg, "marker-end"), 1U);
}

TEST(GraphDrawing, LargeGraphsAreCut) {
  Device{0}.set_current();
  GraphDefinition graph = GraphDefinition::create();
  for (int n = 0; n < 1700; ++n) graph.add_empty({});
  const std::string svg = graph_svg(graph);
  EXPECT_EQ(count_of(svg, ">empty<"), 500U);
  EXPECT_NE(svg.find("and 1,200 more nodes"), svg.npos);
}

}  // namespace
}  // namespace cucore
