// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/forward_shared_stores.cpp
#include "cpu/engine/simt/forward_shared_stores.hpp"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>

#include "cpu/engine/simt/shared_places.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

class Forwarder {
 public:
  explicit Forwarder(Function& block) : places_{block} {}

  unsigned run(BasicBlock& block) {
    elements_.clear();
    unsigned count = 0;
    for (Instruction& inst : make_early_inc_range(block)) {
      if (auto* load = dyn_cast<LoadInst>(&inst)) {
        count += forward(*load);
      } else if (auto* store = dyn_cast<StoreInst>(&inst)) {
        remember(*store);
      } else if (inst.mayWriteToMemory() && !is_prefetch(inst)) {
        elements_.clear();
      }
    }
    return count;
  }

 private:
  /// What is in memory: a lane of a stored vector.
  struct Element {
    Value* vector;
    int lane;
    std::int64_t size;
  };

  static bool is_prefetch(const Instruction& inst) {
    auto* call = dyn_cast<IntrinsicInst>(&inst);
    return call && call->getIntrinsicID() == Intrinsic::prefetch;
  }

  void remember(StoreInst& store) {
    Value* value = store.getValueOperand();
    const auto place = places_.find(store.getPointerOperand(), value->getType());
    if (!place) return elements_.clear();  // it may be anywhere
    auto at = elements_.lower_bound(place->first - kLargest);
    while (at != elements_.end() && at->first < place->end)
      at = at->first + at->second.size > place->first ? elements_.erase(at) : std::next(at);
    auto* type = dyn_cast<FixedVectorType>(value->getType());
    if (!type || !store.isSimple()) return;
    const auto size = element_size(*type);
    if (!size) return;
    for (int lane = 0; lane < static_cast<int>(type->getNumElements()); ++lane)
      elements_[place->first + lane * *size] = {value, lane, *size};
  }

  unsigned forward(LoadInst& load) {
    auto* type = dyn_cast<FixedVectorType>(load.getType());
    const auto place = places_.find(load.getPointerOperand(), load.getType());
    const auto size = type ? element_size(*type) : std::nullopt;
    if (!place || !size || !load.isSimple()) return 0;
    Value *first = nullptr, *second = nullptr;
    SmallVector<int, 32> lanes;
    for (unsigned i = 0; i < type->getNumElements(); ++i) {
      const auto found = elements_.find(place->first + i * *size);
      if (found == elements_.end()) return 0;
      auto [vector, lane, stored_size] = found->second;
      auto* stored = cast<FixedVectorType>(vector->getType());
      if (stored->getElementType() != type->getElementType()) return 0;
      if (!first) first = vector;
      if (vector != first) {
        if (!second) second = vector;
        if (vector != second || second->getType() != first->getType()) return 0;
        lane += static_cast<int>(stored->getNumElements());
      }
      lanes.push_back(lane);
    }
    IRBuilder<> b{&load};
    Value* value =
        second ? b.CreateShuffleVector(first, second, lanes) : b.CreateShuffleVector(first, lanes);
    load.replaceAllUsesWith(value);
    load.eraseFromParent();
    return 1;
  }

  /// nullopt: elements are not whole bytes next to each other.
  std::optional<std::int64_t> element_size(FixedVectorType& type) const {
    const TypeSize bits = places_.layout().getTypeSizeInBits(type.getElementType());
    if (bits.getFixedValue() % 8 != 0 ||
        bits != places_.layout().getTypeAllocSizeInBits(type.getElementType()))
      return {};
    return static_cast<std::int64_t>(bits.getFixedValue() / 8);
  }

  static constexpr std::int64_t kLargest = 16;  // bytes of an element
  SharedPlaces places_;
  std::map<std::int64_t, Element> elements_;  ///< by place
};

}  // namespace

unsigned forward_shared_stores(Function& block) {
  Forwarder forwarder{block};
  unsigned count = 0;
  for (BasicBlock& one : block) count += forwarder.run(one);
  return count;
}

}  // namespace cucpu::simt
