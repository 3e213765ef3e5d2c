// cpu/device/array.hpp: CUDA arrays: pitched memory with a format. Layers, cube faces and depth are
// slices.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/device/context.hpp"
#include "cpu/engine/runtime/texture.hpp"

namespace cucpu::driver {

class MipmappedArray;

/// Where an array's memory comes from: of as many bytes as asked for; not in the map.
using ArrayMemory = std::function<AllocationRef(std::size_t bytes)>;

/// Bytes of one channel, 0 for a format the device does not have.
std::size_t format_bytes(CUarray_format format) noexcept;
/// Channels a packed format brings along (CU_AD_FORMAT_UNORM_INT8X4: 4), 0 for the plain formats.
unsigned format_channels(CUarray_format format) noexcept;

/// Where the parts of one array or level lie in its memory.
struct ArrayLayout {
  explicit ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& desc);
  /// Of a level: sparse ones share the base's tiles until a level is smaller than a tile.
  ArrayLayout(const CUDA_ARRAY3D_DESCRIPTOR& desc, const ArrayLayout& base, bool in_tail);
  std::size_t element, pitch, rows, slice_bytes, slices;
  std::size_t tile_width = 0,
              tile_height = 0;  ///< sparse arrays: elements of a tile, which is contiguous; depth 1
  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
};

/// Which tiles of an array without memory of its own (sparse, or mapped later) have been given
/// some.
class TileSet {
 public:
  TileSet(char* base, std::size_t bytes)
      : base{base}, mapped{std::make_unique<std::atomic<std::uint8_t>[]>(bytes / kTileBytes)} {}
  void mark(const char* at, std::size_t bytes, bool there) noexcept {
    const std::size_t first = static_cast<std::size_t>(at - base) / kTileBytes;
    for (std::size_t i = 0; i < bytes / kTileBytes; ++i)
      mapped[first + i].store(there, std::memory_order_relaxed);
  }
  char* const base;
  const std::unique_ptr<std::atomic<std::uint8_t>[]> mapped;
};

/// What both kinds of arrays without memory of their own have in their flags.
inline constexpr unsigned kMappedLater = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

class Array final : public Handled<Array, CUarray, Kind::array>, public ContextResource {
 public:
  /// Owns its memory unless `inside` gives a place in a mipmapped array's.
  Array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, const ArrayLayout& layout,
        char* inside, Object* owner);
  ~Array() override;
  void context_gone() noexcept override { retire(); }

  const CUDA_ARRAY3D_DESCRIPTOR desc;
  std::size_t element;                ///< bytes of one element, all channels
  std::size_t width, height, slices;  ///< in elements; at least 1
  std::size_t pitch, slice_bytes;
  char* data = nullptr;
  std::shared_ptr<TileSet> tiles;  ///< of arrays that are mapped, and of levels of such

  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
  [[nodiscard]] bool is_level() const noexcept { return static_cast<bool>(owner_); }
  [[nodiscard]] Context& context() const noexcept { return *context_; }

 private:
  Ref<Context> context_;
  Ref<Object> owner_;
  OwnedMemory memory_;
};

class MipmappedArray final : public Handled<MipmappedArray, CUmipmappedArray, Kind::mipmap>,
                             public ContextResource {
 public:
  /// `place` gives the memory, of as many bytes as it is asked for.
  MipmappedArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, unsigned levels,
                 const ArrayMemory& place);
  ~MipmappedArray() override;
  void context_gone() noexcept override { retire(); }
  CUarray level_handle(unsigned level);  ///< made at first use, ends with the mipmapped array
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
      0;                 ///< sparse: the first level smaller than a tile; all levels when none is
  char* tail = nullptr;  ///< sparse: the levels from there on
  std::size_t tail_bytes = 0;
  std::size_t bytes = 0;
  std::shared_ptr<TileSet> tiles;

 private:
  Ref<Context> context_;
  OwnedMemory memory_;
  std::mutex mutex_;
  std::vector<CUarray> handles_;
};

/// Checks the description as cuMipmappedArrayCreate does; without `place` the memory is the
/// device's.
Ref<MipmappedArray> make_mipmapped_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc,
                                         unsigned levels, const ArrayMemory& place = {});

}  // namespace cucpu::driver
