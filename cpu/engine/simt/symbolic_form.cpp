// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/symbolic_form.cpp
#include "cpu/engine/simt/symbolic_form.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>
#include <llvm/IR/PatternMatch.h>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

Form Symbols::atom(const Type* type, std::vector<std::uint64_t> key) {
  Form f{bits_of(type), 0, {}};
  f.terms[number_of(std::move(key))] = 1;
  return f;
}

Form Symbols::leaf(const Value* v) {
  return atom(v->getType(), {kLeaf, reinterpret_cast<std::uintptr_t>(v)});
}

Form Symbols::of(const Value* v, Env& env, unsigned depth) {
  if (auto* number = dyn_cast<ConstantInt>(v); number && number->getBitWidth() <= 64)
    return {number->getBitWidth(), number->getZExtValue(), {}};
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return leaf(v);
  if (auto known = env.find(v); known != env.end()) return known->second;
  constexpr unsigned kDepth = 40;
  const bool pure = !isa<PHINode>(inst) && !inst->mayReadOrWriteMemory() && !inst->isTerminator() &&
                    marker_name(inst).empty() && !isa<AllocaInst, FreezeInst>(inst);
  Form form = pure && depth < kDepth ? compute(*inst, env, depth + 1) : leaf(v);
  env[v] = form;
  return form;
}

bool Symbols::execute(const BasicBlock& block, Env& env, Effects& effects) {
  for (const Instruction& inst : block) {
    if (isa<PHINode>(inst) || inst.isTerminator()) continue;
    if (++executed_ > kMostInstructions) return false;
    if (auto* load = dyn_cast<LoadInst>(&inst)) {
      if (!load->isSimple()) return false;
      std::vector<std::uint64_t> key{kLoad, effects.version,
                                     reinterpret_cast<std::uintptr_t>(load->getType()),
                                     load->getAlign().value()};
      append(key, of(load->getPointerOperand(), env));
      env[load] = atom(load->getType(), key);
      effects.loads.insert(std::move(key));
      continue;
    }
    if (auto* store = dyn_cast<StoreInst>(&inst)) {
      if (!store->isSimple()) return false;
      std::vector<std::uint64_t> key{
          reinterpret_cast<std::uintptr_t>(store->getValueOperand()->getType()),
          store->getAlign().value()};
      append(key, of(store->getPointerOperand(), env));
      append(key, of(store->getValueOperand(), env));
      effects.stores.push_back(std::move(key));
      ++effects.version;
      continue;
    }
    if (inst.mayReadOrWriteMemory() || !marker_name(&inst).empty()) return false;
    of(&inst, env);
  }
  return true;
}

unsigned Symbols::bits_of(const Type* type) {
  if (type->isPointerTy()) return 64;
  return type->isIntegerTy() && type->getIntegerBitWidth() <= 64 ? type->getIntegerBitWidth() : 0;
}

void Symbols::append(std::vector<std::uint64_t>& key, const Form& form) {
  key.insert(key.end(), {form.bits, form.constant, form.terms.size()});
  for (auto [term, factor] : form.terms) key.insert(key.end(), {term, factor});
}

Form Symbols::operation(const Instruction& inst, ArrayRef<Form> operands) {
  std::vector<std::uint64_t> key{kOperation, inst.getOpcode(),
                                 reinterpret_cast<std::uintptr_t>(inst.getType())};
  if (auto* compare = dyn_cast<CmpInst>(&inst)) key.push_back(compare->getPredicate());
  if (auto* call = dyn_cast<CallBase>(&inst))
    key.push_back(reinterpret_cast<std::uintptr_t>(call->getCalledOperand()));
  if (isa<ExtractValueInst, InsertValueInst, GetElementPtrInst, ShuffleVectorInst>(inst))
    key.push_back(reinterpret_cast<std::uintptr_t>(&inst));  // equal to itself only
  std::vector<std::vector<std::uint64_t>> parts;
  for (const Form& operand : operands) append(parts.emplace_back(), operand);
  // Of two float NaNs the order may decide.
  if (inst.isCommutative() && isa<BinaryOperator>(inst) && inst.getType()->isIntegerTy())
    std::sort(parts.begin(), parts.end());
  for (const auto& part : parts) key.insert(key.end(), part.begin(), part.end());
  return atom(inst.getType(), std::move(key));
}

/// Moves the constant and the numbers of iterations out of f, as far as they are multiples of
/// 2^shift. The result is divided by 2^shift and sign-extended to `bits`.
Form Symbols::take_multiples(Form& f, unsigned shift, unsigned bits) {
  Form taken{bits, 0, {}};
  const auto divided = [&](std::uint64_t v) {
    return taken.cut(static_cast<std::uint64_t>(SignExtend64(v, f.bits) >> shift));
  };
  const std::uint64_t low = (std::uint64_t{1} << shift) - 1;
  taken.constant = divided(f.constant);
  f.constant &= low;
  for (unsigned atom : {kIterations, kRounds})
    if (auto it = f.terms.find(atom); it != f.terms.end() && (it->second & low) == 0) {
      taken.terms[atom] = divided(it->second);
      f.terms.erase(it);
    }
  return taken;
}

/// The bits low to high of f, as a number of f.bits.
Form Symbols::slice(Form f, unsigned low, unsigned high) {
  const unsigned bits = f.bits;
  Form sum{bits, 0, {}};
  if (high < bits && high - low < kMostBits) {  // multiples of 2^high do not matter
    const std::uint64_t mask = (std::uint64_t{1} << high) - 1;
    f.constant &= mask;
    erase_if(f.terms, [&](const auto& term) { return (term.second & mask) == 0; });
  } else {
    sum = take_multiples(f, low, bits);  // indices do not wrap
  }
  if (f.terms.empty()) {
    sum.add(Form{bits, f.constant >> low, {}}, 1);
    return sum;
  }
  const auto [atom, factor] = *f.terms.begin();
  if (f.terms.size() > 1 || f.constant != 0 || !isPowerOf2_64(factor) || Log2_64(factor) > low) {
    std::vector<std::uint64_t> key{kSliceOfForm, low, high};
    append(key, f);
    sum.terms[number_of(std::move(key))] = 1;
    return sum;
  }
  const unsigned shift = Log2_64(factor);
  Slice part{atom, low - shift, high - shift};
  if (auto inner = slices_.find(atom); inner != slices_.end()) {
    const Slice& of = inner->second;
    part = {of.atom, of.low + part.low, std::min(of.low + part.high, of.high)};
    if (part.low >= part.high) return sum;
  }
  const unsigned number = number_of({kSlice, part.atom, part.low, std::min(part.high, 64u)});
  slices_.try_emplace(number, part);
  sum.terms[number] = 1;
  return sum;
}

unsigned Symbols::number_of(std::vector<std::uint64_t> key) {
  auto [it, added] = atoms_.try_emplace(std::move(key), next_);
  if (added) ++next_;
  return it->second;
}

Form Symbols::compute(const Instruction& inst, Env& env, unsigned depth) {
  using namespace PatternMatch;
  SmallVector<Form, 3> operands;
  if (auto* call = dyn_cast<CallBase>(&inst)) {
    for (const Value* argument : call->args()) operands.push_back(of(argument, env, depth));
    return operation(inst, operands);
  }
  for (const Value* operand : inst.operands()) operands.push_back(of(operand, env, depth));
  const unsigned bits = bits_of(inst.getType());
  if (bits == 0) return operation(inst, operands);
  Form sum{bits, 0, {}};
  const auto plus = [&](unsigned i, std::uint64_t factor) { sum.add(operands[i], factor); };
  switch (inst.getOpcode()) {
    case Instruction::Or:
      if (!cast<PossiblyDisjointInst>(inst).isDisjoint()) break;
      [[fallthrough]];
    case Instruction::Add:
      plus(0, 1), plus(1, 1);
      return sum;
    case Instruction::Sub:
      plus(0, 1), plus(1, ~std::uint64_t{0});
      return sum;
    case Instruction::Xor:
      if (!match(&inst, m_Not(m_Value()))) break;
      sum.constant = sum.cut(~std::uint64_t{0});
      plus(0, ~std::uint64_t{0});
      return sum;
    case Instruction::Mul:
      for (unsigned i : {0u, 1u})
        if (operands[i].terms.empty()) {
          plus(1 - i, operands[i].constant);
          return sum;
        }
      break;
    case Instruction::Shl:
      if (!operands[1].terms.empty() || operands[1].constant >= bits) break;
      plus(0, std::uint64_t{1} << operands[1].constant);
      return sum;
    case Instruction::LShr:
      if (!operands[1].terms.empty() || operands[1].constant >= bits) break;
      return slice(operands[0], static_cast<unsigned>(operands[1].constant), bits);
    case Instruction::And: {
      const std::uint64_t mask = operands[1].constant;
      if (!operands[1].terms.empty() || !isShiftedMask_64(mask)) break;
      const auto low = static_cast<unsigned>(countr_zero(mask));
      sum.add(slice(operands[0], low, low + static_cast<unsigned>(popcount(mask))),
              std::uint64_t{1} << low);
      return sum;
    }
    case Instruction::SExt:
    case Instruction::ZExt: {
      if (operands[0].bits < 16) break;
      sum = take_multiples(operands[0], 0, bits);  // indices do not wrap
      const unsigned narrow = operands[0].bits;
      erase_if(operands[0].terms, [&](const auto& term) {
        if (!slices_.contains(term.first)) return false;
        sum.terms[term.first] =
            sum.cut(static_cast<std::uint64_t>(SignExtend64(term.second, narrow)));
        return true;
      });
      if (operands[0].terms.empty()) return sum;
      // A zero-extended atom has the bits of the atom.
      if (isa<ZExtInst>(inst) && operands[0].terms.size() == 1 &&
          operands[0].terms.begin()->second == 1)
        sum.add(slice(operands[0], 0, narrow), 1);
      else
        sum.add(operation(inst, operands), 1);
      return sum;
    }
    case Instruction::IntToPtr:
    case Instruction::PtrToInt:
      if (operands[0].bits != 64 || bits != 64) break;
      return operands[0];
    case Instruction::GetElementPtr: {
      auto& gep = cast<GetElementPtrInst>(inst);
      if (gep.getNumIndices() != 1 || operands[1].bits != 64) break;
      plus(0, 1);
      plus(1, layout_.getTypeAllocSize(gep.getSourceElementType()).getFixedValue());
      return sum;
    }
    default:
      break;
  }
  return operation(inst, operands);
}

}  // namespace cucpu::simt
