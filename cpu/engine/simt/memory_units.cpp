// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_units.cpp: structures and vector types (`float4 v = p[i]`). The accesses
// of a lane lie in a unit of `stride` bytes, and the units of neighbouring lanes are adjacent:
// whole vectors are loaded and stored, and shuffles bring elements to their lanes.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr std::int64_t kMostElements = 8;  // of a unit: one shuffle per register and element
constexpr std::int64_t kMostBytes = 32;    // of a unit

/// A pointer of thread code without constant summands.
struct Place {
  const Value* base;
  std::int64_t offset;
};

Place place_of(const Value* pointer, const DataLayout& layout) {
  std::int64_t offset = 0;
  for (;;) {
    APInt constant{64, 0};
    pointer = pointer->getType()->isPointerTy()
                  ? pointer->stripAndAccumulateConstantOffsets(layout, constant, true)
                  : pointer;
    offset += constant.getSExtValue();
    auto* inst = dyn_cast<Instruction>(pointer);
    if (!inst) return {pointer, offset};
    if (isa<IntToPtrInst, PtrToIntInst>(inst) &&
        layout.getTypeSizeInBits(inst->getOperand(0)->getType()) == 64) {
      pointer = inst->getOperand(0);
      continue;
    }
    auto* summand = inst->getOpcode() == Instruction::Add && inst->getType()->isIntegerTy(64)
                        ? dyn_cast<ConstantInt>(inst->getOperand(1))
                        : nullptr;
    if (!summand) return {pointer, offset};
    offset += summand->getSExtValue();
    pointer = inst->getOperand(0);
  }
}

struct Access {
  Instruction* inst;
  std::int64_t offset, size;
  Align align;
};

/// The plain loads (or stores) of a block at constant distances from one address.
SmallVector<Access> accesses_near(Instruction& access, const DataLayout& layout) {
  const bool loads = isa<LoadInst>(access);
  const Value* base = place_of(getLoadStorePointerOperand(&access), layout).base;
  SmallVector<Access> found;
  for (Instruction& inst : *access.getParent()) {
    if (loads != isa<LoadInst>(inst) || (!loads && !isa<StoreInst>(inst))) continue;
    const auto* load = dyn_cast<LoadInst>(&inst);
    const auto* store = dyn_cast<StoreInst>(&inst);
    if (load ? !load->isSimple() : !store->isSimple()) continue;
    const Place place = place_of(getLoadStorePointerOperand(&inst), layout);
    if (place.base != base) continue;
    found.push_back({&inst, place.offset,
                     static_cast<std::int64_t>(layout.getTypeStoreSize(getLoadStoreType(&inst))),
                     getLoadStoreAlignment(&inst)});
  }
  return found;
}

SmallVector<int> every(std::int64_t step, std::int64_t first, unsigned count) {
  SmallVector<int> numbers;
  for (unsigned i = 0; i < count; ++i) numbers.push_back(static_cast<int>(first + step * i));
  return numbers;
}

bool may_be_in_unit(const Type& type, std::int64_t size, std::int64_t stride) {
  return stride > size && stride % size == 0 && stride / size <= kMostElements &&
         stride <= kMostBytes && type.getScalarSizeInBits() == 8 * static_cast<unsigned>(size) &&
         !type.isVectorTy();
}

}  // namespace

/// The distance of a load from the start of a unit whose bytes may all be read: it is aligned, so
/// it lies in the page of the load, or the block loads its first and its last element.
std::optional<std::int64_t> MemoryEmitter::offset_in_unit(LoadInst& load, std::int64_t size,
                                                          std::int64_t stride) const {
  const DataLayout& layout = module_.getDataLayout();
  const std::int64_t here = place_of(load.getPointerOperand(), layout).offset;
  const auto fits = [&](std::int64_t distance) { return distance % size == 0; };
  if (isPowerOf2_64(static_cast<std::uint64_t>(stride)))
    for (const Access& other : accesses_near(load, layout)) {
      if (other.align.value() < static_cast<std::uint64_t>(stride)) continue;
      if (other.inst != &load && !other.inst->comesBefore(&load)) continue;
      const std::int64_t distance = ((here - other.offset) % stride + stride) % stride;
      if (fits(distance)) return distance;
    }
  const SmallVector<Access> near = accesses_near(load, layout);
  for (const Access& first : near) {
    const std::int64_t distance = here - first.offset;
    if (distance < 0 || distance + size > stride || !fits(distance)) continue;
    for (const Access& last : near)
      if (last.offset + last.size == first.offset + stride) return distance;
  }
  return {};
}

/// Loads the units of all lanes and picks one element of each. LLVM merges the
/// loads of different elements. Null: not in a unit.
Value* MemoryEmitter::load_from_units(LoadInst& load, Type* type, std::int64_t size,
                                      std::int64_t stride) {
  if (!load.isSimple() || !may_be_in_unit(*type, size, stride)) return nullptr;
  const auto offset = offset_in_unit(load, size, stride);
  if (!offset) return nullptr;
  const std::int64_t elements = stride / size;
  Value* start = b_.CreateGEP(b_.getInt8Ty(), scalar(load.getPointerOperand()),
                              b_.getInt64(static_cast<std::uint64_t>(-*offset)));
  Value* units = b_.CreateAlignedLoad(
      FixedVectorType::get(type, width_ * static_cast<unsigned>(elements)), start,
      std::min(load.getAlign(), Align{static_cast<std::uint64_t>(size)}), "units");
  return b_.CreateShuffleVector(units, every(elements, *offset / size, width_));
}

/// Stores to all elements of a unit, next to each other: one store of whole vectors at the last of
/// them. Returns whether `store` is one of them.
bool MemoryEmitter::store_to_units(StoreInst& store, Type* type, std::int64_t size,
                                   std::int64_t stride) {
  if (!store.isSimple() || !may_be_in_unit(*type, size, stride)) return false;
  const DataLayout& layout = module_.getDataLayout();
  const auto elements = static_cast<std::size_t>(stride / size);
  // The run of stores around this one, without other accesses in between.
  SmallVector<StoreInst*> run;
  Instruction* at = &store;
  const auto belongs = [&](Instruction* inst) {
    auto* other = dyn_cast<StoreInst>(inst);
    return other && other->isSimple() && other->getValueOperand()->getType() == type &&
           place_of(other->getPointerOperand(), layout).base ==
               place_of(store.getPointerOperand(), layout).base &&
           shape(other->getPointerOperand()).kind == Shape::Strided &&
           shape(other->getPointerOperand()).stride == stride;
  };
  while (Instruction* before = at->getPrevNode()) {
    if (before->mayReadOrWriteMemory() && !belongs(before)) break;
    at = before;
  }
  for (; at; at = at->getNextNode()) {
    if (belongs(at))
      run.push_back(cast<StoreInst>(at));
    else if (at->mayReadOrWriteMemory())
      break;
  }
  // Units follow each other in the run: that of this store starts at a multiple of their size.
  const auto index = static_cast<std::size_t>(find(run, &store) - run.begin());
  const std::size_t first = index / elements * elements;
  if (first + elements > run.size()) return false;
  SmallVector<StoreInst*> unit(elements, nullptr);
  std::int64_t low = INT64_MAX;
  for (std::size_t i = 0; i < elements; ++i)
    low = std::min(low, place_of(run[first + i]->getPointerOperand(), layout).offset);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::int64_t distance =
        place_of(run[first + i]->getPointerOperand(), layout).offset - low;
    if (distance % size != 0 || distance >= stride ||
        unit[static_cast<std::size_t>(distance / size)])
      return false;
    unit[static_cast<std::size_t>(distance / size)] = run[first + i];
  }
  if (index != first + elements - 1) return true;  // stored with the last one
  SmallVector<Value*> parts;
  for (StoreInst* one : unit) parts.push_back(vec(one->getValueOperand()));
  Value* all = concatenateVectors(b_, parts);
  SmallVector<int> order;
  for (unsigned lane = 0; lane < width_; ++lane)
    for (unsigned i = 0; i < elements; ++i) order.push_back(static_cast<int>(i * width_ + lane));
  b_.CreateAlignedStore(b_.CreateShuffleVector(all, order), scalar(unit[0]->getPointerOperand()),
                        std::min(unit[0]->getAlign(), Align{static_cast<std::uint64_t>(size)}));
  return true;
}

}  // namespace cucpu::simt
