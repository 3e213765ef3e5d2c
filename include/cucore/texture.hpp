// SPDX-License-Identifier: Apache-2.0
// cucore/texture.hpp: arrays in a layout of the device's own, and the textures and surfaces through
// which kernels read and write them.
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

/// The type of a channel; the values are the driver's (CUarray_format).
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
/// Bytes of one channel. Throws std::invalid_argument for a number that is no format.
[[nodiscard]] CUCORE_EXPORT std::size_t format_bytes(ArrayFormat format);

enum class AddressMode { wrap, clamp, mirror, border };  ///< What lies beyond the edge.
enum class FilterMode { point, linear };                 ///< What lies between elements.
enum class ReadMode { element_type, normalized_float };  ///< What integers are read as.

/// An array: `shape` is {width}, {width, height} or {width, height, depth}.
struct OpaqueArrayOptions {
  std::vector<std::size_t> shape;             ///< in elements
  ArrayFormat format = ArrayFormat::float32;  ///< of a channel
  unsigned num_channels = 1;                  ///< 1, 2 or 4
  bool is_surface_load_store = false;         ///< surfaces can write it
};

/// An array and smaller sizes of it, each half as large as the one before.
struct MipmappedArrayOptions {
  std::vector<std::size_t> shape;             ///< of the largest, in elements
  ArrayFormat format = ArrayFormat::float32;  ///< of a channel
  unsigned num_channels = 1;                  ///< 1, 2 or 4
  int num_levels = 1;                         ///< how many sizes
  bool is_surface_load_store = false;         ///< surfaces can write them
};

namespace detail {
/// A handle of the driver's and what it needs alive; the last of those who share it destroys it.
class DriverObject {
 public:
  using Destroy = CUresult (*)(std::uint64_t handle);
  DriverObject(std::uint64_t handle, Destroy destroy, const char* call,
               std::shared_ptr<const void> needs)
      : handle_{handle}, destroy_{destroy}, call_{call}, needs_{std::move(needs)} {}
  DriverObject(const DriverObject&) = delete;
  DriverObject& operator=(const DriverObject&) = delete;
  CUCORE_EXPORT ~DriverObject();
  /// Destroys it; throws where the driver refuses.
  CUCORE_EXPORT void destroy();
  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }

 private:
  std::uint64_t handle_;
  Destroy destroy_;  // null: a view
  const char* call_;
  std::shared_ptr<const void> needs_;
};

}  // namespace detail

/// What owners of driver objects have in common: a share in one, until close().
class CUCORE_EXPORT DriverObjectOwner {
 public:
  /// True after close().
  [[nodiscard]] bool is_closed() const noexcept { return object_ == nullptr; }
  /// Lets go of it; destroys it where nothing else (a texture of an array) uses it. Does nothing
  /// the second time. Throws CUDAError where the driver refuses.
  void close();
  /// A share in the driver's object, which keeps it after close() too. Throws InvalidStateError
  /// when closed.
  [[nodiscard]] std::shared_ptr<const void> hold() const;

 protected:
  DriverObjectOwner(std::shared_ptr<detail::DriverObject> object, const char* what)
      : object_{std::move(object)}, what_{what} {}
  [[nodiscard]] std::uint64_t raw() const noexcept { return object_ ? object_->handle() : 0; }
  [[nodiscard]] std::uint64_t open() const;  // throws InvalidStateError when closed

 private:
  std::shared_ptr<detail::DriverObject> object_;
  const char* what_;
};

/// An array in a layout of the device's own, made in the current context. Copies share one array,
/// which the last of them destroys. Rows are packed on the other side of a copy.
class CUCORE_EXPORT OpaqueArray : public DriverObjectOwner {
 public:
  /// Throws std::invalid_argument for options that make no array.
  explicit OpaqueArray(const OpaqueArrayOptions& options);

  /// the driver's; null when closed
  [[nodiscard]] CUarray handle() const noexcept { return reinterpret_cast<CUarray>(raw()); }
  /// how it was made
  [[nodiscard]] const OpaqueArrayOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t element_bytes() const;  ///< of one element, all channels
  [[nodiscard]] std::size_t size_bytes() const;     ///< of all elements, rows packed

  /// Fills the array from the first size_bytes() of the source. Throws std::invalid_argument for a
  /// smaller one.
  void copy_from(BufferRef source, StreamRef stream) const;
  /// Copies all of it; the destination has at least size_bytes().
  void copy_to(BufferRef destination, StreamRef stream) const;
  /// The same with values of the host, which must stay until the stream has got there.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
  void copy_from(std::span<T, N> source, StreamRef stream) const {
    copy_from(BufferRef{std::as_bytes(source)}, stream);
  }
  /// The same in the other direction.
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

/// An array and smaller sizes of it, made in the current context.
class CUCORE_EXPORT MipmappedArray : public DriverObjectOwner {
 public:
  /// Throws std::invalid_argument for options that make no array.
  explicit MipmappedArray(const MipmappedArrayOptions& options);

  /// the driver's; null when closed
  [[nodiscard]] CUmipmappedArray handle() const noexcept {
    return reinterpret_cast<CUmipmappedArray>(raw());
  }
  /// how it was made
  [[nodiscard]] const MipmappedArrayOptions& options() const noexcept { return options_; }
  /// One size of it, 0 the largest; it keeps this array alive. Throws std::invalid_argument for a
  /// level that is not there.
  [[nodiscard]] OpaqueArray get_level(int level) const;

 private:
  MipmappedArrayOptions options_;
};

/// What a texture or surface reads. Arrays are kept alive; memory of a buffer is not: it must
/// outlive the texture.
class CUCORE_EXPORT ResourceDescriptor {
 public:
  /// An array.
  [[nodiscard]] static ResourceDescriptor from_opaque_array(const OpaqueArray& array);
  /// An array with all its sizes.
  [[nodiscard]] static ResourceDescriptor from_mipmapped_array(const MipmappedArray& array);
  /// Memory as elements in a row. Throws std::invalid_argument where it holds no elements or a part
  /// of one.
  [[nodiscard]] static ResourceDescriptor from_linear(BufferRef memory, ArrayFormat format,
                                                      unsigned num_channels);
  /// Memory as rows that are `pitch_bytes` apart. Throws std::invalid_argument where the memory or
  /// the pitch is too small, or there are no elements.
  [[nodiscard]] static ResourceDescriptor from_pitch2d(BufferRef memory, ArrayFormat format,
                                                       unsigned num_channels, std::size_t width,
                                                       std::size_t height, std::size_t pitch_bytes);

  [[nodiscard]] CUresourcetype type() const noexcept { return raw_.resType; }  ///< what it is
  [[nodiscard]] ArrayFormat format() const noexcept { return format_; }        ///< of a channel
  /// The driver's own description.
  [[nodiscard]] const CUDA_RESOURCE_DESC& raw() const noexcept { return raw_; }
  /// What it keeps alive.
  [[nodiscard]] const std::shared_ptr<const void>& needs() const noexcept { return needs_; }
  /// Surfaces can write it.
  [[nodiscard]] bool is_surface_load_store() const noexcept { return is_surface_load_store_; }

 private:
  ResourceDescriptor() = default;
  CUDA_RESOURCE_DESC raw_{};
  ArrayFormat format_ = ArrayFormat::float32;
  bool is_surface_load_store_ = false;
  std::shared_ptr<const void> needs_;
};

/// How a texture is read.
struct TextureObjectOptions {
  /// Beyond the edges, per dimension.
  std::array<AddressMode, 3> address_mode{AddressMode::clamp, AddressMode::clamp,
                                          AddressMode::clamp};
  FilterMode filter_mode = FilterMode::point;         ///< between elements
  ReadMode read_mode = ReadMode::element_type;        ///< what integers are read as
  bool normalized_coords = false;                     ///< coordinates go from 0 to 1
  bool srgb = false;                                  ///< values are converted from sRGB
  bool disable_trilinear_optimization = false;        ///< full filtering between sizes
  bool seamless_cubemap = false;                      ///< filtering across faces
  unsigned max_anisotropy = 0;                        ///< samples for slanted surfaces
  FilterMode mipmap_filter_mode = FilterMode::point;  ///< between sizes
  float mipmap_level_bias = 0;                        ///< added to the size asked for
  float min_mipmap_level_clamp = 0;                   ///< the largest size used
  float max_mipmap_level_clamp = 0;                   ///< the smallest size used
  std::array<float, 4> border_color{};                ///< with AddressMode::border
};

/// A texture to pass to a kernel (cudaTextureObject_t), made in the current context. Keeps the
/// array it reads.
class CUCORE_EXPORT TextureObject : public DriverObjectOwner {
 public:
  /// Throws CUDAError where the driver refuses.
  explicit TextureObject(const ResourceDescriptor& resource,
                         const TextureObjectOptions& options = {});
  /// The same with something else to keep alive as long as the texture, such as a buffer's memory.
  TextureObject(const ResourceDescriptor& resource, const TextureObjectOptions& options,
                std::shared_ptr<const void> owner);
  [[nodiscard]] CUtexObject handle() const noexcept { return raw(); }  ///< 0 when closed
  /// What launch() passes. Throws InvalidStateError when closed.
  [[nodiscard]] CUtexObject kernel_argument() const { return open(); }
};

/// A surface to pass to a kernel (cudaSurfaceObject_t), made in the current context. Keeps the
/// array it reads and writes.
class CUCORE_EXPORT SurfaceObject : public DriverObjectOwner {
 public:
  /// Throws std::invalid_argument for what is no array made with is_surface_load_store.
  explicit SurfaceObject(const ResourceDescriptor& resource);
  [[nodiscard]] CUsurfObject handle() const noexcept { return raw(); }  ///< 0 when closed
  /// What launch() passes. Throws InvalidStateError when closed.
  [[nodiscard]] CUsurfObject kernel_argument() const { return open(); }
};

}  // namespace cucore
