// SPDX-License-Identifier: Apache-2.0
// cpu/device/memory_pool.hpp: memory pools: stream-ordered allocation. A block freed in a stream is
// reused in the same stream at once, in another stream when the free is complete, when that stream
// waits for it anyway, or with a wait queued in between.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cpu/device/context.hpp"
#include "cpu/mem/shared_arena.hpp"

namespace cucpu::driver {

class MemPool final : public Handled<MemPool, CUmemoryPool, Kind::pool> {
 public:
  explicit MemPool(const CUmemPoolProps& props, bool is_default = false);
  MemPool(const CUmemPoolProps& props, std::shared_ptr<SharedArena> imported);
  ~MemPool() override;

  const CUmemPoolProps props;
  const bool is_default;
  [[nodiscard]] bool is_imported() const noexcept { return imported_; }
  SharedArena* arena() const noexcept { return arena_.get(); }
  int device() const noexcept {
    return props.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props.location.id : -1;
  }

  /// Allocates memory for operations queued in `stream` from now on. Fails with 2.
  CUdeviceptr allocate(std::size_t bytes, Stream& stream);
  /// Frees memory after all work queued in `stream` (null: no work can use it). Cannot fail: memory
  /// that the pool cannot keep is freed to the device.
  void free(const AllocationRef& record, Stream* stream) noexcept;
  /// Frees unused memory to the system until at most `keep` bytes are held.
  void trim(std::size_t keep) noexcept;
  void trim_to_threshold() noexcept;

  void get_attribute(CUmemPool_attribute attribute, void* value);
  void set_attribute(CUmemPool_attribute attribute, const void* value);
  void set_access(const CUmemAccessDesc& access);
  CUmemAccess_flags access_of(const CUmemLocation& location);

  /// An allocation of an imported pool, mapped at first use.
  CUdeviceptr import_block(std::size_t offset, std::size_t bytes);

 private:
  struct Block {
    AllocationRef memory;
    std::size_t bytes = 0;
    Ref<Stream> stream;  // stream of the free; null when the free is complete
    std::uint64_t number = 0;
    [[nodiscard]] bool is_over() const { return !stream || stream->completed() >= number; }
  };
  /// Free blocks of one size. Blocks with a complete free are stored separately: they serve most
  /// requests, and a scan of hundreds of others is slow.
  struct Bin {
    std::vector<Block> over, pending;
  };
  AllocationRef new_block(std::size_t bytes);
  /// Finds a free block; one that another stream's work may still use only with `may_wait`.
  bool take_free(std::size_t bytes, Stream& stream, Block& out, bool may_wait);
  bool find_free(Bin& bin, Stream& stream, Block& out, bool may_wait);
  Bin& bin_of(std::size_t bytes);
  void trim_locked(std::size_t keep) noexcept;

  const bool imported_ = false;
  std::shared_ptr<SharedArena> arena_;  // null for pools without export
  std::mutex mutex_;
  std::vector<Bin> free_;  // by size class
  std::map<std::uintptr_t, Block> used_;
  int follow_events_ = 1, opportunistic_ = 1, internal_dependencies_ = 1;
  std::uint64_t threshold_ = 0, reserved_ = 0, reserved_high_ = 0, in_use_ = 0, in_use_high_ = 0;
  std::map<int, CUmemAccess_flags> access_;
};

/// cuMemFree of pool memory: returns it to its pool; no work uses it any more.
void free_pool_memory(CUdeviceptr address);

/// Frees memory once the stream's work up to `number` is complete; blocks only when nothing can be
/// queued.
void drop_after(Stream& stream, const AllocationRef& memory, std::uint64_t number) noexcept;

/// The pool of an allocation, or null.
CUmemoryPool pool_handle(const Allocation& allocation);

/// True for managed memory, including memory of a pool of managed memory.
bool is_managed(const Allocation& allocation);

MemPool& default_pool(Device& device);
MemPool& current_pool(Device& device);

/// Called by all waiting calls: pools free memory above their release threshold, and deferred
/// objects are released.
void trim_pools_after_wait() noexcept;
/// Frees all unused memory of all pools, regardless of their thresholds, for other allocations.
/// False when there was none.
bool trim_all_pools() noexcept;

}  // namespace cucpu::driver
