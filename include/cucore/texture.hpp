// SPDX-License-Identifier: Apache-2.0
// cucore/texture.hpp: CUDA arrays, and texture and surface objects for access by kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Format of a channel. The values are those of CUarray_format.
enum class ArrayFormat {
  uint8 = 0x01,
  uint16 = 0x02,
  uint32 = 0x03,
  int8 = 0x08,
  int16 = 0x09,
  int32 = 0x0a,
  float16 = 0x10,
  float32 = 0x20
};
/// Returns the size of a channel in bytes. Throws std::invalid_argument for an invalid value.
[[nodiscard]] CUCORE_EXPORT std::size_t format_bytes(ArrayFormat format);

enum class AddressMode { wrap, clamp, mirror, border };  ///< Handling of out-of-range coordinates.
enum class FilterMode { point, linear };                 ///< Filter mode of texture fetches.
enum class ReadMode { element_type, normalized_float };  ///< Conversion of integers when read.

/// Options for creating an OpaqueArray.
struct OpaqueArrayOptions {
  /// Extents in elements: {width}, {width, height} or {width, height, depth}.
  std::vector<std::size_t> shape;
  ArrayFormat format = ArrayFormat::float32;  ///< format of a channel
  unsigned num_channels = 1;                  ///< number of channels: 1, 2 or 4
  bool is_surface_load_store = false;         ///< surface objects can be created for the array
};

/// Options for creating a MipmappedArray. The extents of a level are half of those of the level
/// before.
struct MipmappedArrayOptions {
  std::vector<std::size_t> shape;             ///< extents of level 0, in elements
  ArrayFormat format = ArrayFormat::float32;  ///< format of a channel
  unsigned num_channels = 1;                  ///< number of channels: 1, 2 or 4
  int num_levels = 1;                         ///< number of levels
  bool is_surface_load_store = false;         ///< surface objects can be created for the levels
};

namespace detail {
/// Owns a driver handle, and the objects that must outlive it.
class DriverObject {
 public:
  using Destroy = CUresult (*)(std::uint64_t handle);
  DriverObject(std::uint64_t handle, Destroy destroy, const char* call,
               std::shared_ptr<const void> needs)
      : handle_{handle}, destroy_{destroy}, call_{call}, needs_{std::move(needs)} {}
  DriverObject(const DriverObject&) = delete;
  DriverObject& operator=(const DriverObject&) = delete;
  CUCORE_EXPORT ~DriverObject();
  /// Destroys the handle. Throws CUDAError if the driver fails. Idempotent.
  CUCORE_EXPORT void destroy();
  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }

 private:
  std::uint64_t handle_;
  Destroy destroy_;  // null: non-owning, or destroyed
  const char* call_;
  std::shared_ptr<const void> needs_;
};

}  // namespace detail

/// Base class of owners of a driver object. Copies share the object; the last one destroys it.
class CUCORE_EXPORT DriverObjectOwner {
 public:
  /// Returns whether close() was called.
  [[nodiscard]] bool is_closed() const noexcept { return object_ == nullptr; }
  /// Releases the object, and destroys it unless another owner (a copy, or the texture of an array)
  /// uses it. Idempotent. Throws CUDAError if the driver fails.
  void close();
  /// Returns an owner that keeps the object alive, also after close(). Throws InvalidStateError if
  /// closed.
  [[nodiscard]] std::shared_ptr<const void> hold() const;

 protected:
  DriverObjectOwner(std::shared_ptr<detail::DriverObject> object, const char* what)
      : object_{std::move(object)}, what_{what} {}
  [[nodiscard]] std::uint64_t raw() const noexcept { return object_ ? object_->handle() : 0; }
  [[nodiscard]] std::uint64_t open() const;  // the handle; throws InvalidStateError if closed

 private:
  std::shared_ptr<detail::DriverObject> object_;
  const char* what_;
};

/// Owns a CUDA array, which has an opaque, device-specific layout. Copies share the array; the last
/// one destroys it. The memory that is copied from or to has contiguous rows.
class CUCORE_EXPORT OpaqueArray : public DriverObjectOwner {
 public:
  /// Creates an array in the current context. Throws std::invalid_argument for invalid options.
  explicit OpaqueArray(const OpaqueArrayOptions& options);

  /// Returns the driver handle, or null if closed.
  [[nodiscard]] CUarray handle() const noexcept { return reinterpret_cast<CUarray>(raw()); }
  /// Returns the options of the array.
  [[nodiscard]] const OpaqueArrayOptions& options() const noexcept { return options_; }
  /// Returns the size of an element (all channels) in bytes.
  [[nodiscard]] std::size_t element_bytes() const;
  /// Returns the size of all elements in bytes, without padding.
  [[nodiscard]] std::size_t size_bytes() const;

  /// Copies the first size_bytes() bytes of `source` to the array, in stream order. Throws
  /// std::invalid_argument if `source` is smaller.
  void copy_from(BufferRef source, StreamRef stream) const;
  /// Copies the array to the first size_bytes() bytes of `destination`, in stream order. Throws
  /// std::invalid_argument if `destination` is smaller.
  void copy_to(BufferRef destination, StreamRef stream) const;
  /// Copies from host memory, which must stay valid until the copy is complete.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
  void copy_from(std::span<T, N> source, StreamRef stream) const {
    copy_from(BufferRef{std::as_bytes(source)}, stream);
  }
  /// Copies to host memory, which must stay valid until the copy is complete.
  template <class T, std::size_t N>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_const_v<T>) void copy_to(std::span<T, N> destination, StreamRef stream) const {
    copy_to(BufferRef{std::as_bytes(destination)}, stream);
  }

 private:
  friend class MipmappedArray;
  OpaqueArray(std::shared_ptr<detail::DriverObject> object, OpaqueArrayOptions options);
  void copy(BufferRef linear, bool to_array, StreamRef stream) const;
  OpaqueArrayOptions options_;
};

/// Owns a mipmapped CUDA array.
class CUCORE_EXPORT MipmappedArray : public DriverObjectOwner {
 public:
  /// Creates an array in the current context. Throws std::invalid_argument for invalid options.
  explicit MipmappedArray(const MipmappedArrayOptions& options);

  /// Returns the driver handle, or null if closed.
  [[nodiscard]] CUmipmappedArray handle() const noexcept {
    return reinterpret_cast<CUmipmappedArray>(raw());
  }
  /// Returns the options of the array.
  [[nodiscard]] const MipmappedArrayOptions& options() const noexcept { return options_; }
  /// Returns a level as an array; level 0 is the largest. The result keeps this array alive. Throws
  /// std::invalid_argument if the level does not exist.
  [[nodiscard]] OpaqueArray get_level(int level) const;

 private:
  MipmappedArrayOptions options_;
};

/// The resource that a texture or surface accesses. Keeps an array alive, but not the memory of a
/// buffer, which must outlive the texture.
class CUCORE_EXPORT ResourceDescriptor {
 public:
  /// Describes an array.
  [[nodiscard]] static ResourceDescriptor from_opaque_array(const OpaqueArray& array);
  /// Describes a mipmapped array with all its levels.
  [[nodiscard]] static ResourceDescriptor from_mipmapped_array(const MipmappedArray& array);
  /// Describes linear memory. Throws std::invalid_argument if the memory is empty or its size is
  /// not a multiple of the element size.
  [[nodiscard]] static ResourceDescriptor from_linear(BufferRef memory, ArrayFormat format,
                                                      unsigned num_channels);
  /// Describes 2D memory with a row pitch of `pitch_bytes`; `width` and `height` are in elements.
  /// Throws std::invalid_argument if the memory or the pitch is too small, or an extent is 0.
  [[nodiscard]] static ResourceDescriptor from_pitch2d(BufferRef memory, ArrayFormat format,
                                                       unsigned num_channels, std::size_t width,
                                                       std::size_t height, std::size_t pitch_bytes);

  /// Returns the resource type.
  [[nodiscard]] CUresourcetype type() const noexcept { return raw_.resType; }
  /// Returns the format of a channel.
  [[nodiscard]] ArrayFormat format() const noexcept { return format_; }
  /// Returns the driver's structure.
  [[nodiscard]] const CUDA_RESOURCE_DESC& raw() const noexcept { return raw_; }
  /// Returns the owner of the array, or null for memory.
  [[nodiscard]] const std::shared_ptr<const void>& needs() const noexcept { return needs_; }
  /// Returns whether surface objects can be created for the array.
  [[nodiscard]] bool is_surface_load_store() const noexcept { return is_surface_load_store_; }

 private:
  ResourceDescriptor() = default;
  CUDA_RESOURCE_DESC raw_{};
  ArrayFormat format_ = ArrayFormat::float32;
  bool is_surface_load_store_ = false;
  std::shared_ptr<const void> needs_;
};

/// Options for creating a TextureObject.
struct TextureObjectOptions {
  /// Address mode of each dimension.
  std::array<AddressMode, 3> address_mode{AddressMode::clamp, AddressMode::clamp,
                                          AddressMode::clamp};
  FilterMode filter_mode = FilterMode::point;         ///< filter mode within a level
  ReadMode read_mode = ReadMode::element_type;        ///< conversion of integers
  bool normalized_coords = false;                     ///< coordinates are in [0, 1)
  bool srgb = false;                                  ///< converts sRGB to linear values
  bool disable_trilinear_optimization = false;        ///< full trilinear filtering between levels
  bool seamless_cubemap = false;                      ///< filters across the faces of a cubemap
  unsigned max_anisotropy = 0;                        ///< maximum anisotropy ratio
  FilterMode mipmap_filter_mode = FilterMode::point;  ///< filter mode between levels
  float mipmap_level_bias = 0;                        ///< offset of the mipmap level
  float min_mipmap_level_clamp = 0;                   ///< lowest mipmap level (largest extents)
  float max_mipmap_level_clamp = 0;                   ///< highest mipmap level (smallest extents)
  std::array<float, 4> border_color{};                ///< color for AddressMode::border
};

/// Owns a texture object, which can be passed to a kernel (cudaTextureObject_t). Keeps the array
/// alive.
class CUCORE_EXPORT TextureObject : public DriverObjectOwner {
 public:
  /// Creates a texture object in the current context. Throws CUDAError if the driver fails.
  explicit TextureObject(const ResourceDescriptor& resource,
                         const TextureObjectOptions& options = {});
  /// Keeps `owner` alive instead of `resource.needs()`, for example a buffer's memory.
  TextureObject(const ResourceDescriptor& resource, const TextureObjectOptions& options,
                std::shared_ptr<const void> owner);
  /// Returns the driver handle, or 0 if closed.
  [[nodiscard]] CUtexObject handle() const noexcept { return raw(); }
  /// Returns the value that launch() passes to the kernel. Throws InvalidStateError if closed.
  [[nodiscard]] CUtexObject kernel_argument() const { return open(); }
};

/// Owns a surface object, which can be passed to a kernel (cudaSurfaceObject_t). Keeps the array
/// alive.
class CUCORE_EXPORT SurfaceObject : public DriverObjectOwner {
 public:
  /// Creates a surface object in the current context. Throws std::invalid_argument unless the
  /// resource is an array with is_surface_load_store.
  explicit SurfaceObject(const ResourceDescriptor& resource);
  /// Returns the driver handle, or 0 if closed.
  [[nodiscard]] CUsurfObject handle() const noexcept { return raw(); }
  /// Returns the value that launch() passes to the kernel. Throws InvalidStateError if closed.
  [[nodiscard]] CUsurfObject kernel_argument() const { return open(); }
};

}  // namespace cucore
