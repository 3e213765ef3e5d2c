// SPDX-License-Identifier: Apache-2.0
// strided_memory_view.cpp: views with shape and strides, and copies between them.
#include "cucore/strided_memory_view.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

using Extents = std::vector<std::int64_t>;

std::string text_of(std::span<const std::int64_t> values) {
  std::string text = "(";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + (values.size() == 1 ? ",)" : ")");
}

/// Returns the DLPack device of a resource's memory.
dlpack::DLDevice device_of(const MemoryResource* resource) {
  if (resource == nullptr) return {dlpack::kDLCUDA, 0};
  const int id = std::max(resource->device_id(), 0);
  if (resource->is_managed()) return {dlpack::kDLCUDAManaged, id};
  if (resource->is_device_accessible() && resource->is_host_accessible())
    return {dlpack::kDLCUDAHost, 0};
  return resource->is_device_accessible() ? dlpack::DLDevice{dlpack::kDLCUDA, id}
                                          : dlpack::DLDevice{dlpack::kDLCPU, 0};
}

struct Dimension {
  std::int64_t count;
  std::int64_t dst;
  std::int64_t src;
};

/// Copies `height` rows of `width` bytes.
void copy_rows(CUdeviceptr dst, std::size_t dst_pitch, CUdeviceptr src, std::size_t src_pitch,
               std::size_t width, std::size_t height, StreamRef stream) {
  CUDA_MEMCPY2D p{};
  p.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.srcDevice = src;
  p.srcPitch = src_pitch;
  p.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  p.dstDevice = dst;
  p.dstPitch = dst_pitch;
  p.WidthInBytes = width;
  p.Height = height;
  CUCORE_CALL(cuMemcpy2DAsync(&p, stream.handle()));
}

}  // namespace

/// Strides wrap if the number of elements exceeds 64 bits; check_layout() rejects such a shape.
std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> shape) {
  Extents strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    static_cast<void>(__builtin_mul_overflow(strides[i], shape[i], &strides[i - 1]));
  return strides;
}

bool is_contiguous(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, shape[i], &expected)) return false;
  }
  return true;
}

void check_layout(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                  std::size_t bits, std::size_t size) {
  const auto is_negative = [](std::int64_t extent) { return extent < 0; };
  if (strides.size() != shape.size() || std::ranges::any_of(shape, is_negative)) {
    throw std::invalid_argument{
        "shape must not be negative, and strides must have one value per dimension: shape " +
        text_of(shape) + ", strides " + text_of(strides)};
  }
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::int64_t last = 0;  // offset of the last element from the first, in elements
  std::int64_t all = 1;  // number of elements; dense strides are valid only if it does not overflow
  bool fits = true;
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    std::int64_t reach = 0;
    fits = !__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) && reach >= 0 &&
           !__builtin_add_overflow(last, reach, &last) &&
           !__builtin_mul_overflow(all, shape[i], &all);
  }
  std::size_t total = 0;
  fits = fits && !__builtin_mul_overflow(static_cast<std::size_t>(last) + 1, bits, &total) &&
         total / 8 + (total % 8 != 0) <= size;
  if (!fits) {
    throw std::invalid_argument{"the view reaches outside the buffer, which has " +
                                std::to_string(size) + " bytes: shape " + text_of(shape) +
                                ", strides " + text_of(strides) + ", elements of " +
                                std::to_string(bits / 8) + " bytes"};
  }
}

void copy_strided(CUdeviceptr dst, std::span<const std::int64_t> dst_strides, CUdeviceptr src,
                  std::span<const std::int64_t> src_strides, std::span<const std::int64_t> shape,
                  std::size_t bits, StreamRef stream) {
  std::vector<Dimension> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return;
    if (shape[i] != 1) dims.push_back({shape[i], dst_strides[i], src_strides[i]});
  }
  // In the order of the destination's memory. Dimensions that are packed on both sides form one
  // run.
  std::ranges::stable_sort(dims, std::ranges::greater{}, &Dimension::dst);
  std::int64_t run = 1;
  while (!dims.empty() && dims.back().dst == run && dims.back().src == run) {
    run *= dims.back().count;
    dims.pop_back();
  }
  const std::size_t run_bits = static_cast<std::size_t>(run) * bits;
  if (dims.empty()) {
    CUCORE_CALL(cuMemcpyAsync(dst, src, (run_bits + 7) / 8, stream.handle()));
    return;
  }
  if (bits % 8 != 0) {
    throw std::domain_error{
        "elements smaller than a byte cannot be copied one by one: make both views contiguous"};
  }
  const auto item = static_cast<std::int64_t>(bits / 8);
  const auto width = static_cast<std::int64_t>(run_bits / 8);
  const Dimension rows = dims.back();
  dims.pop_back();
  if (rows.dst * item < width || rows.src * item < width) {
    throw std::domain_error{
        "views that overlap themselves or run backwards cannot be copied: strides " +
        text_of(src_strides) + " to " + text_of(dst_strides)};
  }
  Extents at(dims.size(), 0);  // index over the outer dimensions
  while (true) {
    CUdeviceptr to = dst;
    CUdeviceptr from = src;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      to += static_cast<CUdeviceptr>(at[i] * dims[i].dst * item);
      from += static_cast<CUdeviceptr>(at[i] * dims[i].src * item);
    }
    copy_rows(to, static_cast<std::size_t>(rows.dst * item), from,
              static_cast<std::size_t>(rows.src * item), static_cast<std::size_t>(width),
              static_cast<std::size_t>(rows.count), stream);
    std::size_t i = dims.size();
    while (i > 0 && ++at[i - 1] == dims[i - 1].count) at[--i] = 0;
    if (i == 0) return;
  }
}

StridedMemoryView StridedMemoryView::from_buffer(const Buffer& buffer, Extents shape,
                                                 dlpack::DLDataType dtype, Extents strides) {
  if (strides.empty()) strides = dense_strides(shape);
  check_layout(shape, strides, std::size_t{dtype.bits} * dtype.lanes, buffer.size());
  StridedMemoryView view;
  view.ptr_ = buffer.handle();
  view.shape_ = std::move(shape);
  view.strides_ = std::move(strides);
  view.dtype_ = dtype;
  view.device_ = device_of(buffer.memory_resource().get());
  return view;
}

StridedMemoryView StridedMemoryView::from_dlpack(dlpack::DLManagedTensorVersioned* managed) {
  dlpack::ImportedTensor imported = dlpack::import_tensor(managed);
  const dlpack::DLTensor& t = imported.tensor;
  StridedMemoryView view;
  view.ptr_ = reinterpret_cast<CUdeviceptr>(t.data) + t.byte_offset;
  view.shape_.assign(t.shape, t.shape + t.ndim);
  if (t.strides != nullptr)
    view.strides_.assign(t.strides, t.strides + t.ndim);
  else
    view.strides_ = dense_strides(view.shape_);
  view.dtype_ = t.dtype;
  view.device_ = t.device;
  view.readonly_ = imported.readonly;
  view.owner_ = std::move(imported.owner);
  return view;
}

dlpack::DLManagedTensorVersioned* StridedMemoryView::to_dlpack(std::shared_ptr<void> owner) const {
  Extents shape = shape_;
  Extents strides = strides_;
  dlpack::DLTensor t{};
  t.data = reinterpret_cast<void*>(ptr_);
  t.device = device_;
  t.ndim = static_cast<std::int32_t>(shape.size());
  t.dtype = dtype_;
  t.shape = shape.data();
  t.strides = strides.data();
  auto* const made = dlpack::export_tensor<dlpack::DLManagedTensorVersioned>(
      t, std::pair{owner_, std::move(owner)});
  made->flags = readonly_ ? dlpack::kDLFlagReadOnly : 0;
  return made;
}

int StridedMemoryView::device_id() const noexcept {
  const bool is_of_a_device =
      device_.device_type == dlpack::kDLCUDA || device_.device_type == dlpack::kDLCUDAManaged;
  return is_of_a_device ? device_.device_id : -1;
}

StridedMemoryView StridedMemoryView::view(dlpack::DLDataType dtype) const {
  if (dtype.bits * dtype.lanes != dtype_.bits * dtype_.lanes) {
    throw std::invalid_argument{
        "view(): a type of another size needs a layout: " + std::to_string(dtype.bits) +
        " bits instead of " + std::to_string(dtype_.bits)};
  }
  StridedMemoryView other = *this;
  other.dtype_ = dtype;
  return other;
}

StridedMemoryView StridedMemoryView::view(Extents shape, dlpack::DLDataType dtype,
                                          Extents strides) const {
  if (strides.empty()) strides = dense_strides(shape);
  if (strides.size() != shape.size()) {
    throw std::invalid_argument{"view(): there are " + std::to_string(shape.size()) +
                                " dimensions, but " + std::to_string(strides.size()) + " strides"};
  }
  StridedMemoryView other = *this;
  other.shape_ = std::move(shape);
  other.strides_ = std::move(strides);
  other.dtype_ = dtype;
  return other;
}

TensorMapDescriptor StridedMemoryView::as_tensor_map(
    const TensorMapDescriptorOptions& options) const {
  if (!is_device_accessible()) {
    throw std::invalid_argument{
        "as_tensor_map(): the view is of host memory, which a kernel cannot reach: copy it to the "
        "device"};
  }
  const std::optional<TensorMapDataType> type = tensor_map_type(dtype_);
  if (!type) throw std::invalid_argument{"a tensor map cannot hold elements of this type"};
  return TensorMapDescriptor{{ptr_, shape_, strides_, *type}, options};
}

std::int64_t StridedMemoryView::size() const noexcept {
  if (std::ranges::find(shape_, 0) != shape_.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape_)
    if (__builtin_mul_overflow(elements, extent, &elements)) return INT64_MAX;
  return elements;
}

bool StridedMemoryView::is_contiguous_c() const { return is_contiguous(shape_, strides_); }

bool StridedMemoryView::is_contiguous_f() const {
  return is_contiguous(Extents{shape_.rbegin(), shape_.rend()},
                       Extents{strides_.rbegin(), strides_.rend()});
}

void StridedMemoryView::copy_from(const StridedMemoryView& source, StreamRef stream) const {
  if (readonly_) throw std::invalid_argument{"copy_from(): this view is read-only"};
  if (source.shape_ != shape_ || !dlpack::is_same(source.dtype_, dtype_)) {
    throw std::invalid_argument{"copy_from(): shapes and types must be equal: " +
                                text_of(source.shape_) + " to " + text_of(shape_)};
  }
  copy_strided(ptr_, strides_, source.ptr_, source.strides_, shape_,
               std::size_t{dtype_.bits} * dtype_.lanes, stream);
}

}  // namespace cucore
