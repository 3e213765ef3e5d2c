// cpu/api/array.hpp: CUDA arrays: pitched memory with a format. Layers, cube faces and depth are
// slices.
#pragma once

#include <functional>
#include <vector>

#include "api/context.hpp"

namespace cucpu::driver {

class MipmappedArray;

/// Where an array's memory comes from: of as many bytes as asked for; not in the map.
using ArrayMemory = std::function<AllocationRef(std::size_t bytes)>;

/// Bytes of one channel, 0 for a format the device does not have.
std::size_t format_bytes(CUarray_format format) noexcept;
/// Channels a packed format brings along (CU_AD_FORMAT_UNORM_INT8X4: 4), 0 for the plain formats.
unsigned format_channels(CUarray_format format) noexcept;

inline constexpr std::size_t kTileBytes = std::size_t{64}
                                          << 10;  ///< what sparse arrays are mapped in

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

  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
  [[nodiscard]] bool is_sparse() const noexcept { return desc.Flags & CUDA_ARRAY3D_SPARSE; }
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
