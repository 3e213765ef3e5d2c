// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/alignment_check.cpp
#include "cpu/engine/jit/alignment_check.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>

namespace cucpu {
namespace {

using namespace llvm;

constexpr unsigned kMost = 6;  // no access needs more zero bits than log2(64)

StringRef marker_of(const Value* value) {
  const auto* call = dyn_cast<CallInst>(value);
  if (!call || !call->getCalledFunction()) return {};
  StringRef name = call->getCalledFunction()->getName();
  return name.consume_front("cucpu.") ? name : StringRef{};
}

/// The number of low bits that are zero in each value of a function.
class LowBits {
 public:
  LowBits(Function& function, bool assume_params)
      : layout_{function.getParent()->getDataLayout()}, assume_{assume_params} {
    for (Instruction& instruction : instructions(function))
      if (follows(instruction)) known_[&instruction] = kMost;  // until an operand has fewer
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [instruction, bits] : known_) {
        const unsigned now = std::min(bits, of_operands(*instruction));
        changed |= now != bits;
        bits = now;
      }
    }
  }

  [[nodiscard]] unsigned of(const Value* value) const {
    if (const auto* instruction = dyn_cast<Instruction>(value)) {
      const auto found = known_.find(const_cast<Instruction*>(instruction));
      if (found != known_.end()) return found->second;
      return of_leaf(*instruction);
    }
    if (const auto* number = dyn_cast<ConstantInt>(value))
      return number->isZero() ? kMost : cap(number->getValue().countr_zero());
    if (isa<ConstantPointerNull, UndefValue>(value)) return kMost;
    if (isa<Constant>(value) && value->getType()->isPtrOrPtrVectorTy())
      return cap(Log2(value->getPointerAlignment(layout_)));
    if (isa<Constant>(value) && value->getType()->isIntegerTy())
      return cap(computeKnownBits(value, layout_).countMinTrailingZeros());
    return 0;
  }

  /// The parameters whose low `bits` must be zero so that those of `value` are zero.
  void require(const Value* value, unsigned bits, std::map<std::uint32_t, unsigned>& needed,
               const LowBits& unassumed) const {
    SmallVector<std::pair<const Value*, unsigned>, 16> work{{value, bits}};
    SmallDenseSet<std::pair<const Value*, unsigned>, 16> seen;
    while (!work.empty()) {
      const auto [at, wanted] = work.pop_back_val();
      if (wanted == 0 || unassumed.of(at) >= wanted || !seen.insert({at, wanted}).second) continue;
      if (const auto offset = parameter(at)) {
        needed[*offset] = std::max(needed[*offset], wanted);
        continue;
      }
      const auto* instruction = dyn_cast<Instruction>(at);
      if (!instruction) continue;
      unsigned shifted = wanted;
      if (instruction->getOpcode() == Instruction::Shl)
        if (const auto* by = dyn_cast<ConstantInt>(instruction->getOperand(1)))
          shifted =
              wanted > by->getZExtValue() ? wanted - static_cast<unsigned>(by->getZExtValue()) : 0;
      for (const Value* operand : instruction->operands()) work.push_back({operand, shifted});
    }
  }

 private:
  static unsigned cap(unsigned bits) { return std::min(bits, kMost); }

  static bool follows(const Instruction& i) {
    switch (i.getOpcode()) {
      case Instruction::Add:
      case Instruction::Sub:
      case Instruction::Or:
      case Instruction::Xor:
      case Instruction::And:
      case Instruction::Mul:
      case Instruction::Shl:
      case Instruction::Trunc:
      case Instruction::ZExt:
      case Instruction::SExt:
      case Instruction::PtrToInt:
      case Instruction::IntToPtr:
      case Instruction::Freeze:
      case Instruction::GetElementPtr:
      case Instruction::PHI:
      case Instruction::Select:
        return i.getType()->isIntOrPtrTy();
      default:
        return false;
    }
  }

  [[nodiscard]] unsigned of_operands(const Instruction& i) const {
    const auto operand = [&](unsigned n) { return of(i.getOperand(n)); };
    switch (i.getOpcode()) {
      case Instruction::And:
        return std::max(operand(0), operand(1));
      case Instruction::Mul:
        return cap(operand(0) + operand(1));
      case Instruction::Shl:
        if (const auto* by = dyn_cast<ConstantInt>(i.getOperand(1)))
          return cap(operand(0) + static_cast<unsigned>(by->getLimitedValue(kMost)));
        return operand(0);
      case Instruction::Trunc:
      case Instruction::ZExt:
      case Instruction::SExt:
        return i.getOperand(0)->getType()->isIntegerTy(1) ? 0 : operand(0);
      case Instruction::Select:
        return std::min(operand(1), operand(2));
      case Instruction::GetElementPtr: {
        const auto& gep = cast<GetElementPtrInst>(i);
        MapVector<Value*, APInt> terms;
        APInt constant{64, 0};
        if (!gep.collectOffset(layout_, 64, terms, constant)) return 0;
        unsigned bits =
            std::min(operand(0), constant.isZero() ? kMost : cap(constant.countr_zero()));
        for (const auto& [term, scale] : terms)
          bits = std::min(bits, cap(of(term) + (scale.isZero() ? kMost : scale.countr_zero())));
        return bits;
      }
      default: {
        unsigned bits = kMost;
        for (const Value* value : i.operands()) bits = std::min(bits, of(value));
        return bits;
      }
    }
  }

  [[nodiscard]] unsigned of_leaf(const Instruction& i) const {
    if (const auto* local = dyn_cast<AllocaInst>(&i)) return cap(Log2(local->getAlign()));
    const StringRef marker = marker_of(&i);
    if (marker == "shared" || marker == "cluster.shared") return kMost;
    if (marker == "params") return 4;
    if (!marker.empty()) return 0;
    if (assume_ && parameter(&i)) return kMost;
    if (i.getType()->isIntegerTy())
      return cap(computeKnownBits(&i, layout_).countMinTrailingZeros());
    return 0;
  }

  /// The offset of the parameter that `value` is, if it can hold an address.
  [[nodiscard]] std::optional<std::uint32_t> parameter(const Value* value) const {
    const auto* load = dyn_cast<LoadInst>(value);
    if (!load || layout_.getTypeStoreSize(load->getType()) != 8) return std::nullopt;
    APInt offset{64, 0};
    const Value* base =
        load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout_, offset, true);
    if (marker_of(base) != "params" || offset.getActiveBits() > 32) return std::nullopt;
    return static_cast<std::uint32_t>(offset.getZExtValue());
  }

  const DataLayout& layout_;
  bool assume_;
  MapVector<Instruction*, unsigned> known_;
};

struct Access {
  Instruction* instruction;
  Value* pointer;
  unsigned bits;
};

/// Memory accesses of the PTX, which have a state space. Parameters are always aligned.
std::optional<Access> access_of(Instruction& i) {
  const MDNode* space = i.getMetadata("cucpu.space");
  if (!space && !i.isAtomic()) return std::nullopt;
  if (space && cast<MDString>(space->getOperand(0))->getString() == "param") return std::nullopt;
  Value* pointer = nullptr;
  Align align{1};
  if (auto* load = dyn_cast<LoadInst>(&i)) {
    pointer = load->getPointerOperand(), align = load->getAlign();
  } else if (auto* store = dyn_cast<StoreInst>(&i)) {
    pointer = store->getPointerOperand(), align = store->getAlign();
  } else if (auto* rmw = dyn_cast<AtomicRMWInst>(&i)) {
    pointer = rmw->getPointerOperand(), align = rmw->getAlign();
  } else if (auto* cas = dyn_cast<AtomicCmpXchgInst>(&i)) {
    pointer = cas->getPointerOperand(), align = cas->getAlign();
  }
  if (!pointer || align == 1) return std::nullopt;
  return Access{&i, pointer, std::min(Log2(align), kMost)};
}

}  // namespace

std::vector<ParamAlignment> check_alignment(Module& module, bool assume_params) {
  LLVMContext& context = module.getContext();
  std::map<std::uint32_t, unsigned> needed;
  FunctionCallee check;
  for (Function& function : module) {
    SmallVector<Access, 32> accesses;
    for (Instruction& instruction : instructions(function))
      if (const auto access = access_of(instruction)) accesses.push_back(*access);
    if (accesses.empty()) continue;
    const LowBits unassumed{function, false};
    std::optional<LowBits> assumed;
    if (assume_params) assumed.emplace(function, true);
    SmallVector<Access, 8> unproven;
    for (const Access& access : accesses) {
      if (unassumed.of(access.pointer) >= access.bits) continue;
      if (assumed && assumed->of(access.pointer) >= access.bits)
        assumed->require(access.pointer, access.bits, needed, unassumed);
      else
        unproven.push_back(access);
    }
    DenseMap<std::pair<BasicBlock*, Value*>, unsigned> checked;
    for (const Access& access : unproven) {
      // The parts of a vector access, and neighbouring uses of a pointer, are checked once.
      unsigned& done = checked[{access.instruction->getParent(), access.pointer}];
      if (done >= access.bits) continue;
      done = access.bits;
      IRBuilder<> b{access.instruction};
      if (!check) {
        check = module.getOrInsertFunction("cucpu.check.align", Type::getVoidTy(context),
                                           b.getInt64Ty(), b.getInt32Ty());
        auto* marker = cast<Function>(check.getCallee());
        marker->setDoesNotThrow();
        marker->setOnlyAccessesInaccessibleMemory();
      }
      b.CreateCall(check, {b.CreatePtrToInt(access.pointer, b.getInt64Ty()),
                           b.getInt32((1U << access.bits) - 1)});
    }
  }
  std::vector<ParamAlignment> result;
  for (const auto& [offset, bits] : needed) result.push_back({offset, 1U << bits});
  return result;
}

}  // namespace cucpu
