// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/columns.cpp
#include "cpu/engine/simt/columns.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <cstdlib>
#include <optional>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kDepth = 12;     // of address expressions
constexpr std::int64_t kLine = 64;  // bytes of a cache line
constexpr std::int64_t kMostGrowth = std::int64_t{1} << 40;

/// By how much a value grows from one row of threads to the next; nullopt if that is not constant.
/// Wrapping does not matter: the result only decides about the order of groups.
std::optional<std::int64_t> growth(const Value* v, unsigned depth = 0) {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return 0;
  if (depth > kDepth) return {};
  if (const StringRef name = marker_name(inst); !name.empty()) {
    if (name == "sreg.tid.y") return 1;
    if (name.starts_with("sreg.") || name == "params") return 0;
    return {};
  }
  const auto of = [&](unsigned i) { return growth(inst->getOperand(i), depth + 1); };
  const auto product = [](std::optional<std::int64_t> by,
                          std::int64_t factor) -> std::optional<std::int64_t> {
    if (!by || std::abs(*by) > kMostGrowth || std::abs(factor) > kMostGrowth) return {};
    return *by == 0 || std::abs(*by * factor) <= kMostGrowth ? std::optional{*by * factor}
                                                             : std::nullopt;
  };
  if (auto* load = dyn_cast<LoadInst>(inst))
    return is_parameter_load(*load) ? std::optional<std::int64_t>{0} : std::nullopt;
  if (isa<SExtInst, ZExtInst, IntToPtrInst, PtrToIntInst>(inst)) return of(0);
  if (auto* pointer = dyn_cast<GetElementPtrInst>(inst)) {
    if (pointer->getNumIndices() != 1) return {};
    const DataLayout& layout = inst->getModule()->getDataLayout();
    const auto size =
        static_cast<std::int64_t>(layout.getTypeAllocSize(pointer->getSourceElementType()));
    const auto base = of(0), index = product(of(1), size);
    return base && index ? std::optional{*base + *index} : std::nullopt;
  }
  if (!isa<BinaryOperator>(inst)) return {};
  const auto left = of(0), right = of(1);
  if (!left || !right) return {};
  const auto* constant = dyn_cast<ConstantInt>(inst->getOperand(1));
  switch (inst->getOpcode()) {
    case Instruction::Add:
      return *left + *right;
    case Instruction::Sub:
      return *left - *right;
    case Instruction::Or:
      if (cast<PossiblyDisjointInst>(inst)->isDisjoint()) return *left + *right;
      break;
    case Instruction::Mul:
      if (constant && constant->getBitWidth() <= 64) return product(left, constant->getSExtValue());
      break;
    case Instruction::Shl:
      if (constant && constant->getValue().ult(40))
        return product(left, std::int64_t{1} << constant->getZExtValue());
      break;
    default:
      break;
  }
  return *left == 0 && *right == 0 ? std::optional<std::int64_t>{0} : std::nullopt;
}

}  // namespace

bool can_run_by_columns(const Flow& flow, const Lanes& lanes) {
  if (lanes.block.x % lanes.width != 0 || lanes.threads() == lanes.block.x) return false;
  return none_of(flow.order, [](const BasicBlock* block) {
    return any_of(*block, [](const Instruction& inst) {
      const StringRef name = marker_name(&inst);
      return name == "shared" || is_barrier(name);
    });
  });
}

bool writes_columns(const Flow& flow, const Shapes& full) {
  for (BasicBlock* block : flow.order)
    for (Instruction& inst : *block) {
      auto* store = dyn_cast<StoreInst>(&inst);
      if (!store) continue;
      const Value* pointer = store->getPointerOperand();
      const Shape shape = full[pointer];
      if (shape.kind != Shape::Varying &&
          !(shape.kind == Shape::Strided && std::abs(shape.stride) >= kLine))
        continue;
      const auto size = static_cast<std::int64_t>(
          inst.getModule()->getDataLayout().getTypeStoreSize(store->getValueOperand()->getType()));
      if (size < kLine && growth(pointer) == size) return true;
    }
  return false;
}

}  // namespace cucpu::simt
