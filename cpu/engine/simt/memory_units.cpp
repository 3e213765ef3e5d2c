// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/memory_units.cpp: structures and vector types (`float4 v = p[i]`). The accesses
// of a lane lie in a unit of `stride` bytes, and the units of neighbouring lanes are adjacent:
// whole vectors are loaded and stored, and shuffles bring elements to their lanes.
//
// Where the units of lanes are apart (`p[order[i]]`, rows of a tile), each is one load or store
// instead of one per element, and registers are transposed: fewer instructions than gathers, and a
// fraction of their time in the code generator.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <utility>

#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr std::int64_t kMostElements = 8;  // of a unit: one shuffle per register and element
constexpr std::int64_t kMostBytes = 32;    // of a unit
constexpr std::int64_t kLeastBytes = 4;    // of a unit that is apart from others
constexpr std::int64_t kRegister = 16;     // bytes of what is loaded, stored and transposed at once
constexpr std::int64_t kLeastInMasked = 4;  // elements that beat gathers with masks

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

/// The even or odd elements of two vectors, in each piece of them that is as large as a register.
SmallVector<int> half_of_pieces(unsigned odd, unsigned count, unsigned piece) {
  SmallVector<int> numbers;
  for (unsigned first = 0; first < count; first += piece)
    for (const unsigned vector : {0U, count})
      for (const int i : every(2, vector + first + odd, piece / 2)) numbers.push_back(i);
  return numbers;
}

bool is_last_of(ArrayRef<StoreInst*> unit, const StoreInst& store) {
  return all_of(unit, [&](StoreInst* one) { return one == &store || one->comesBefore(&store); });
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

/// The run of stores around this one whose addresses differ by constants, without other accesses in
/// between. `of_unit`: whether the pointer of one may be that of an element of a unit.
static SmallVector<StoreInst*> run_of(StoreInst& store, const DataLayout& layout,
                                      function_ref<bool(Value*)> of_unit) {
  SmallVector<StoreInst*> run;
  Instruction* at = &store;
  const Value* const base = place_of(store.getPointerOperand(), layout).base;
  const auto belongs = [&](Instruction* inst) {
    auto* other = dyn_cast<StoreInst>(inst);
    return other && other->isSimple() &&
           other->getValueOperand()->getType() == store.getValueOperand()->getType() &&
           place_of(other->getPointerOperand(), layout).base == base &&
           of_unit(other->getPointerOperand());
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
  return run;
}

/// The stores to the elements of the unit of `bytes` that `store` belongs to, in the order of their
/// addresses; empty: none. Units follow each other in the run: that of this store starts at a
/// multiple of their size.
static SmallVector<StoreInst*> unit_of(const StoreInst& store, ArrayRef<StoreInst*> run,
                                       std::int64_t size, std::int64_t bytes,
                                       const DataLayout& layout) {
  const auto elements = static_cast<std::size_t>(bytes / size);
  const auto index = static_cast<std::size_t>(find(run, &store) - run.begin());
  const std::size_t first = index / elements * elements;
  if (first + elements > run.size()) return {};
  SmallVector<StoreInst*> unit(elements, nullptr);
  std::int64_t low = INT64_MAX;
  for (std::size_t i = 0; i < elements; ++i)
    low = std::min(low, place_of(run[first + i]->getPointerOperand(), layout).offset);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::int64_t distance =
        place_of(run[first + i]->getPointerOperand(), layout).offset - low;
    if (distance % size != 0 || distance >= bytes ||
        unit[static_cast<std::size_t>(distance / size)])
      return {};
    unit[static_cast<std::size_t>(distance / size)] = run[first + i];
  }
  return unit;
}

/// Stores to all elements of a unit, next to each other: one store of whole vectors at the last of
/// them. Returns whether `store` is one of them.
bool MemoryEmitter::store_to_units(StoreInst& store, Type* type, std::int64_t size,
                                   std::int64_t stride) {
  if (!store.isSimple() || !may_be_in_unit(*type, size, stride)) return false;
  const DataLayout& layout = module_.getDataLayout();
  const SmallVector<StoreInst*> run = run_of(store, layout, [&](Value* pointer) {
    return shape(pointer).kind == Shape::Strided && shape(pointer).stride == stride;
  });
  const SmallVector<StoreInst*> unit = unit_of(store, run, size, stride, layout);
  if (unit.empty()) return false;
  if (!is_last_of(unit, store)) return true;  // stored with the last one
  SmallVector<Value*> parts;
  for (StoreInst* one : unit) parts.push_back(vec(one->getValueOperand()));
  Value* all = concatenateVectors(b_, parts);
  SmallVector<int> order;
  for (unsigned lane = 0; lane < width_; ++lane)
    for (unsigned i = 0; i < unit.size(); ++i) order.push_back(static_cast<int>(i * width_ + lane));
  b_.CreateAlignedStore(b_.CreateShuffleVector(all, order), scalar(unit[0]->getPointerOperand()),
                        std::min(unit[0]->getAlign(), Align{static_cast<std::uint64_t>(size)}));
  return true;
}

// ---- units that are apart ----

/// Whether the elements of such units can be transposed: whole registers of lanes.
bool MemoryEmitter::may_be_apart(const Type& type, std::int64_t size) const {
  return !parts_.partial.edge() && !by_loop(parts_.masks.are_rare()) && !type.isVectorTy() &&
         type.getScalarSizeInBits() == 8 * static_cast<unsigned>(size) && kRegister % size == 0 &&
         width_ * size >= kRegister;
}

/// The addresses of the units of all lanes; `offset`: of the pointer from the start of a unit.
/// Lanes of a row are neighbours, so that one address is enough for them. Lanes that are off have
/// that of a lane that is on.
SmallVector<Value*> MemoryEmitter::unit_addresses(Value* pointer, std::int64_t offset,
                                                  std::int64_t bytes) {
  if (mask()) return active_addresses(pointer, -offset);
  const Shape where = shape(pointer);
  unsigned length = 1;
  if (where.kind == Shape::Varying) length = std::max(1U, row_length(pointer, bytes, /*least=*/2));
  SmallVector<Value*> addresses;
  for (unsigned lane = 0; lane < width_; ++lane) {
    const unsigned in_row = lane % length;
    if (in_row == 0 || where.kind != Shape::Varying) {
      addresses.push_back(b_.CreateGEP(b_.getInt8Ty(), lane_value(pointer, lane),
                                       b_.getInt64(static_cast<std::uint64_t>(-offset))));
    } else {
      addresses.push_back(b_.CreateGEP(b_.getInt8Ty(), addresses[lane - in_row],
                                       b_.getInt64(static_cast<std::uint64_t>(bytes) * in_row)));
    }
  }
  return addresses;
}

/// Finds the places of all plain loads of a block, in order.
void MemoryEmitter::find_placed_loads(const BasicBlock& block) {
  placed_loads_.clear();
  placed_in_ = &block;
  for (const Instruction& inst : block)
    if (const auto* load = dyn_cast<LoadInst>(&inst); load && load->isSimple()) {
      const Place place = place_of(load->getPointerOperand(), module_.getDataLayout());
      placed_loads_[{place.base, load->getType()}].push_back({place.offset, load});
    }
  for (auto& [place, loads] : placed_loads_) {
    // The first load of a place remains.
    llvm::stable_sort(loads, [](const auto& a, const auto& b) { return a.offset < b.offset; });
    loads.erase(
        llvm::unique(loads, [](const auto& a, const auto& b) { return a.offset == b.offset; }),
        loads.end());
  }
}

/// The bytes of the unit that begins with the first of some loads: the block loads all of its
/// elements, or most of them, after the first one, to whose address the unit is aligned: then it
/// lies in one page.
std::int64_t MemoryEmitter::bytes_of_unit(ArrayRef<PlacedLoad> loads, std::int64_t size) {
  const PlacedLoad& first = loads.front();
  for (std::int64_t bytes = std::min(kMostBytes, kMostElements * size); bytes > size; bytes /= 2) {
    const auto present =
        loads.take_while([&](const PlacedLoad& one) { return one.offset < first.offset + bytes; });
    const auto count = static_cast<std::int64_t>(present.size());
    if (any_of(present,
               [&](const PlacedLoad& one) { return (one.offset - first.offset) % size != 0; }))
      continue;
    if (count == bytes / size) return bytes;
    if (2 * count > bytes / size &&
        first.load->getAlign().value() >= static_cast<std::uint64_t>(bytes) &&
        all_of(present.drop_front(),
               [&](const PlacedLoad& one) { return first.load->comesBefore(one.load); }))
      return bytes;
  }
  return size;
}

/// The unit of neighbouring elements that a load belongs to. Null bytes: none.
MemoryEmitter::LaneUnit MemoryEmitter::lane_unit(LoadInst& load, std::int64_t size) {
  const DataLayout& layout = module_.getDataLayout();
  const Place here = place_of(load.getPointerOperand(), layout);
  if (placed_in_ != load.getParent()) find_placed_loads(*load.getParent());
  ArrayRef<PlacedLoad> loads = placed_loads_[{here.base, load.getType()}];
  while (!loads.empty()) {
    const std::int64_t start = loads.front().offset, bytes = bytes_of_unit(loads, size);
    if (here.offset >= start && here.offset < start + bytes)
      return bytes > size && bytes >= kLeastBytes
                 ? LaneUnit{here.base, start, here.offset - start, bytes}
                 : LaneUnit{};
    loads = loads.drop_while([&](const PlacedLoad& one) { return one.offset < start + bytes; });
  }
  return {};
}

/// Loads the unit of each lane. Null: not in a unit.
Value* MemoryEmitter::load_from_lane_units(LoadInst& load, Type* type, std::int64_t size) {
  if (!load.isSimple() || !may_be_apart(*type, size)) return nullptr;
  const LaneUnit unit = lane_unit(load, size);
  if (unit.bytes == 0) return nullptr;
  if (mask() && plan_.target.has_gather(*type) && unit.bytes < kLeastInMasked * size)
    return nullptr;
  if (mask()) repeating_.insert(&load);
  const auto element = static_cast<std::size_t>(unit.offset / size);
  const auto elements = static_cast<std::size_t>(unit.bytes / size);
  for (const LoadedUnits& known : loaded_units_)
    if (known.base == unit.base && known.start == unit.start && known.type == type &&
        none_of(make_range(known.load->getIterator(), std::as_const(load).getIterator()),
                [](const Instruction& inst) { return inst.mayWriteToMemory(); }))
      return known.elements[element];

  const auto in_register = static_cast<unsigned>(kRegister / size);
  auto* const part = FixedVectorType::get(type, in_register);
  SmallVector<Value*> parts;
  const SmallVector<Value*> addresses =
      unit_addresses(load.getPointerOperand(), unit.offset, unit.bytes);
  if (unit.bytes >= kRegister) {
    for (Value* address : addresses)
      for (std::int64_t at = 0; at < unit.bytes; at += kRegister)
        parts.push_back(b_.CreateAlignedLoad(
            part, b_.CreateConstGEP1_64(b_.getInt8Ty(), address, static_cast<std::uint64_t>(at)),
            Align{static_cast<std::uint64_t>(size)}));
  } else {
    const auto lanes = static_cast<unsigned>(kRegister / unit.bytes);  // of a register
    Type* const word = b_.getIntNTy(static_cast<unsigned>(8 * unit.bytes));
    for (unsigned first = 0; first < width_; first += lanes) {
      Value* words = PoisonValue::get(FixedVectorType::get(word, lanes));
      for (unsigned i = 0; i < lanes; ++i)
        words =
            b_.CreateInsertElement(words,
                                   b_.CreateAlignedLoad(word, addresses[first + i],
                                                        Align{static_cast<std::uint64_t>(size)}),
                                   i);
      parts.push_back(b_.CreateBitCast(words, part));
    }
  }
  LoadedUnits made{unit.base, unit.start, type, &load, {}};
  for (auto& vectors : deinterleave(parts, elements))
    made.elements.push_back(concatenateVectors(b_, vectors));
  loaded_units_.push_back(std::move(made));
  return loaded_units_.back().elements[element];
}

/// The elements of units, by their number: even and odd ones are separated until each is alone.
/// As many parts as there are elements give one part of each of them; where registers have several
/// parts, that many such sets are transposed at once.
SmallVector<SmallVector<Value*>> MemoryEmitter::deinterleave(ArrayRef<Value*> parts,
                                                             std::size_t elements) {
  const std::size_t together = std::min<std::size_t>(
      plan_.target.lanes * sizeof(std::uint32_t) / kRegister, parts.size() / elements);
  const unsigned piece = cast<FixedVectorType>(parts[0]->getType())->getNumElements();
  SmallVector<SmallVector<Value*>> lists(1);
  for (std::size_t first = 0; first < parts.size(); first += together * elements)
    for (std::size_t i = 0; i < elements; ++i) {
      SmallVector<Value*> pieces;
      for (std::size_t set = 0; set < together; ++set)
        pieces.push_back(parts[first + set * elements + i]);
      lists[0].push_back(concatenateVectors(b_, pieces));
    }
  for (std::size_t done = 1; done < elements; done *= 2) {
    // List i holds the elements that are i modulo `done`.
    SmallVector<SmallVector<Value*>> next(2 * done);
    for (std::size_t list = 0; list < done; ++list)
      for (std::size_t i = 0; i + 1 < lists[list].size(); i += 2) {
        Value *low = lists[list][i], *high = lists[list][i + 1];
        const unsigned count = cast<FixedVectorType>(low->getType())->getNumElements();
        for (unsigned odd = 0; odd < 2; ++odd)
          next[list + odd * done].push_back(
              b_.CreateShuffleVector(low, high, half_of_pieces(odd, count, piece)));
      }
    lists = std::move(next);
  }
  return lists;
}

/// The inverse of deinterleave().
SmallVector<Value*> MemoryEmitter::interleave(SmallVector<SmallVector<Value*>> lists) {
  while (lists.size() > 1) {
    const std::size_t half = lists.size() / 2;
    SmallVector<SmallVector<Value*>> next(half);
    for (std::size_t list = 0; list < half; ++list)
      for (std::size_t i = 0; i < lists[list].size(); ++i) {
        Value *even = lists[list][i], *odd = lists[list + half][i];
        const unsigned count = cast<FixedVectorType>(even->getType())->getNumElements();
        for (unsigned first = 0; first < count; first += count / 2) {
          SmallVector<int> order;
          for (unsigned k = first; k < first + count / 2; ++k) {
            order.push_back(static_cast<int>(k));
            order.push_back(static_cast<int>(count + k));
          }
          next[list].push_back(b_.CreateShuffleVector(even, odd, order));
        }
      }
    lists = std::move(next);
  }
  return lists.front();
}

/// Stores to all elements of a unit, next to each other: one store per lane at the last of them.
/// Returns whether `store` is one of them. Lanes that write to the same unit write in order.
bool MemoryEmitter::store_to_lane_units(StoreInst& store, Type* type, std::int64_t size) {
  if (!store.isSimple() || mask() || !may_be_apart(*type, size)) return false;
  const DataLayout& layout = module_.getDataLayout();
  const Shape where = shape(store.getPointerOperand());
  const SmallVector<StoreInst*> run = run_of(store, layout, [&](Value* pointer) {
    return shape(pointer).kind == where.kind && shape(pointer).stride == where.stride;
  });
  SmallVector<StoreInst*> unit;
  std::int64_t bytes = kMostBytes;
  for (; unit.empty() && bytes >= std::max(kLeastBytes, 2 * size); bytes /= 2)
    if (bytes / size <= kMostElements) {
      unit = unit_of(store, run, size, bytes, layout);
      if (!unit.empty()) break;
    }
  if (unit.empty()) return false;
  if (!is_last_of(unit, store)) return true;
  const auto in_register = static_cast<unsigned>(kRegister / size);
  SmallVector<SmallVector<Value*>> lists;
  for (StoreInst* one : unit) {
    Value* const all = vec(one->getValueOperand());
    SmallVector<Value*>& list = lists.emplace_back();
    for (unsigned first = 0; first < width_; first += in_register)
      list.push_back(b_.CreateShuffleVector(all, every(1, first, in_register)));
  }
  const SmallVector<Value*> addresses = unit_addresses(unit[0]->getPointerOperand(), 0, bytes);
  const SmallVector<Value*> parts = interleave(std::move(lists));
  const Align align{static_cast<std::uint64_t>(size)};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t first = i * static_cast<std::size_t>(kRegister);  // byte of all units
    const auto in_unit = static_cast<std::size_t>(bytes);
    if (bytes >= kRegister) {
      b_.CreateAlignedStore(
          parts[i],
          b_.CreateConstGEP1_64(b_.getInt8Ty(), addresses[first / in_unit], first % in_unit),
          align);
      continue;
    }
    const auto lanes = static_cast<unsigned>(kRegister / bytes);
    Type* const word = b_.getIntNTy(static_cast<unsigned>(8 * bytes));
    Value* const words = b_.CreateBitCast(parts[i], FixedVectorType::get(word, lanes));
    for (unsigned lane = 0; lane < lanes; ++lane)
      b_.CreateAlignedStore(b_.CreateExtractElement(words, lane), addresses[first / in_unit + lane],
                            align);
  }
  return true;
}

}  // namespace cucpu::simt
