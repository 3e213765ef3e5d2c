// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_emitter.cpp: loads, stores and private memory.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/TargetParser/Triple.h>

#include "cpu/engine/simt/deferrable_atomics.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

MemoryEmitter::MemoryEmitter(EmitterParts& parts)
    : EmitterPart{parts},
      late_{find_deferrable_atomics(state_.thread)},
      prefetches_{find_prefetches(plan_.flow, plan_.full, width_)} {
  find_pieces();
}

bool is_shared(const Instruction& access, const Value* pointer) {
  return space_of(access) == "shared" || marker_name(getUnderlyingObject(pointer)) == "shared";
}

Value* MemoryEmitter::lane_pointer(Value* base, unsigned lane, std::int64_t stride) {
  return b_.CreateGEP(
      b_.getInt8Ty(), base,
      b_.getInt64(static_cast<std::uint64_t>(stride * static_cast<std::int64_t>(lane))));
}

// Whether one lane of a value can be computed again by its instruction. For a value of an earlier
// block only its slot is available: its operands may not be.
bool MemoryEmitter::is_made_here(const Instruction* inst) const {
  return inst->getParent() == parts_.instructions.block() &&
         (parts_.values.has_vector(inst) || is_lazy(inst)) &&
         isa<BinaryOperator, CastInst, GetElementPtrInst>(inst) && !inst->isIntDivRem();
}

Value* MemoryEmitter::copy_with(const Instruction* inst, ArrayRef<Value*> operands) {
  Instruction* copy = inst->clone();
  for (unsigned i = 0; i < operands.size(); ++i) copy->setOperand(i, operands[i]);
  copy->dropUnknownNonDebugMetadata();
  copy->setDebugLoc({});
  copy->dropPoisonGeneratingFlags();
  return b_.Insert(copy);
}

// Computes the address of a lane whose number is known at run time only.
std::function<Value*(Value* lane)> MemoryEmitter::addresses_of(Value* v, unsigned depth) {
  const Shape s = shape(v);
  if (isa<Constant>(v) || s.kind <= Shape::Uniform)
    return [one = scalar(v)](Value*) { return one; };
  if (s.kind == Shape::Strided) {
    auto stride = static_cast<std::uint64_t>(s.stride);
    return [this, stride, base = scalar(v)](Value* lane) -> Value* {
      if (base->getType()->isPointerTy())
        return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(lane, b_.getInt64(stride)));
      Value* step = b_.CreateTrunc(b_.CreateMul(lane, b_.getInt64(stride)), base->getType());
      return b_.CreateAdd(base, step);
    };
  }
  // 32-bit indices take half the memory of addresses, and computing one address from them is cheap.
  auto* inst = cast<Instruction>(v);
  if (depth > 0 && is_made_here(inst) &&
      module_.getDataLayout().getTypeSizeInBits(v->getType()) == 64 &&
      none_of(inst->operands(),
              [](const Use& use) { return use->getType()->isFloatingPointTy(); })) {
    SmallVector<std::function<Value*(Value*)>, 2> operands;
    for (Value* operand : inst->operands()) operands.push_back(addresses_of(operand, depth - 1));
    return [this, inst, operands](Value* lane) {
      SmallVector<Value*, 2> values;
      for (const auto& operand : operands) values.push_back(operand(lane));
      return copy_with(inst, values);
    };
  }
  return [this, type = v->getType(), all = spill(vec(v), "addresses")](Value* lane) {
    return lane_of(all, lane, type);
  };
}

bool MemoryEmitter::by_loop(bool rare) const {
  return mask() ? rare : plan_.baseline && width_ > 8 && !parts_.partial.edge();
}

Value* MemoryEmitter::last_lane(Value* v) {
  if (shape(v).kind <= Shape::Uniform) return scalar(v);
  if (!mask()) return b_.CreateExtractElement(vec(v), width_ - 1);
  Value* on = bits(mask());
  Value* leading = b_.CreateBinaryIntrinsic(Intrinsic::ctlz, on, b_.getTrue());
  Value* lane = b_.CreateSub(ConstantInt::get(on->getType(), width_ - 1), leading);
  return b_.CreateExtractElement(vec(v), b_.CreateZExt(lane, b_.getInt64Ty()));
}

void MemoryEmitter::emit_load(LoadInst& load) {
  Type* type = load.getType();
  Value* pointer = load.getPointerOperand();
  Shape where = shape(pointer);
  Align align = load.getAlign();
  auto copy_attributes = [&](LoadInst* made) {
    made->setVolatile(load.isVolatile());
    if (load.isAtomic()) made->setAtomic(load.getOrdering(), load.getSyncScopeID());
    return made;
  };
  if (where.kind <= Shape::Uniform) {
    ++report_.loads_uniform;
    if (is_parameter_load(load)) {
      APInt offset{64, 0};
      pointer->stripAndAccumulateConstantOffsets(module_.getDataLayout(), offset, true);
      Value*& known = parameters_[{offset.getZExtValue(), type}];
      if (!known) {
        Value* base = parts_.instructions.special_register("params", entry_.getPtrTy());
        known = entry_.CreateAlignedLoad(
            type,
            entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), base, offset.getZExtValue()),
            align, "param");
      }
      return define(&load, known);
    }
    if (Value* once = parts_.regions.block_load(load)) return define(&load, once);
    LoadInst* made =
        copy_attributes(b_.CreateAlignedLoad(type, scalar(pointer), align, load.getName()));
    return define(&load, made);
  }
  std::int64_t size = static_cast<std::int64_t>(module_.getDataLayout().getTypeStoreSize(type));
  bool shared = is_shared(load, pointer);
  if (load.isAtomic() || type->isIntegerTy(1)) {
    ++report_.gathers;
    Value* addresses = spill(vec(pointer), "addresses");
    AllocaInst* results = temporary(slot_type(type), "loaded");
    for_each_lane([&](Value* lane) {
      Value* value = copy_attributes(
          b_.CreateAlignedLoad(type, lane_of(addresses, lane, pointer->getType()), align));
      if (type->isIntegerTy(1)) value = b_.CreateSExt(value, b_.getInt32Ty());
      b_.CreateStore(value, b_.CreateInBoundsGEP(value->getType(), results, lane));
    });
    return define(&load, from_slot_form(b_.CreateLoad(results->getAllocatedType(), results), type));
  }
  if (where.kind == Shape::Strided && where.stride == size && (!mask() || shared)) {
    ++report_.loads_contiguous;
    if (parts_.partial.edge())
      return define(&load, parts_.partial.load_pieces(type, scalar(pointer), size, align));
    LoadInst* made =
        b_.CreateAlignedLoad(vector_type(type), scalar(pointer), align, load.getName());
    made->setVolatile(load.isVolatile());
    emit_prefetch(load, made, static_cast<std::uint64_t>(size) * width_);
    return define(&load, made);
  }
  if (where.kind == Shape::Strided && where.stride == size && !load.isVolatile() &&
      plan_.target.has_masked_access(*type)) {
    ++report_.loads_contiguous;
    Type* all = vector_type(type);
    return define(&load, b_.CreateMaskedLoad(all, scalar(pointer), align, mask(),
                                             Constant::getNullValue(all), load.getName()));
  }
  if (where.kind == Shape::Strided && !mask() && !by_loop(true)) {
    ++report_.loads_strided;
    if (!parts_.partial.edge())
      if (Value* picked = load_from_units(load, type, size, where.stride))
        return define(&load, picked);
    if (Value* picked = load_from_lane_units(load, type, size)) return define(&load, picked);
    Value* base = scalar(pointer);
    Value* result = PoisonValue::get(vector_type(type));
    for (unsigned i = 0; i < width_; ++i) {
      Value* from = parts_.partial.edge() ? parts_.partial.edge_pointer(base, i, where.stride)
                                          : lane_pointer(base, i, where.stride);
      LoadInst* one = b_.CreateAlignedLoad(type, from, align);
      one->setVolatile(load.isVolatile());
      result = b_.CreateInsertElement(result, one, i);
    }
    return define(&load, result);
  }
  if (mask() && !parts_.masks.are_rare() && !load.isVolatile() &&
      align.value() >= static_cast<std::uint64_t>(size) &&
      plan_.full[pointer].kind == Shape::Strided && plan_.full[pointer].stride == size) {
    // Lane 0 may be off, so whether the address is contiguous is tested at run time. If it is, one
    // load is enough for all lanes.
    if (Value* together = contiguous(pointer, size)) {
      ++report_.loads_contiguous;
      BasicBlock *fast = new_block("contiguous"), *slow = new_block("apart"),
                 *after = new_block("loaded");
      Value* first = lane_value(pointer, 0);
      const ValueMap::Known saved = parts_.values.known();
      b_.CreateCondBr(together, fast, slow, MDBuilder{context_}.createBranchWeights(100'000, 1));
      b_.SetInsertPoint(fast);
      Type* all = vector_type(type);
      Value* whole =
          shared ? b_.CreateAlignedLoad(all, first, align)
          : plan_.target.has_masked_access(*type)
              ? b_.CreateMaskedLoad(all, first, align, mask(), Constant::getNullValue(all))
              : load_within_pages(all, first, size, align);
      BasicBlock* fast_end = b_.GetInsertBlock();
      b_.CreateBr(after);
      b_.SetInsertPoint(slow);
      Value* parts = gather(load, type, align, true);
      BasicBlock* slow_end = b_.GetInsertBlock();
      b_.CreateBr(after);
      parts_.values.restore(saved);
      b_.SetInsertPoint(after);
      PHINode* result = b_.CreatePHI(vector_type(type), 2);
      result->addIncoming(whole, fast_end);
      result->addIncoming(parts, slow_end);
      return define(&load, result);
    }
  }
  if (load_rows(load, size) || load_pieces(load)) return;
  if (!mask() || !parts_.masks.are_rare()) ++report_.gathers;
  if (Value* picked = load_from_lane_units(load, type, size)) return define(&load, picked);
  define(&load, gather(load, type, align, parts_.masks.are_rare()));
}

// A contiguous load with some lanes off: accesses only pages that active lanes access. If the
// vector crosses a page boundary and all lanes on one side are off, the other side is loaded and
// shuffled into place.
Value* MemoryEmitter::load_within_pages(Type* type, Value* first, std::int64_t size, Align align) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t bytes = static_cast<std::uint64_t>(size) * width_;
  BasicBlock *one = new_block("one.page"), *two = new_block("two.pages"),
             *after = new_block("within.pages");
  Value* start = b_.CreatePtrToInt(first, b_.getInt64Ty());
  Value* last = b_.CreateAdd(start, b_.getInt64(bytes - 1));
  b_.CreateCondBr(b_.CreateICmpULT(b_.CreateXor(start, last), b_.getInt64(kPage)), one, two,
                  MDBuilder{context_}.createBranchWeights(100, 1));
  b_.SetInsertPoint(one);
  Value* whole = b_.CreateAlignedLoad(type, first, align);
  b_.CreateBr(after);
  b_.SetInsertPoint(two);
  Value* boundary = b_.CreateAnd(last, b_.getInt64(~(kPage - 1)));
  Value* lane = b_.CreateUDiv(b_.CreateSub(boundary, start), b_.getInt64(std::uint64_t(size)));
  Value* on = b_.CreateZExt(bits(mask()), b_.getInt64Ty());
  Value* lanes_after = b_.CreateLShr(on, lane);
  Value* lanes_before = b_.CreateXor(on, b_.CreateShl(lanes_after, lane));
  Value* none = b_.getInt64(0);
  Value* from = b_.CreateSelect(
      b_.CreateICmpEQ(lanes_after, none), b_.CreateSub(boundary, b_.getInt64(bytes)),
      b_.CreateSelect(b_.CreateICmpEQ(lanes_before, none), boundary, start));
  AllocaInst* place = temporary(ArrayType::get(b_.getInt8Ty(), 3 * bytes), "two.pages");
  place->setAlignment(Align{16});
  Value* middle = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), place, bytes);
  Value* found = b_.CreateAlignedLoad(type, b_.CreateIntToPtr(from, b_.getPtrTy()), align);
  b_.CreateAlignedStore(found, b_.CreateGEP(b_.getInt8Ty(), middle, b_.CreateSub(from, start)),
                        align);
  Value* moved = b_.CreateAlignedLoad(type, middle, align);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  PHINode* result = b_.CreatePHI(type, 2);
  result->addIncoming(whole, one);
  result->addIncoming(moved, two);
  return result;
}

// The value of one lane, computed with scalar instructions where possible.
Value* MemoryEmitter::lane_value(Value* v, unsigned lane) {
  Shape s = shape(v);
  if (isa<Constant>(v) || s.kind <= Shape::Uniform) return scalar(v);
  if (s.kind == Shape::Strided) {
    auto offset = static_cast<std::uint64_t>(s.stride * static_cast<std::int64_t>(lane));
    if (v->getType()->isPointerTy())
      return b_.CreateGEP(b_.getInt8Ty(), scalar(v), b_.getInt64(offset));
    return b_.CreateAdd(scalar(v), ConstantInt::get(v->getType(), offset, true));
  }
  auto* inst = cast<Instruction>(v);
  if (is_made_here(inst)) {
    SmallVector<Value*> operands;
    for (Value* operand : inst->operands()) {
      auto* other = dyn_cast<Instruction>(operand);
      if (other && shape(other).kind == Shape::Varying && !parts_.values.has_vector(other) &&
          !is_lazy(other)) {
        operands.clear();
        break;
      }
      operands.push_back(lane_value(operand, lane));
    }
    if (!operands.empty()) return copy_with(inst, operands);
  }
  return b_.CreateFreeze(b_.CreateExtractElement(vec(v), lane));
}

// The number of extensions between a value and its strided root. With one, wrapping is detected;
// with two, one wrap could hide another.
unsigned MemoryEmitter::extensions_in(Value* v, unsigned depth) const {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || shape(inst).scalar()) return 0;
  if (depth > 12 || isa<PHINode>(inst)) return 2;
  if (isa<SExtInst, ZExtInst>(inst)) return shape(inst->getOperand(0)).scalar() ? 1 : 2;
  if (!isa<BinaryOperator, CastInst, GetElementPtrInst>(inst) || inst->isIntDivRem()) return 2;
  unsigned sum = 0;
  for (Value* operand : inst->operands()) sum += extensions_in(operand, depth + 1);
  return sum;
}

Value* MemoryEmitter::contiguous(Value* pointer, std::int64_t size) {
  if (extensions_in(pointer) > 1) return nullptr;
  Value* first = b_.CreatePtrToInt(lane_value(pointer, 0), b_.getInt64Ty());
  Value* last = b_.CreatePtrToInt(lane_value(pointer, width_ - 1), b_.getInt64Ty());
  auto span = static_cast<std::uint64_t>(size) * (width_ - 1);
  return b_.CreateICmpEQ(b_.CreateSub(last, first), b_.getInt64(span));
}

void MemoryEmitter::emit_store(StoreInst& store) {
  Value *pointer = store.getPointerOperand(), *value = store.getValueOperand();
  Type* type = value->getType();
  Shape where = shape(pointer);
  Align align = store.getAlign();
  auto copy_attributes = [&](StoreInst* made) {
    made->setVolatile(store.isVolatile());
    if (store.isAtomic()) made->setAtomic(store.getOrdering(), store.getSyncScopeID());
  };
  if (where.kind <= Shape::Uniform) {
    ++report_.stores_uniform;  // lanes write in order; the last value remains
    return copy_attributes(b_.CreateAlignedStore(last_lane(value), scalar(pointer), align));
  }
  std::int64_t size = static_cast<std::int64_t>(module_.getDataLayout().getTypeStoreSize(type));
  if (store.isAtomic() || type->isIntegerTy(1)) {
    ++report_.scatters;
    Value* addresses = spill(vec(pointer), "addresses");
    Value* values = spill(vec(value), "values");
    for_each_lane([&](Value* lane) {
      Value* address = lane_of(addresses, lane, pointer->getType());
      copy_attributes(b_.CreateAlignedStore(lane_of(values, lane, type), address, align));
    });
    return;
  }
  if (where.kind == Shape::Strided && where.stride == size &&
      (!mask() || is_shared(store, pointer))) {
    ++report_.stores_contiguous;
    Value* base = scalar(pointer);
    Value* all = vec(value);
    if (parts_.partial.edge()) return parts_.partial.store_pieces(all, base, size, align);
    // Only this host thread writes the block's shared memory: lanes that are off write back the old
    // value.
    if (mask())
      all = b_.CreateSelect(mask(), all, b_.CreateAlignedLoad(all->getType(), base, align));
    b_.CreateAlignedStore(all, base, align)->setVolatile(store.isVolatile());
    return;
  }
  if (where.kind == Shape::Strided && where.stride == size && !store.isVolatile() &&
      plan_.target.has_masked_access(*type)) {
    ++report_.stores_contiguous;
    b_.CreateMaskedStore(vec(value), scalar(pointer), align, mask());
    return;
  }
  if (where.kind == Shape::Strided && !mask() && !by_loop(true)) {
    ++report_.stores_strided;
    if (!parts_.partial.edge() && store_to_units(store, type, size, where.stride)) return;
    if (store_to_lane_units(store, type, size)) return;
    Value* base = scalar(pointer);
    Value* all = vec(value);
    for (unsigned i = 0; i < width_; ++i) {
      Value* to = parts_.partial.edge() ? parts_.partial.edge_pointer(base, i, where.stride)
                                        : lane_pointer(base, i, where.stride);
      b_.CreateAlignedStore(b_.CreateExtractElement(all, i), to, align)
          ->setVolatile(store.isVolatile());
    }
    return;
  }
  if (store_rows(store, size)) return;
  bool shared = is_shared(store, pointer);
  bool once_contiguous = mask() && !store.isVolatile() &&
                         plan_.full[pointer].kind == Shape::Strided &&
                         plan_.full[pointer].stride == size && (shared || !parts_.masks.are_rare());
  if (Value* together = once_contiguous ? contiguous(pointer, size) : nullptr) {
    ++report_.stores_contiguous;
    BasicBlock *fast = new_block("contiguous"), *slow = new_block("apart"),
               *after = new_block("stored");
    Value* base = lane_value(pointer, 0);
    Value* all = vec(value);
    const ValueMap::Known saved = parts_.values.known();
    b_.CreateCondBr(together, fast, slow, MDBuilder{context_}.createBranchWeights(1000, 1));
    b_.SetInsertPoint(fast);
    if (shared)
      b_.CreateAlignedStore(
          b_.CreateSelect(mask(), all, b_.CreateAlignedLoad(all->getType(), base, align)), base,
          align);
    else
      store_lanes(all, base, align);
    b_.CreateBr(after);
    b_.SetInsertPoint(slow);
    scatter(store, align, true);
    b_.CreateBr(after);
    parts_.values.restore(saved);
    b_.SetInsertPoint(after);
    return;
  }
  if (!mask() || !parts_.masks.are_rare()) ++report_.scatters;
  if (store_to_lane_units(store, type, size)) return;
  scatter(store, align, parts_.masks.are_rare());
}

void MemoryEmitter::emit_alloca(AllocaInst& alloca) {
  Value*& memory = private_memory_[&alloca];
  const std::size_t size = lane_stride(alloca);
  bool across_barriers =
      parts_.regions.all().size() > 1;  // otherwise the next group may use the same memory
  if (!memory) {                        // on the stack, where isspacep expects local memory
    std::size_t lanes = width_ * (across_barriers ? plan_.lanes.groups() : 1u);
    AllocaInst* place =
        temporary(ArrayType::get(b_.getInt8Ty(), size * lanes), alloca.getName() + ".lanes");
    place->setAlignment(std::max(Align{64}, alloca.getAlign()));
    memory = place;
  }
  if (!across_barriers) return define(&alloca, memory);
  Value* group =
      b_.CreateZExt(b_.CreateLoad(b_.getInt32Ty(), parts_.regions.group()), b_.getInt64Ty());
  define(&alloca,
         b_.CreateGEP(b_.getInt8Ty(), memory, b_.CreateMul(group, b_.getInt64(size * width_))));
}

}  // namespace cucpu::simt
