// SPDX-License-Identifier: Apache-2.0
// texture.cpp: arrays, textures and surfaces.
#include "cucore/texture.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "core/blocking_calls.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/copy.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

// ---- owners

void detail::DriverObject::destroy() {
  const Destroy destroy = std::exchange(destroy_, nullptr);
  if (destroy == nullptr || !may_free()) return;
  // The call waits for running kernels, and so for host functions that precede them.
  const Waiting waiting;
  const RelaxedCaptureScope relaxed;
  check(destroy(handle_), call_);
}

detail::DriverObject::~DriverObject() {
  try {
    destroy();
  } catch (...) {  // destructors do not throw; close() reports errors
  }
}

void DriverObjectOwner::close() {
  const auto object = std::exchange(object_, nullptr);
  if (object.use_count() == 1) object->destroy();
}

std::shared_ptr<const void> DriverObjectOwner::hold() const {
  static_cast<void>(open());
  return object_;
}

std::uint64_t DriverObjectOwner::open() const {
  if (object_ == nullptr) throw InvalidStateError{std::string{"the "} + what_ + " is closed"};
  return object_->handle();
}

namespace {

template <class Handle>
std::uint64_t number(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

void check_channels(unsigned channels) {
  if (channels != 1 && channels != 2 && channels != 4) {
    throw std::invalid_argument{"num_channels must be 1, 2 or 4, not " + std::to_string(channels)};
  }
}

template <class Options>
CUDA_ARRAY3D_DESCRIPTOR descriptor_of(const Options& options) {
  const auto& shape = options.shape;
  if (shape.empty() || shape.size() > 3 ||
      std::ranges::find(shape, std::size_t{0}) != shape.end()) {
    std::string text;
    for (const std::size_t extent : shape)
      text += (text.empty() ? "" : ", ") + std::to_string(extent);
    throw std::invalid_argument{
        "shape must be one to three positive ints (width, height, depth), not (" + text + ")"};
  }
  check_channels(options.num_channels);
  static_cast<void>(format_bytes(options.format));
  CUDA_ARRAY3D_DESCRIPTOR d{};
  d.Width = shape[0];
  d.Height = shape.size() > 1 ? shape[1] : 0;
  d.Depth = shape.size() > 2 ? shape[2] : 0;
  d.Format = static_cast<CUarray_format>(options.format);
  d.NumChannels = options.num_channels;
  d.Flags = options.is_surface_load_store ? CUDA_ARRAY3D_SURFACE_LDST : 0;
  return d;
}

std::shared_ptr<detail::DriverObject> create_array(const OpaqueArrayOptions& options) {
  const CUDA_ARRAY3D_DESCRIPTOR d = descriptor_of(options);
  CUarray array = nullptr;
  CUCORE_CALL(cuArray3DCreate(&array, &d));
  return std::make_shared<detail::DriverObject>(
      number(array),
      [](std::uint64_t h) { return driver().cuArrayDestroy(reinterpret_cast<CUarray>(h)); },
      "cuArrayDestroy", nullptr);
}

std::shared_ptr<detail::DriverObject> create_mipmapped(const MipmappedArrayOptions& options) {
  const CUDA_ARRAY3D_DESCRIPTOR d = descriptor_of(options);
  const auto most = static_cast<int>(std::bit_width(std::ranges::max(options.shape)));
  if (options.num_levels < 1 || options.num_levels > most) {
    throw std::invalid_argument{"num_levels must be in 1.." + std::to_string(most) +
                                " for this shape, not " + std::to_string(options.num_levels)};
  }
  CUmipmappedArray array = nullptr;
  CUCORE_CALL(cuMipmappedArrayCreate(&array, &d, static_cast<unsigned>(options.num_levels)));
  return std::make_shared<detail::DriverObject>(
      number(array),
      [](std::uint64_t h) {
        return driver().cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(h));
      },
      "cuMipmappedArrayDestroy", nullptr);
}

CUDA_TEXTURE_DESC description_of(const TextureObjectOptions& o, ArrayFormat format) {
  CUDA_TEXTURE_DESC t{};
  for (std::size_t i = 0; i < o.address_mode.size(); ++i)
    t.addressMode[i] = static_cast<CUaddress_mode>(o.address_mode[i]);
  t.filterMode = static_cast<CUfilter_mode>(o.filter_mode);
  const bool is_float = format == ArrayFormat::float16 || format == ArrayFormat::float32;
  if (o.read_mode == ReadMode::element_type && !is_float) t.flags |= CU_TRSF_READ_AS_INTEGER;
  if (o.normalized_coords) t.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (o.srgb) t.flags |= CU_TRSF_SRGB;
  if (o.disable_trilinear_optimization) t.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (o.seamless_cubemap) t.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  t.maxAnisotropy = o.max_anisotropy;
  t.mipmapFilterMode = static_cast<CUfilter_mode>(o.mipmap_filter_mode);
  t.mipmapLevelBias = o.mipmap_level_bias;
  t.minMipmapLevelClamp = o.min_mipmap_level_clamp;
  t.maxMipmapLevelClamp = o.max_mipmap_level_clamp;
  std::ranges::copy(o.border_color, t.borderColor);
  return t;
}

std::shared_ptr<detail::DriverObject> create_texture(const ResourceDescriptor& resource,
                                                     const TextureObjectOptions& options,
                                                     std::shared_ptr<const void> owner) {
  const CUDA_TEXTURE_DESC t = description_of(options, resource.format());
  CUtexObject object = 0;
  CUCORE_CALL(cuTexObjectCreate(&object, &resource.raw(), &t, nullptr));
  return std::make_shared<detail::DriverObject>(
      object, [](std::uint64_t h) { return driver().cuTexObjectDestroy(h); }, "cuTexObjectDestroy",
      std::move(owner));
}

std::shared_ptr<detail::DriverObject> create_surface(const ResourceDescriptor& resource) {
  if (resource.type() != CU_RESOURCE_TYPE_ARRAY) {
    throw std::invalid_argument{
        std::string{"a surface is made of a resource from from_opaque_array(), not of a "} +
        (resource.type() == CU_RESOURCE_TYPE_LINEAR    ? "linear"
         : resource.type() == CU_RESOURCE_TYPE_PITCH2D ? "pitch2d"
                                                       : "mipmapped") +
        " one"};
  }
  if (!resource.is_surface_load_store()) {
    throw std::invalid_argument{
        "a surface needs an array made with is_surface_load_store set to true"};
  }
  CUsurfObject object = 0;
  CUCORE_CALL(cuSurfObjectCreate(&object, &resource.raw()));
  return std::make_shared<detail::DriverObject>(
      object, [](std::uint64_t h) { return driver().cuSurfObjectDestroy(h); },
      "cuSurfObjectDestroy", resource.needs());
}

}  // namespace

std::size_t format_bytes(ArrayFormat format) {
  switch (format) {
    case ArrayFormat::uint8:
    case ArrayFormat::int8:
      return 1;
    case ArrayFormat::uint16:
    case ArrayFormat::int16:
    case ArrayFormat::float16:
      return 2;
    case ArrayFormat::uint32:
    case ArrayFormat::int32:
    case ArrayFormat::float32:
      return 4;
  }
  throw std::invalid_argument{std::to_string(static_cast<int>(format)) +
                              " is no ArrayFormat: use uint8, uint16, uint32, int8, int16, int32, "
                              "float16 or float32"};
}

// ---- arrays

OpaqueArray::OpaqueArray(const OpaqueArrayOptions& options)
    : OpaqueArray{create_array(options), options} {}

OpaqueArray::OpaqueArray(std::shared_ptr<detail::DriverObject> object, OpaqueArrayOptions options)
    : DriverObjectOwner{std::move(object), "OpaqueArray"}, options_{std::move(options)} {}

std::size_t OpaqueArray::element_bytes() const {
  return format_bytes(options_.format) * options_.num_channels;
}

std::size_t OpaqueArray::size_bytes() const {
  std::size_t total = element_bytes();
  for (const std::size_t extent : options_.shape) total *= extent;
  return total;
}

void OpaqueArray::copy(BufferRef linear, bool to_array, StreamRef stream) const {
  const CopyEnd image{0, reinterpret_cast<CUarray>(open())};
  if (linear.size() < size_bytes()) {
    throw std::invalid_argument{"the array has " + std::to_string(size_bytes()) +
                                " bytes, the other side only " + std::to_string(linear.size())};
  }
  const auto& shape = options_.shape;
  const CopyEnd other{linear.handle()};
  const CUDA_MEMCPY3D params =
      copy_params(to_array ? image : other, to_array ? other : image,
                  {shape[0] * element_bytes(), shape.size() > 1 ? shape[1] : 1,
                   shape.size() > 2 ? shape[2] : 1});
  CUCORE_CALL(cuMemcpy3DAsync(&params, stream.handle()));
}

void OpaqueArray::copy_from(BufferRef source, StreamRef stream) const {
  copy(source, true, stream);
}
void OpaqueArray::copy_to(BufferRef destination, StreamRef stream) const {
  copy(destination, false, stream);
}

MipmappedArray::MipmappedArray(const MipmappedArrayOptions& options)
    : DriverObjectOwner{create_mipmapped(options), "MipmappedArray"}, options_{options} {}

OpaqueArray MipmappedArray::get_level(int level) const {
  if (level < 0 || level >= options_.num_levels) {
    throw std::invalid_argument{"level must be in 0.." + std::to_string(options_.num_levels - 1) +
                                ", not " + std::to_string(level)};
  }
  CUarray array = nullptr;
  CUCORE_CALL(cuMipmappedArrayGetLevel(&array, reinterpret_cast<CUmipmappedArray>(open()),
                                       static_cast<unsigned>(level)));
  OpaqueArrayOptions options{options_.shape, options_.format, options_.num_channels,
                             options_.is_surface_load_store};
  for (std::size_t& extent : options.shape) extent = std::max<std::size_t>(1, extent >> level);
  // A mipmap level is destroyed with its array.
  return {std::make_shared<detail::DriverObject>(number(array), nullptr, "", hold()),
          std::move(options)};
}

// ---- resource descriptors

ResourceDescriptor ResourceDescriptor::from_opaque_array(const OpaqueArray& array) {
  ResourceDescriptor d;
  d.needs_ = array.hold();
  d.raw_.resType = CU_RESOURCE_TYPE_ARRAY;
  d.raw_.res.array.hArray = array.handle();
  d.format_ = array.options().format;
  d.is_surface_load_store_ = array.options().is_surface_load_store;
  return d;
}

ResourceDescriptor ResourceDescriptor::from_mipmapped_array(const MipmappedArray& array) {
  ResourceDescriptor d;
  d.needs_ = array.hold();
  d.raw_.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  d.raw_.res.mipmap.hMipmappedArray = array.handle();
  d.format_ = array.options().format;
  d.is_surface_load_store_ = array.options().is_surface_load_store;
  return d;
}

ResourceDescriptor ResourceDescriptor::from_linear(BufferRef memory, ArrayFormat format,
                                                   unsigned num_channels) {
  check_channels(num_channels);
  const std::size_t element = format_bytes(format) * num_channels;
  if (memory.size() == 0 || memory.size() % element != 0) {
    throw std::invalid_argument{"size_bytes must be a positive multiple of an element, " +
                                std::to_string(element) + " bytes, not " +
                                std::to_string(memory.size())};
  }
  ResourceDescriptor d;
  d.raw_.resType = CU_RESOURCE_TYPE_LINEAR;
  d.raw_.res.linear.devPtr = memory.handle();
  d.raw_.res.linear.format = static_cast<CUarray_format>(format);
  d.raw_.res.linear.numChannels = num_channels;
  d.raw_.res.linear.sizeInBytes = memory.size();
  d.format_ = format;
  return d;
}

ResourceDescriptor ResourceDescriptor::from_pitch2d(BufferRef memory, ArrayFormat format,
                                                    unsigned num_channels, std::size_t width,
                                                    std::size_t height, std::size_t pitch_bytes) {
  check_channels(num_channels);
  if (width == 0 || height == 0) {
    throw std::invalid_argument{"width and height must be at least 1, not " +
                                std::to_string(width) + " and " + std::to_string(height)};
  }
  const std::size_t row = width * format_bytes(format) * num_channels;
  if (pitch_bytes < row) {
    throw std::invalid_argument{
        "pitch_bytes is smaller than a row: " + std::to_string(pitch_bytes) + ", but a row has " +
        std::to_string(row) + " bytes"};
  }
  if (pitch_bytes != 0 && height > memory.size() / pitch_bytes) {
    throw std::invalid_argument{
        "the buffer is smaller than height rows: " + std::to_string(memory.size()) +
        " bytes, but " + std::to_string(height) + " rows of " + std::to_string(pitch_bytes)};
  }
  ResourceDescriptor d;
  d.raw_.resType = CU_RESOURCE_TYPE_PITCH2D;
  d.raw_.res.pitch2D.devPtr = memory.handle();
  d.raw_.res.pitch2D.format = static_cast<CUarray_format>(format);
  d.raw_.res.pitch2D.numChannels = num_channels;
  d.raw_.res.pitch2D.width = width;
  d.raw_.res.pitch2D.height = height;
  d.raw_.res.pitch2D.pitchInBytes = pitch_bytes;
  d.format_ = format;
  return d;
}

// ---- texture and surface objects

TextureObject::TextureObject(const ResourceDescriptor& resource,
                             const TextureObjectOptions& options)
    : TextureObject{resource, options, resource.needs()} {}

TextureObject::TextureObject(const ResourceDescriptor& resource,
                             const TextureObjectOptions& options, std::shared_ptr<const void> owner)
    : DriverObjectOwner{create_texture(resource, options, std::move(owner)), "TextureObject"} {}

SurfaceObject::SurfaceObject(const ResourceDescriptor& resource)
    : DriverObjectOwner{create_surface(resource), "SurfaceObject"} {}

}  // namespace cucore
