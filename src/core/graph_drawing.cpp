// SPDX-License-Identifier: Apache-2.0
// graph_drawing.cpp: labels of the nodes in a graph drawing.
#include "cucore/graph_drawing.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "core/layered_drawing.hpp"
#include "core/text.hpp"
#include "cucore/driver.hpp"

namespace cucore {
namespace {

using detail::Box;
using detail::Drawing;
using detail::hexadecimal;

constexpr std::size_t kMostNodes = 500;
constexpr int kDeepest = 8;           // nesting of child graphs
constexpr std::size_t kLongest = 60;  // characters of a name

/// Formats 1234567 as "1,234,567".
std::string grouped(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string triple(Dim3 size) {
  return std::to_string(size.x) + "×" + std::to_string(size.y) + "×" + std::to_string(size.z);
}

/// Returns the demangled name of a function without return type and parameters.
std::string readable_name(const char* symbol) {
  if (symbol == nullptr) return "?";
  const std::string full = detail::demangled(symbol);
  const std::string_view name = full.empty() ? std::string_view{symbol} : full;
  // The parameter list is the last pair of parentheses. Spaces and parentheses of template
  // arguments are inside angle brackets.
  std::size_t begin = 0;
  std::size_t end = name.size();
  int depth = 0;
  for (std::size_t at = 0; at < name.size() && end == name.size(); ++at) {
    if (name[at] == '<') ++depth;
    if (name[at] == '>') --depth;
    if (depth != 0) continue;
    if (name[at] == ' ') begin = at + 1;
    if (name[at] == '(' && !name.substr(at).starts_with("(anonymous namespace)")) end = at;
  }
  if (begin > end) begin = 0;
  std::string text{name.substr(begin, end - begin)};
  if (text.size() > kLongest) text = text.substr(0, kLongest - 1) + "…";
  return text;
}

std::string kernel_name(CUkernel kernel) {
  const char* name = nullptr;
  if (driver().cuKernelGetName(&name, kernel) != CUDA_SUCCESS &&
      driver().cuFuncGetName(&name, reinterpret_cast<CUfunction>(kernel)) != CUDA_SUCCESS)
    name = nullptr;
  return readable_name(name);
}

constexpr const char* kCopyColour = "#cfe2f3";
constexpr const char* kMemoryColour = "#ead1dc";

class Artist {
 public:
  explicit Artist(const HostFunctionName& name_of) : name_of_{name_of} {}

  [[nodiscard]] Drawing draw(const GraphDefinition& graph, int depth = 0) const {
    std::vector<CUgraphNode> nodes = graph.nodes();
    const std::size_t all = nodes.size();
    nodes.resize(std::min(all, kMostNodes));
    std::map<CUgraphNode, std::size_t> numbers;
    std::vector<Box> boxes;
    for (const CUgraphNode node : nodes) {
      numbers[node] = boxes.size();
      boxes.push_back(box_of(graph, node, depth));
    }
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (const auto& [from, to] : graph.edges()) {
      if (numbers.contains(from) && numbers.contains(to))
        edges.emplace_back(numbers[from], numbers[to]);
    }
    if (all > nodes.size()) {
      boxes.emplace_back();
      boxes.back().lines.push_back("and " + grouped(all - nodes.size()) + " more nodes");
    }
    return detail::arranged(std::move(boxes), std::move(edges));
  }

 private:
  [[nodiscard]] Box box_of(const GraphDefinition& graph, CUgraphNode node, int depth) const {
    Box box;
    describe(graph, node, box);
    if (depth >= kDeepest) return box;
    const auto bodies = graph.bodies(node);
    const auto type = graph.conditional_type(node);
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      std::string title;
      if (type == CU_GRAPH_COND_TYPE_IF) title = i == 0 ? "then" : "else";
      if (type == CU_GRAPH_COND_TYPE_WHILE) title = "body";
      if (type == CU_GRAPH_COND_TYPE_SWITCH) title = "case " + std::to_string(i);
      box.inside.emplace_back(std::move(title), draw(bodies[i], depth + 1));
    }
    return box;
  }

  void describe(const GraphDefinition& graph, CUgraphNode handle, Box& box) const {
    const GraphNodeRef node{handle};
    switch (node.type()) {
      case CU_GRAPH_NODE_TYPE_KERNEL: {
        const KernelNodeParams kernel = node.kernel();
        box.colour = "#d9ead3";
        box.lines = {"kernel", kernel_name(kernel.kernel),
                     "grid " + triple(kernel.grid) + ", block " + triple(kernel.block)};
        if (kernel.shmem_size != 0)
          box.lines.push_back(grouped(kernel.shmem_size) + " bytes of shared memory");
        return;
      }
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        box.colour = kCopyColour;
        box.lines = {"copy", grouped(extent_of(node.memcpy()).bytes()) + " bytes"};
        return;
      case CU_GRAPH_NODE_TYPE_MEMSET: {
        const MemsetParams fill = node.memset();
        box.colour = kCopyColour;
        box.lines = {"fill", grouped(fill.width * std::max<std::size_t>(fill.height, 1)) + " × " +
                                 std::to_string(fill.element_size) + " bytes, value " +
                                 hexadecimal(fill.value)};
        return;
      }
      case CU_GRAPH_NODE_TYPE_HOST: {
        std::string name = name_of_ ? name_of_(node.host()) : "";
        box.colour = "#fff2cc";
        box.lines = {"host function", name.empty() ? "a C function" : std::move(name)};
        return;
      }
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        box.colour = kMemoryColour;
        box.lines = {"allocate", grouped(node.allocation().bytesize) + " bytes"};
        return;
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        box.colour = kMemoryColour;
        box.lines = {"free", hexadecimal(node.freed())};
        return;
      case CU_GRAPH_NODE_TYPE_CONDITIONAL: {
        const auto type = graph.conditional_type(handle);
        box.lines = {!type                                ? "conditional"
                     : *type == CU_GRAPH_COND_TYPE_WHILE  ? "while"
                     : *type == CU_GRAPH_COND_TYPE_SWITCH ? "switch"
                     : graph.bodies(handle).size() == 2   ? "if, else"
                                                          : "if"};
        return;
      }
      case CU_GRAPH_NODE_TYPE_GRAPH:
        box.lines = {"child graph"};
        return;
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        box.lines = {"record event"};
        return;
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        box.lines = {"wait for event"};
        return;
      case CU_GRAPH_NODE_TYPE_EMPTY:
        box.lines = {"empty"};
        return;
      default:
        box.lines = {"node"};
    }
  }

  const HostFunctionName& name_of_;
};

}  // namespace

std::string graph_svg(const GraphDefinition& graph, const HostFunctionName& name_of) {
  return detail::svg_of(Artist{name_of}.draw(graph));
}

}  // namespace cucore
