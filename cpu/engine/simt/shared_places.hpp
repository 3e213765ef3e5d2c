// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/shared_places.hpp: constant places in the shared memory of a block.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <optional>

namespace cucpu::simt {

/// The accesses of block code to constant places in shared memory, whose address is a field of the
/// context.
class SharedPlaces {
 public:
  explicit SharedPlaces(llvm::Function& block);

  /// Bytes from the beginning of shared memory on.
  struct Place {
    std::int64_t first, end;
    [[nodiscard]] bool overlaps(const Place& other) const {
      return first < other.end && other.first < end;
    }
    [[nodiscard]] bool contains(const Place& other) const {
      return first <= other.first && other.end <= end;
    }
  };

  /// Where a value of this type is in shared memory; nullopt if that is not known.
  [[nodiscard]] std::optional<Place> find(const llvm::Value* pointer, llvm::Type*) const;
  /// The loads of the address of shared memory.
  [[nodiscard]] const llvm::SmallPtrSetImpl<llvm::Instruction*>& bases() const { return bases_; }
  [[nodiscard]] const llvm::DataLayout& layout() const { return layout_; }

 private:
  const llvm::DataLayout& layout_;
  llvm::SmallPtrSet<llvm::Instruction*, 4> bases_;
};

}  // namespace cucpu::simt
