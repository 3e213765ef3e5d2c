// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/memory.hpp: the memory of an access: whether it lies in a live allocation or in
// the shared memory of the block, and which bytes of device memory are initialized.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/run/block_context.hpp"

namespace cucpu {

class Worker;

/// The end of the block's shared memory: dynamic memory starts at a rounded-up offset.
std::size_t shared_end(const BlockContext&);

/// Shared memory of the system, at BlockContext::reserved_shared_offset.
inline constexpr std::size_t kReservedSharedBytes = 1024;

/// The name of the finding and what is wrong with the access; nullopt if nothing is.
std::optional<std::pair<const char*, std::string>> check_shared(const BlockContext&,
                                                                std::size_t offset,
                                                                std::size_t bytes);
/// The same for an address that was computed from a .shared variable.
std::optional<std::pair<const char*, std::string>> check_variable(std::uint64_t offset,
                                                                  std::size_t bytes,
                                                                  std::uint64_t variable_offset,
                                                                  std::uint64_t variable_bytes);
std::optional<std::pair<const char*, std::string>> check_global(const BlockContext&,
                                                                std::uintptr_t address,
                                                                std::size_t bytes,
                                                                std::uint64_t root);

std::uint64_t block_number(const BlockContext&);  ///< linear, in the grid
/// "thread (0, 0, 0) of block (0, 0, 0) at file:line"
std::string name_of_thread(Worker&, std::uint64_t block, std::uint32_t thread, std::uintptr_t pc);

/// A bit per byte of memory: whether it is initialized. Threads may set bits at the same time.
class InitializedBytes {
 public:
  explicit InitializedBytes(std::size_t bytes);
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] bool all(std::size_t offset, std::size_t bytes) const;
  /// False for an empty range.
  [[nodiscard]] bool none(std::size_t offset, std::size_t bytes) const;
  void set(std::size_t offset, std::size_t bytes);
  void clear(std::size_t bytes);  ///< the first ones
  void clear(std::size_t offset, std::size_t bytes);
  /// How many bytes from `offset` on are initialized; at most `bytes`.
  [[nodiscard]] std::size_t prefix(std::size_t offset, std::size_t bytes) const;
  /// For generated code, which reads up to eight bytes after the last bit.
  [[nodiscard]] const std::byte* bits() const {
    return reinterpret_cast<const std::byte*>(words_.get());
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept;
  };
  std::size_t bytes_;
  std::unique_ptr<std::uint64_t[], Free> words_;
};

/// The allocation, or the memory of an array, that contains the address.
struct FoundMemory : AllocationView {
  bool is_array;
};
std::optional<FoundMemory> find_memory(std::uintptr_t address);

/// The initialized bytes of an allocation or array; never destroyed, because allocation numbers are
/// unique.
InitializedBytes& initialized_bytes(const AllocationView&);

/// Whether a read of device memory is a finding: none of the bytes is initialized.
bool is_uninitialized(InitializedBytes&, std::uintptr_t address, std::size_t offset,
                      std::size_t bytes);

/// Whether malloc in a kernel returned this address; set by the device heap.
extern bool (*g_device_heap_contains)(std::uintptr_t address);

}  // namespace cucpu
