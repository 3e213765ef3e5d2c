// SPDX-License-Identifier: Apache-2.0
// cucore/buffer_ref.hpp: a piece of memory by its address and size, without owning it.
#pragma once

#include <cstddef>
#include <span>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// A view of memory: device, managed or host memory. Pass by value; must not outlive the memory.
/// A Buffer converts to it.
class BufferRef {
 public:
  constexpr BufferRef() = default;  ///< Names nothing.
  /// Memory by its address.
  constexpr BufferRef(CUdeviceptr ptr, std::size_t size) noexcept : ptr_{ptr}, size_{size} {}
  /// Host memory.
  explicit BufferRef(std::span<const std::byte> bytes) noexcept
      : ptr_{reinterpret_cast<CUdeviceptr>(bytes.data())}, size_{bytes.size()} {}

  [[nodiscard]] constexpr CUdeviceptr handle() const noexcept { return ptr_; }  ///< the address
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }   ///< in bytes
  friend constexpr bool operator==(const BufferRef&, const BufferRef&) = default;

 private:
  CUdeviceptr ptr_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cucore
