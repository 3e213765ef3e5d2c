// SPDX-License-Identifier: Apache-2.0
// cucore/strided_memory_view.hpp: a view of an array: address, shape, strides and element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/dlpack.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"
#include "cucore/tensor_map.hpp"

namespace cucore {

/// A view of an array in host or device memory. Copies refer to the same memory. Keeps an imported
/// tensor alive, but not a Buffer.
class CUCORE_EXPORT StridedMemoryView {
 public:
  /// Returns a view of a buffer. `strides` are in elements; empty: contiguous in C order. Throws
  /// std::invalid_argument if the buffer is too small.
  static StridedMemoryView from_buffer(const Buffer& buffer, std::vector<std::int64_t> shape,
                                       dlpack::DLDataType dtype,
                                       std::vector<std::int64_t> strides = {});
  /// Imports a tensor from another library and takes ownership of it. Throws std::invalid_argument.
  static StridedMemoryView from_dlpack(dlpack::DLManagedTensorVersioned* managed);
  /// Exports the view as a tensor. The consumer must call its deleter; `owner` is kept alive until
  /// then.
  [[nodiscard]] dlpack::DLManagedTensorVersioned* to_dlpack(
      std::shared_ptr<void> owner = nullptr) const;

  /// Returns the address of the first element.
  [[nodiscard]] CUdeviceptr ptr() const noexcept { return ptr_; }
  /// Returns the extents, one per dimension.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Returns the strides in elements, one per dimension.
  [[nodiscard]] const std::vector<std::int64_t>& strides() const noexcept { return strides_; }
  /// Returns the element type.
  [[nodiscard]] dlpack::DLDataType dtype() const noexcept { return dtype_; }
  /// Returns the DLPack device of the memory.
  [[nodiscard]] dlpack::DLDevice device() const noexcept { return device_; }
  /// Returns whether the view is read-only.
  [[nodiscard]] bool readonly() const noexcept { return readonly_; }
  /// Returns the number of elements; INT64_MAX if it overflows.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Returns the ordinal of the CUDA device, or -1 for host memory.
  [[nodiscard]] int device_id() const noexcept;
  /// Returns whether kernels can access the memory.
  [[nodiscard]] bool is_device_accessible() const noexcept {
    return device_.device_type != dlpack::kDLCPU;
  }
  /// Returns whether the elements are contiguous in C order (the last dimension varies fastest).
  [[nodiscard]] bool is_contiguous_c() const;
  /// Returns whether the elements are contiguous in Fortran order (the first dimension varies
  /// fastest).
  [[nodiscard]] bool is_contiguous_f() const;

  /// Returns a view of the same memory with another element type. Throws std::invalid_argument if
  /// its size differs: that requires the overload with a shape.
  [[nodiscard]] StridedMemoryView view(dlpack::DLDataType dtype) const;
  /// Returns a view of the same memory with another layout. The caller must ensure that the layout
  /// is within the memory. `strides` as in from_buffer(). Throws std::invalid_argument if the
  /// number of strides is not the number of dimensions.
  [[nodiscard]] StridedMemoryView view(std::vector<std::int64_t> shape, dlpack::DLDataType dtype,
                                       std::vector<std::int64_t> strides = {}) const;
  /// Returns a tensor map, with which kernels copy tiles of the array. Throws std::invalid_argument
  /// for host memory, and for an element type or layout that tensor maps do not support.
  [[nodiscard]] TensorMapDescriptor as_tensor_map(const TensorMapDescriptorOptions& options) const;

  /// Copies all elements of `source` to this view, in stream order. Throws std::invalid_argument if
  /// shape or element type differ or this view is read-only; also throws as copy_strided() does.
  void copy_from(const StridedMemoryView& source, StreamRef stream) const;
  /// Equivalent to `destination.copy_from(*this, stream)`.
  void copy_to(const StridedMemoryView& destination, StreamRef stream) const {
    destination.copy_from(*this, stream);
  }

 private:
  StridedMemoryView() = default;
  CUdeviceptr ptr_ = 0;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  dlpack::DLDataType dtype_{};
  dlpack::DLDevice device_{dlpack::kDLCPU, 0};
  bool readonly_ = false;
  std::shared_ptr<void> owner_;
};

/// Returns the strides, in elements, of a contiguous array in C order.
[[nodiscard]] CUCORE_EXPORT std::vector<std::int64_t> dense_strides(
    std::span<const std::int64_t> shape);
/// Returns whether an array is contiguous in C order. For Fortran order, pass both in reverse.
[[nodiscard]] CUCORE_EXPORT bool is_contiguous(std::span<const std::int64_t> shape,
                                               std::span<const std::int64_t> strides);
/// Throws std::invalid_argument unless all elements, of `bits` bits each, are within the first
/// `size` bytes. `strides` are in elements, one per dimension.
CUCORE_EXPORT void check_layout(std::span<const std::int64_t> shape,
                                std::span<const std::int64_t> strides, std::size_t bits,
                                std::size_t size);

/// Copies elements of `bits` bits each, in stream order, with as few driver calls as the layouts
/// allow. Strides are in elements. Throws std::domain_error for elements that are not whole bytes
/// if they are not contiguous, and for layouts with overlapping elements or negative strides.
CUCORE_EXPORT void copy_strided(CUdeviceptr dst, std::span<const std::int64_t> dst_strides,
                                CUdeviceptr src, std::span<const std::int64_t> src_strides,
                                std::span<const std::int64_t> shape, std::size_t bits,
                                StreamRef stream);

}  // namespace cucore
