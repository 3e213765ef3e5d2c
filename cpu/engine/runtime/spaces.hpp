// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/spaces.hpp: the constant variables of all modules, for isspacep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace cucpu {

/// During its lifetime, generic addresses of this variable belong to constant memory.
class ConstantVariable {
 public:
  ConstantVariable(const void* address, std::size_t size);
  ConstantVariable(ConstantVariable&& other) noexcept
      : address_{std::exchange(other.address_, 0)} {}
  ConstantVariable& operator=(ConstantVariable&&) = delete;
  ~ConstantVariable();

 private:
  std::uintptr_t address_;
};

}  // namespace cucpu
