// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/register_pressure.cpp
#include "cpu/ptx/register_pressure.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <variant>
#include <vector>

namespace cucpu::ptx {
namespace {

constexpr std::size_t kLoops = 64;
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

struct Range {
  std::size_t first = kNever, last = 0;
  void add(std::size_t at) {
    first = std::min(first, at);
    last = at;
  }
};

struct Loop {
  std::size_t begin, end;
};

/// Calls `visit` for every operand that is a register or a label.
template <class Visit>
void visit_operands(const Operand& operand, const Visit& visit) {
  visit(operand);
  for (const Operand& part : operand.parts) visit_operands(part, visit);
}

}  // namespace

std::uint32_t register_pressure(const Function& function) {
  std::vector<Range> ranges(function.registers.size());
  std::vector<std::size_t> labels(function.labels.size(), kNever);
  std::vector<Loop> loops;
  for (std::size_t at = 0; at < function.body.size(); ++at) {
    if (const auto* mark = std::get_if<LabelMark>(&function.body[at])) labels[mark->label] = at;
    const auto* instruction = std::get_if<Instruction>(&function.body[at]);
    if (instruction == nullptr) continue;
    if (instruction->guard) ranges[instruction->guard->reg].add(at);
    for (const Operand& operand : instruction->operands)
      visit_operands(operand, [&](const Operand& o) {
        if (o.kind == Operand::Kind::reg && o.index < ranges.size()) ranges[o.index].add(at);
        if (o.kind == Operand::Kind::label && o.index < labels.size() && labels[o.index] != kNever)
          loops.push_back({labels[o.index], at});  // a branch back
      });
  }
  const auto is_longer = [](const Loop& a, const Loop& b) {
    return a.end - a.begin > b.end - b.begin;
  };
  const std::size_t counted = std::min(loops.size(), kLoops);
  std::partial_sort(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(counted),
                    loops.end(), is_longer);
  loops.resize(counted);
  std::reverse(loops.begin(), loops.end());  // inner loops first
  std::vector<std::int64_t> change(function.body.size() + 1, 0);
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    Range& range = ranges[r];
    const unsigned bits = bits_of(function.registers[r].type);
    if (range.first == kNever || function.registers[r].type == Type::pred) continue;
    for (const Loop& loop : loops)
      if (range.first < loop.begin && range.last >= loop.begin)
        range.last = std::max(range.last, loop.end);
    const std::int64_t registers = std::max(1u, (bits + 31) / 32);
    change[range.first] += registers;
    change[range.last] -= registers;  // its last reader may write to it
  }
  std::int64_t alive = 0, most = 0;
  for (const std::int64_t step : change) most = std::max(most, alive += step);
  return static_cast<std::uint32_t>(most);
}

}  // namespace cucpu::ptx
