// SPDX-License-Identifier: Apache-2.0
// cucore/buffer_ref.hpp: a non-owning view of memory by address and size.
#pragma once

#include <cstddef>
#include <span>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// A non-owning view of device, managed or host memory. Pass by value; must not outlive the memory.
/// A Buffer converts to it.
class BufferRef {
 public:
  constexpr BufferRef() = default;  ///< Creates an empty view with address 0.
  /// Creates a view of `size` bytes at address `ptr`.
  constexpr BufferRef(CUdeviceptr ptr, std::size_t size) noexcept : ptr_{ptr}, size_{size} {}
  /// Creates a view of host memory.
  explicit BufferRef(std::span<const std::byte> bytes) noexcept
      : ptr_{reinterpret_cast<CUdeviceptr>(bytes.data())}, size_{bytes.size()} {}

  [[nodiscard]] constexpr CUdeviceptr handle() const noexcept { return ptr_; }  ///< the address
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }   ///< size in bytes
  friend constexpr bool operator==(const BufferRef&, const BufferRef&) = default;

 private:
  CUdeviceptr ptr_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cucore
