// cpu/api/array.hpp: CUDA arrays: pitched memory with a format. Layers, cube faces and depth are slices.
#pragma once

#include <vector>

#include "api/context.hpp"

namespace cucpu::driver {

class MipmappedArray;

/// Bytes of one channel, 0 for a format the device does not have.
std::size_t format_bytes(CUarray_format format) noexcept;
/// Channels a packed format brings along (CU_AD_FORMAT_UNORM_INT8X4: 4), 0 for the plain formats.
unsigned format_channels(CUarray_format format) noexcept;

class Array final : public Handled<Array, CUarray, Kind::array>, public ContextResource {
 public:
  /// Owns its memory unless `inside` gives a place in a mipmapped array's.
  Array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, char* inside, Object* owner);
  ~Array() override;
  void context_gone() noexcept override { retire(); }

  const CUDA_ARRAY3D_DESCRIPTOR desc;
  const std::size_t element;        ///< bytes of one element, all channels
  std::size_t width, height, slices;  ///< in elements; at least 1
  std::size_t pitch, slice_bytes;
  char* data = nullptr;

  [[nodiscard]] std::size_t bytes() const noexcept { return slice_bytes * slices; }
  [[nodiscard]] bool is_level() const noexcept { return static_cast<bool>(owner_); }
  [[nodiscard]] Context& context() const noexcept { return *context_; }

 private:
  Ref<Context> context_;
  Ref<Object> owner_;
  AllocationRef memory_;
};

class MipmappedArray final : public Handled<MipmappedArray, CUmipmappedArray, Kind::mipmap>, public ContextResource {
 public:
  MipmappedArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& desc, unsigned levels);
  ~MipmappedArray() override;
  void context_gone() noexcept override { retire(); }
  CUarray level_handle(unsigned level);  ///< made at first use, ends with the mipmapped array
  void drop_levels() noexcept;

  const CUDA_ARRAY3D_DESCRIPTOR desc;
  struct Level {
    CUDA_ARRAY3D_DESCRIPTOR desc;
    char* data;
    std::size_t pitch, slice_bytes;
  };
  std::vector<Level> levels;
  std::size_t bytes = 0;

 private:
  Ref<Context> context_;
  AllocationRef memory_;
  std::mutex mutex_;
  std::vector<CUarray> handles_;
};

}  // namespace cucpu::driver
