// SPDX-License-Identifier: Apache-2.0
// cpu/device/array.hpp: CUDA arrays: pitched memory with a format. Layers, cube faces and depth are
// slices.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/device/context.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/engine/runtime/texture.hpp"

namespace cucpu::driver {

class MipmappedArray;

/// Allocates the memory of an array; the record is not in the map.
using ArrayMemory = std::function<AllocationRef(std::size_t bytes)>;

/// Bytes of one channel; 0 for an unsupported format.
std::size_t format_bytes(CUarray_format format) noexcept;
/// Channels of a packed format (4 for CU_AD_FORMAT_UNORM_INT8X4); 0 for other formats.
unsigned format_channels(CUarray_format format) noexcept;

/// The memory layout of an array or of one mipmap level.
struct ArrayLayout {
  explicit ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& desc);
  /// The layout of a mipmap level. Sparse levels have the tile size of the base until a level is
  /// smaller than a tile.
  ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& desc, const ArrayLayout& base, bool in_tail);
  std::size_t element, pitch, rows, slice_bytes, slices;
  std::size_t tile_width = 0,
              tile_height = 0;  ///< sparse arrays: elements of a tile, which is contiguous; depth 1
  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
};

/// The tiles with mapped memory, of an array without memory of its own (sparse, or with deferred
/// mapping).
class TileSet {
 public:
  TileSet(char* base, std::size_t bytes)
      : base{base}, mapped{std::make_unique<std::atomic<std::uint8_t>[]>(bytes / kTileBytes)} {}
  void mark(const char* at, std::size_t bytes, bool there) noexcept {
    const std::size_t first = static_cast<std::size_t>(at - base) / kTileBytes;
    for (std::size_t i = 0; i < bytes / kTileBytes; ++i)
      mapped[first + i].store(there, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_mapped(std::uintptr_t address) const noexcept {
    return mapped[(address - reinterpret_cast<std::uintptr_t>(base)) / kTileBytes].load(
               std::memory_order_relaxed) != 0;
  }
  char* const base;
  const std::unique_ptr<std::atomic<std::uint8_t>[]> mapped;
};

/// Lets check mode find the memory of an array by address; without it, it does nothing.
class TrackedArray {
 public:
  TrackedArray() = default;
  /// `tiles`: of an array without memory of its own; a tile without memory reads as zeros.
  explicit TrackedArray(const Allocation& memory, std::shared_ptr<const TileSet> tiles = {});
  TrackedArray(const TrackedArray&) = delete;
  TrackedArray& operator=(TrackedArray&& other) noexcept {
    std::swap(base_, other.base_);
    return *this;
  }
  ~TrackedArray();
  /// Thread-safe.
  static std::optional<AllocationView> find(std::uintptr_t address);
  /// Whether it lies in a tile without memory.
  static bool is_unmapped(std::uintptr_t address);

 private:
  std::uintptr_t base_ = 0;  ///< 0: none
};

/// Flags of arrays without memory of their own.
inline constexpr unsigned kMappedLater = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

class Array final : public Handled<Array, CUarray, Kind::array>, public ContextResource {
 public:
  /// Owns its memory unless `inside` points into the memory of a mipmapped array.
  Array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, const ArrayLayout& layout,
        char* inside, Object* owner);
  ~Array() override;
  void on_context_destroyed() noexcept override { retire(); }

  const CUDA_ARRAY3D_DESCRIPTOR desc;
  std::size_t element;                ///< bytes of one element, all channels
  std::size_t width, height, slices;  ///< in elements; at least 1
  std::size_t pitch, slice_bytes;
  char* data = nullptr;
  std::shared_ptr<TileSet> tiles;  ///< null for arrays with memory of their own

  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
  /// bytes() rounded up to whole tiles: the size of an array without memory of its own.
  [[nodiscard]] std::size_t tile_bytes() const noexcept {
    return (bytes() + kTileBytes - 1) / kTileBytes * kTileBytes;
  }
  [[nodiscard]] bool is_level() const noexcept { return static_cast<bool>(owner_); }
  [[nodiscard]] Context& context() const noexcept { return *context_; }

 private:
  Ref<Context> context_;
  Ref<Object> owner_;
  OwnedMemory memory_;
  TrackedArray tracked_;
};

class MipmappedArray final : public Handled<MipmappedArray, CUmipmappedArray, Kind::mipmap>,
                             public ContextResource {
 public:
  /// `place` allocates the memory.
  MipmappedArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, unsigned levels,
                 const ArrayMemory& place);
  ~MipmappedArray() override;
  void on_context_destroyed() noexcept override { retire(); }
  CUarray level_handle(unsigned level);  ///< made at first use, retired with the mipmapped array
  void drop_levels() noexcept;
  [[nodiscard]] Context& context() const noexcept { return *context_; }

  const CUDA_ARRAY3D_DESCRIPTOR desc;
  struct Level {
    CUDA_ARRAY3D_DESCRIPTOR desc;
    char* data;
    ArrayLayout layout;
  };
  std::vector<Level> levels;
  unsigned tail_level =
      0;  ///< sparse: the first level smaller than a tile; the number of levels when there is none
  char* tail = nullptr;  ///< sparse: memory of the levels from tail_level on
  std::size_t tail_bytes = 0;
  std::size_t bytes = 0;
  std::shared_ptr<TileSet> tiles;

 private:
  Ref<Context> context_;
  OwnedMemory memory_;
  TrackedArray tracked_;
  std::mutex mutex_;
  std::vector<CUarray> handles_;
};

/// Checks the description as cuArray3DCreate does; allocates device memory.
Ref<Array> make_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc);

/// Checks the description as cuMipmappedArrayCreate does; without `place` the device's memory is
/// used.
Ref<MipmappedArray> make_mipmapped_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc,
                                         unsigned levels, const ArrayMemory& place = {});

}  // namespace cucpu::driver
