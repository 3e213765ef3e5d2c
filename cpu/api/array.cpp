// cuArray* and cuMipmappedArray*.
#include "api/array.hpp"

#include <algorithm>

#include "api/capture.hpp"
#include "api/guard.hpp"

namespace cucpu::driver {

std::size_t format_bytes(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

unsigned format_channels(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1: return 1;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2: return 2;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4: return 4;
    default: return 0;
  }
}

namespace {

constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                                 CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
                                 CUDA_ARRAY3D_COLOR_ATTACHMENT;

std::size_t round_up(std::size_t value, std::size_t align) { return (value + align - 1) / align * align; }

void check(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  require(d.Width > 0 && format_bytes(d.Format) > 0);
  require(d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4);
  if (const unsigned packed = format_channels(d.Format)) require(d.NumChannels == packed);
  require((d.Flags & ~kKnownFlags) == 0, d.Flags & CUDA_ARRAY3D_SPARSE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
  const bool layered = d.Flags & CUDA_ARRAY3D_LAYERED, cube = d.Flags & CUDA_ARRAY3D_CUBEMAP;
  if (cube) require(d.Width == d.Height && (layered ? d.Depth > 0 && d.Depth % 6 == 0 : d.Depth == 6));
  else if (layered) require(d.Depth > 0);
  else if (d.Depth > 0) require(d.Height > 0);  // 3-D
  if (d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) require(d.Height > 0 && (layered || d.Depth == 0));
  const std::size_t limit = d.Depth > 0 && !layered && !cube ? 16384 : 131072;
  require(d.Width <= limit && d.Height <= 65536 && d.Depth <= 16384);
}

std::size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) { return format_bytes(d.Format) * d.NumChannels; }
std::size_t pitch_of(const CUDA_ARRAY3D_DESCRIPTOR& d) { return round_up(d.Width * element_bytes(d), 64); }
std::size_t rows_of(const CUDA_ARRAY3D_DESCRIPTOR& d) { return std::max<std::size_t>(d.Height, 1); }
std::size_t slices_of(const CUDA_ARRAY3D_DESCRIPTOR& d) { return std::max<std::size_t>(d.Depth, 1); }

void create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& desc) {
  require(out != nullptr);
  Context& context = current_context();
  require_capture_safe();
  check(desc);
  *out = make_object<Array>(context, desc, nullptr, nullptr)->publish();
}

}  // namespace

Array::Array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d, char* inside, Object* owner)
    : desc{d}, element{element_bytes(d)}, width{d.Width}, height{rows_of(d)}, slices{slices_of(d)}, pitch{pitch_of(d)},
      slice_bytes{pitch * height}, context_{&context}, owner_{owner} {
  if (inside) {
    data = inside;
  } else {
    memory_ = allocate_memory(bytes(), 512, &context.device.budget);
    data = reinterpret_cast<char*>(memory_->base);
  }
  context.adopt(*this);
}

Array::~Array() {
  context_->disown(*this);
  MemoryMap::drop(memory_);
}

MipmappedArray::MipmappedArray(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned count)
    : desc{d}, context_{&context} {
  CUDA_ARRAY3D_DESCRIPTOR level = d;
  const bool sliced = d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t pitch = pitch_of(level), slice = pitch * rows_of(level);
    levels.push_back({level, reinterpret_cast<char*>(bytes), pitch, slice});
    bytes += round_up(slice * slices_of(level), 512);
    level.Width = std::max<std::size_t>(level.Width / 2, 1);
    if (level.Height) level.Height = std::max<std::size_t>(level.Height / 2, 1);
    if (level.Depth && !sliced) level.Depth = std::max<std::size_t>(level.Depth / 2, 1);
  }
  memory_ = allocate_memory(bytes, 512, &context.device.budget);
  for (Level& l : levels) l.data = reinterpret_cast<char*>(memory_->base + reinterpret_cast<std::uintptr_t>(l.data));
  handles_.resize(count);
  context.adopt(*this);
}

MipmappedArray::~MipmappedArray() {
  context_->disown(*this);
  MemoryMap::drop(memory_);
}

CUarray MipmappedArray::level_handle(unsigned level) {
  require(level < levels.size());
  const std::lock_guard lock{mutex_};
  CUarray& handle = handles_[level];
  if (!find_object<Array>(handle))
    handle = make_object<Array>(*context_, levels[level].desc, levels[level].data, this)->publish();
  return handle;
}

void MipmappedArray::drop_levels() noexcept {
  const std::lock_guard lock{mutex_};
  for (CUarray& handle : handles_) {
    if (Array* array = find_object<Array>(handle)) array->retire();
    handle = nullptr;
  }
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

extern "C" {

CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* desc) {
  return guarded([&] {
    require(desc != nullptr);
    create(out, {desc->Width, desc->Height, 0, desc->Format, desc->NumChannels, 0});
  });
}

CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc) {
  return guarded([&] {
    require(desc != nullptr);
    create(out, *desc);
  });
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    const Array& array = object_of<Array>(handle);
    *out = {array.desc.Width, array.desc.Height, array.desc.Format, array.desc.NumChannels};
  });
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    *out = object_of<Array>(handle).desc;
  });
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    device_of(dev);
    *out = {object_of<Array>(handle).bytes(), 512, {}};
  });
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUmipmappedArray handle, CUdevice dev) {
  return guarded([&] {
    require(out != nullptr);
    device_of(dev);
    *out = {object_of<MipmappedArray>(handle).bytes, 512, {}};
  });
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  return guarded([&] {
    require(out != nullptr);
    object_of<Array>(handle);
    fail(CUDA_ERROR_INVALID_VALUE);  // no array here is sparse
  });
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUmipmappedArray handle) {
  return guarded([&] {
    require(out != nullptr);
    object_of<MipmappedArray>(handle);
    fail(CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuArrayGetPlane(CUarray* out, CUarray handle, unsigned int) {
  return guarded([&] {
    require(out != nullptr);
    object_of<Array>(handle);
    fail(CUDA_ERROR_INVALID_VALUE);  // planes belong to video formats
  });
}

CUresult cuArrayDestroy(CUarray handle) {
  return guarded([&] {
    Ref<Array> array{&object_of<Array>(handle)};
    require(!array->is_level());
    array->context().synchronize();
    require(array->retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc, unsigned int levels) {
  return guarded([&] {
    require(out && desc);
    Context& context = current_context();
    require_capture_safe();
    check(*desc);
    const std::size_t largest = std::max({desc->Width, desc->Height, desc->Flags & CUDA_ARRAY3D_LAYERED ? 0 : desc->Depth});
    unsigned most = 1;
    while (largest >> most) ++most;
    require(levels > 0);
    *out = make_object<MipmappedArray>(context, *desc, std::min(levels, most))->publish();
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  return guarded([&] {
    require(out != nullptr);
    *out = object_of<MipmappedArray>(handle).level_handle(level);
  });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  return guarded([&] {
    Ref<MipmappedArray> array{&object_of<MipmappedArray>(handle)};
    current_context().synchronize();
    array->drop_levels();
    require(array->retire(), CUDA_ERROR_INVALID_HANDLE);
  });
}

}  // extern "C"
