// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_gather.cpp: accesses of lanes to different places: gathers, scatters, and
// the addresses of single lanes.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kDepth = 8;                 // of address expressions
constexpr std::uint64_t kMostScale = 1 << 20;  // of a lane's index
constexpr std::uint64_t kWord = 8;             // bytes of a scalar register

}  // namespace

/// Writes an address as the sum of terms, each times a constant. Returns false if more than one of
/// them differs between lanes. Addresses are numbers modulo 2^64, so the sum may be reordered.
bool MemoryEmitter::find_terms(Value* v, std::uint64_t factor, AddressTerms& terms,
                               unsigned depth) const {
  if (factor > kMostScale) return false;
  if (isa<Constant>(v) || shape(v).kind <= Shape::Uniform) {
    terms.uniform.push_back({v, factor});
    return true;
  }
  auto* inst = dyn_cast<Instruction>(v);
  const auto of = [&](unsigned i, std::uint64_t times) {
    return find_terms(inst->getOperand(i), factor * times, terms, depth + 1);
  };
  if (inst && depth < kDepth && is_made_here(inst)) {
    if (isa<IntToPtrInst, PtrToIntInst>(inst) &&
        module_.getDataLayout().getTypeSizeInBits(inst->getOperand(0)->getType()) == 64)
      return of(0, 1);
    if (inst->getOpcode() == Instruction::Add && inst->getType()->isIntegerTy(64))
      return of(0, 1) && of(1, 1);
    if (auto* gep = dyn_cast<GetElementPtrInst>(inst);
        gep && gep->getNumIndices() == 1 && gep->getOperand(1)->getType()->isIntegerTy(64))
      return of(0, 1) &&
             of(1, module_.getDataLayout().getTypeAllocSize(gep->getSourceElementType()));
    if (inst->getType()->isIntegerTy(64))
      if (auto* by =
              inst->getNumOperands() == 2 ? dyn_cast<ConstantInt>(inst->getOperand(1)) : nullptr) {
        if (inst->getOpcode() == Instruction::Shl && by->getZExtValue() < 20)
          return of(0, std::uint64_t{1} << by->getZExtValue());
        if (inst->getOpcode() == Instruction::Mul && by->getValue().ult(kMostScale))
          return of(0, by->getZExtValue());
      }
  }
  if (terms.lanes) return false;
  terms.lanes = v;
  terms.scale = factor;
  return true;
}

/// The sum of the terms that are the same for all lanes, of which there is one at least.
Value* MemoryEmitter::uniform_address(const AddressTerms& terms) {
  Value* base = nullptr;
  Value* offset = nullptr;
  for (auto [term, factor] : terms.uniform) {
    Value* one = scalar(term);
    if (one->getType()->isPointerTy()) {
      if (!base && factor == 1) {
        base = one;
        continue;
      }
      one = b_.CreatePtrToInt(one, b_.getInt64Ty());
    }
    if (factor != 1) one = b_.CreateMul(one, b_.getInt64(factor));
    offset = offset ? b_.CreateAdd(offset, one) : one;
  }
  if (!base) return b_.CreateIntToPtr(offset, b_.getPtrTy());
  return offset ? b_.CreateGEP(b_.getInt8Ty(), base, offset) : base;
}

/// An address as one that is the same for all lanes and an index, where it can be written so.
std::optional<MemoryEmitter::AddressTerms> MemoryEmitter::indexed(Value* pointer) const {
  AddressTerms terms;
  if (shape(pointer).kind != Shape::Varying || !find_terms(pointer, 1, terms) || !terms.lanes ||
      terms.uniform.empty() || !terms.lanes->getType()->isIntegerTy(64))
    return {};
  return terms;
}

/// The addresses of all lanes, as an address that is the same for all of them and an index where
/// possible: gather and scatter instructions add and scale the index themselves, and an index of 32
/// bits takes half the registers. `active`: lanes that are off have the address of one that is on.
Value* MemoryEmitter::lane_pointers(Value* pointer, bool active) {
  const auto found = indexed(pointer);
  if (!found) return active ? active_lanes(pointer) : vec(pointer);
  const AddressTerms& terms = *found;
  Value* base = uniform_address(terms);
  Value* index = active ? active_lanes(terms.lanes) : vec(terms.lanes);
  Type* unit = b_.getInt8Ty();
  if (terms.scale == 2 || terms.scale == 4 || terms.scale == 8)
    unit = b_.getIntNTy(8 * static_cast<unsigned>(terms.scale));
  else if (terms.scale != 1)
    index = b_.CreateMul(index, splat(b_.getInt64(terms.scale)));
  return b_.CreateGEP(unit, base, index);
}

/// Whether lanes that are off hold what the first lane that is on holds.
bool MemoryEmitter::repeats(const Value* v, unsigned depth) const {
  if (isa<Constant>(v) || shape(v).kind <= Shape::Uniform) return true;
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || shape(inst).kind != Shape::Varying) return false;
  if (repeating_.contains(inst)) return true;
  return depth < kDepth && is_made_here(inst) &&
         all_of(inst->operands(), [&](const Use& use) { return repeats(use, depth + 1); });
}

/// The lanes of a value, those that are off with what the first lane that is on holds: an address
/// that follows from it may be read, and so may one that follows from what is read there.
Value* MemoryEmitter::active_lanes(Value* v) {
  if (!mask() || repeats(v)) return vec(v);
  auto* extension = dyn_cast<CastInst>(v);  // of a number that takes fewer registers
  if (extension && isa<SExtInst, ZExtInst>(extension) && is_made_here(extension) &&
      shape(extension->getOperand(0)).kind == Shape::Varying)
    return b_.CreateCast(extension->getOpcode(), active_lanes(extension->getOperand(0)),
                         vector_type(extension->getType()));
  Value* const lanes = vec(v);
  Value* const first = b_.CreateBinaryIntrinsic(Intrinsic::cttz, bits(mask()), b_.getTrue());
  return b_.CreateSelect(
      mask(), lanes, splat(b_.CreateExtractElement(lanes, b_.CreateZExt(first, b_.getInt64Ty()))));
}

/// The addresses of single lanes, `distance` bytes from a pointer.
SmallVector<Value*> MemoryEmitter::active_addresses(Value* pointer, std::int64_t distance) {
  SmallVector<Value*> addresses;
  const auto found = indexed(pointer);
  Value* const lanes = active_lanes(found ? found->lanes : pointer);
  Value* const base =
      found ? b_.CreatePtrAdd(uniform_address(*found), b_.getInt64(distance)) : nullptr;
  for (unsigned lane = 0; lane < width_; ++lane) {
    Value* one = b_.CreateExtractElement(lanes, lane);
    if (!base) {
      addresses.push_back(b_.CreatePtrAdd(one, b_.getInt64(distance)));
      continue;
    }
    if (found->scale != 1) one = b_.CreateMul(one, b_.getInt64(found->scale));
    addresses.push_back(b_.CreatePtrAdd(base, one));
  }
  return addresses;
}

Value* MemoryEmitter::gather_by_loop(LoadInst& load, Type* type, Align align) {
  auto address = addresses_of(load.getPointerOperand());
  AllocaInst* results = temporary(slot_type(type), "loaded");
  // Unrolled, code that runs rarely would be most of the kernel: it would take longer to compile,
  // and the code around it would lack registers.
  parts_.regions.leave_as_it_is(for_each_lane([&](Value* lane) {
    Value* value = b_.CreateAlignedLoad(type, address(lane), align, load.isVolatile());
    b_.CreateStore(value, b_.CreateInBoundsGEP(type, results, lane));
  }));
  return b_.CreateLoad(results->getAllocatedType(), results);
}

Value* MemoryEmitter::gather(LoadInst& load, Type* type, Align align, bool rare) {
  Value* pointer = load.getPointerOperand();
  if (by_loop(rare)) return gather_by_loop(load, type, align);
  if (plan_.target.has_gather(*type))
    return b_.CreateMaskedGather(
        vector_type(type), lane_pointers(pointer), align, mask() ? mask() : all_lanes(),
        mask() ? Constant::getNullValue(vector_type(type)) : nullptr, load.getName());
  if (mask()) repeating_.insert(&load);
  return b_.CreateMaskedGather(vector_type(type), lane_pointers(pointer, /*active=*/true), align,
                               all_lanes(), nullptr, load.getName());
}

void MemoryEmitter::scatter(StoreInst& store, Align align, bool rare) {
  Value *pointer = store.getPointerOperand(), *value = store.getValueOperand();
  if (by_loop(rare)) {
    auto address = addresses_of(pointer);
    Value* values = spill(vec(value), "values");
    for_each_lane([&](Value* lane) {
      b_.CreateAlignedStore(lane_of(values, lane, value->getType()), address(lane), align,
                            store.isVolatile());
    });
    return;
  }
  if (plan_.target.has_scatter(*value->getType())) {
    b_.CreateMaskedScatter(vec(value), lane_pointers(pointer), align,
                           mask() ? mask() : all_lanes());
    return;
  }
  Value* pointers = vec(pointer);
  if (mask()) {  // lanes that are off write to memory that nothing reads
    Value*& sink = parts_.instructions.registers()["sink"];
    if (!sink) {
      auto* memory = temporary(ArrayType::get(b_.getInt64Ty(), 4), "sink");
      memory->setAlignment(Align{32});
      sink = memory;
    }
    pointers = b_.CreateSelect(mask(), pointers, splat(sink));
  }
  b_.CreateMaskedScatter(vec(value), pointers, align, all_lanes());
}

// Contiguous global memory: lanes that are off must not write. Without masked stores, registers
// whose lanes are all on are stored whole, the others lane by lane.
void MemoryEmitter::store_lanes(Value* all, Value* base, Align align) {
  Triple triple{module_.getTargetTriple()};
  if (triple.isX86()) {
    b_.CreateMaskedStore(all, base, align, mask());
    return;
  }
  Type* type = cast<FixedVectorType>(all->getType())->getElementType();
  auto size = static_cast<unsigned>(module_.getDataLayout().getTypeStoreSize(type));
  unsigned lanes = std::min(width_, std::max(1u, 16 / size));
  Value* left = b_.CreateZExt(bits(mask()), b_.getInt64Ty());
  for (unsigned first = 0; first < width_; first += lanes) {
    Value* part = b_.getInt64(((std::uint64_t{1} << lanes) - 1) << first);
    BasicBlock *before = b_.GetInsertBlock(), *whole = new_block("whole"),
               *after = new_block("stored");
    b_.CreateCondBr(b_.CreateICmpEQ(b_.CreateAnd(left, part), part), whole, after);
    b_.SetInsertPoint(whole);
    SmallVector<int> numbers;
    for (unsigned i = 0; i < lanes; ++i) numbers.push_back(static_cast<int>(first + i));
    b_.CreateAlignedStore(b_.CreateShuffleVector(all, numbers), lane_pointer(base, first, size),
                          align);
    Value* rest = b_.CreateXor(left, part);
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    PHINode* both = b_.CreatePHI(b_.getInt64Ty(), 2);
    both->addIncoming(left, before);
    both->addIncoming(rest, whole);
    left = both;
  }
  BasicBlock *some = new_block("some"), *none = new_block("none");
  b_.CreateCondBr(b_.CreateICmpNE(left, b_.getInt64(0)), some, none);
  b_.SetInsertPoint(some);
  Value* values = spill(all, "values");
  for_each_lane(left, [&](Value* lane) {
    Value* to = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(lane, b_.getInt64(size)));
    b_.CreateAlignedStore(lane_of(values, lane, type), to, align);
  });
  b_.CreateBr(none);
  b_.SetInsertPoint(none);
}

/// The address of one lane, for accesses of lane after lane. Short expressions are computed again
/// with scalar instructions, down to the element that the lane has loaded: extracting elements from
/// registers is slower than loading them.
Value* MemoryEmitter::lane_address(Value* v, unsigned lane, unsigned depth) {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || shape(v).kind != Shape::Varying) return lane_value(v, lane);
  if (auto* load = dyn_cast<LoadInst>(inst)) {
    auto* made = dyn_cast_or_null<LoadInst>(parts_.values.known().vectors.lookup(load));
    if (!made || !made->isSimple()) return b_.CreateExtractElement(vec(v), lane);
    // Next to the load of the vector: later code may write to the same memory. So many numbers are
    // live at once, and several narrow ones share a register.
    IRBuilder<> at{made->getNextNode()};
    const std::uint64_t size = module_.getDataLayout().getTypeStoreSize(load->getType());
    const auto element = [&](Type* type, std::uint64_t first) {
      return at.CreateAlignedLoad(
          type, at.CreateConstGEP1_64(at.getInt8Ty(), made->getPointerOperand(), size * first),
          std::min(load->getAlign(), Align{size}));
    };
    const unsigned together = size < kWord ? static_cast<unsigned>(kWord / size) : 1;
    if (together == 1 || !load->getType()->isIntegerTy(static_cast<unsigned>(8 * size)) ||
        width_ % together != 0)
      return element(load->getType(), lane);
    Value*& word = lane_words_[{made, lane / together}];
    if (!word) word = element(at.getInt64Ty(), lane - lane % together);
    return b_.CreateTrunc(b_.CreateLShr(word, 8 * size * (lane % together)), load->getType());
  }
  const bool is_short = isa<CastInst, GetElementPtrInst>(inst) ||
                        (isa<BinaryOperator>(inst) && any_of(inst->operands(), [&](Value* operand) {
                           return isa<Constant>(operand) || shape(operand).kind <= Shape::Uniform;
                         }));
  if (depth == 0 || !is_short || !is_made_here(inst)) return b_.CreateExtractElement(vec(v), lane);
  SmallVector<Value*, 2> operands;
  for (Value* operand : inst->operands())
    operands.push_back(lane_address(operand, lane, depth - 1));
  return copy_with(inst, operands);
}

}  // namespace cucpu::simt
