// cpu/device/memory_pool.hpp: memory pools: stream-ordered allocation. A block freed in a stream
// may be handed out again in the same stream at once, in another stream when the free is over, when
// that stream waits for it anyway, or with a wait queued in between.
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

  /// Memory that operations queued in `stream` from now on may use. Fails with code 2.
  CUdeviceptr allocate(std::size_t bytes, Stream& stream);
  /// Gives memory back behind all work queued in `stream` (null: nothing can use it any more).
  /// Cannot fail: where the pool cannot keep the memory, it goes back to the device.
  void free(const AllocationRef& record, Stream* stream) noexcept;
  /// Returns memory that nobody uses to the system until at most `keep` bytes are held.
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
    Ref<Stream> stream;  // where it was freed; null when over
    std::uint64_t number = 0;
    [[nodiscard]] bool is_over() const { return !stream || stream->completed() >= number; }
  };
  /// Free blocks of one size, those that nothing can use any more apart: most of the time they are
  /// all that is asked for, and looking at hundreds of others takes long.
  struct Bin {
    std::vector<Block> over, pending;
  };
  AllocationRef new_block(std::size_t bytes);
  /// A free block; one that another stream's work may still use only with `may_wait`.
  bool take_free(std::size_t bytes, Stream& stream, Block& out, bool may_wait);
  bool find_free(Bin& bin, Stream& stream, Block& out, bool may_wait);
  Bin& bin_of(std::size_t bytes);
  void trim_locked(std::size_t keep) noexcept;

  const bool imported_ = false;
  std::shared_ptr<SharedArena> arena_;  // only pools that can be exported have one
  std::mutex mutex_;
  std::vector<Bin> free_;  // by size class
  std::map<std::uintptr_t, Block> used_;
  int follow_events_ = 1, opportunistic_ = 1, internal_dependencies_ = 1;
  std::uint64_t threshold_ = 0, reserved_ = 0, reserved_high_ = 0, in_use_ = 0, in_use_high_ = 0;
  std::map<int, CUmemAccess_flags> access_;
};

/// cuMemFree of pool memory: back to its pool, with no work left that could use it.
void free_pool_memory(CUdeviceptr address);

/// Gives memory back once the stream's work up to `number` is over; waits for that only where
/// nothing can be queued.
void drop_after(Stream& stream, const AllocationRef& memory, std::uint64_t number) noexcept;

/// The pool an allocation came from, or null.
CUmemoryPool pool_handle(const Allocation& allocation);

/// True for managed memory, also for what comes from a pool of managed memory.
bool is_managed(const Allocation& allocation);

MemPool& default_pool(Device& device);
MemPool& current_pool(Device& device);

/// Called by everything that waits: pools give back what they hold over their threshold, and what
/// waited for queued work ends.
void trim_pools_after_wait() noexcept;
/// Gives back all that pools hold free, whatever they were told to keep: other allocations need it.
/// False: they held nothing.
bool trim_all_pools() noexcept;

}  // namespace cucpu::driver
