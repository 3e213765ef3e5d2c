// SPDX-License-Identifier: Apache-2.0
// cucore/strided_memory_view.hpp: address and layout of an array of any library.
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

/// An array in memory of the host or a device. Copies name the same memory; what it was imported
/// from is kept alive, a Buffer is not.
class CUCORE_EXPORT StridedMemoryView {
 public:
  /// The memory of a buffer as elements; `strides` count elements, empty: dense. Throws
  /// std::invalid_argument where the buffer is too small.
  static StridedMemoryView from_buffer(const Buffer& buffer, std::vector<std::int64_t> shape,
                                       dlpack::DLDataType dtype,
                                       std::vector<std::int64_t> strides = {});
  /// A tensor of another library, taken over. Throws std::invalid_argument.
  static StridedMemoryView from_dlpack(dlpack::DLManagedTensorVersioned* managed);
  /// A tensor for another library, which calls its deleter; `owner` is kept until then.
  [[nodiscard]] dlpack::DLManagedTensorVersioned* to_dlpack(
      std::shared_ptr<void> owner = nullptr) const;

  [[nodiscard]] CUdeviceptr ptr() const noexcept { return ptr_; }  ///< of the first element
  /// extents
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// in elements, one per dimension
  [[nodiscard]] const std::vector<std::int64_t>& strides() const noexcept { return strides_; }
  [[nodiscard]] dlpack::DLDataType dtype() const noexcept { return dtype_; }  ///< of an element
  [[nodiscard]] dlpack::DLDevice device() const noexcept { return device_; }  ///< where it is
  [[nodiscard]] bool readonly() const noexcept { return readonly_; }  ///< must not be written
  [[nodiscard]] std::int64_t size() const noexcept;                   ///< elements
  /// The number of the CUDA device it is on; -1 for host memory.
  [[nodiscard]] int device_id() const noexcept;
  /// Kernels can use it.
  [[nodiscard]] bool is_device_accessible() const noexcept {
    return device_.device_type != dlpack::kDLCPU;
  }
  /// The last dimension varies fastest and nothing lies between elements.
  [[nodiscard]] bool is_contiguous_c() const;
  /// The same with the first dimension.
  [[nodiscard]] bool is_contiguous_f() const;

  /// The same memory as elements of another type. Throws std::invalid_argument for a type of
  /// another size, which needs a layout.
  [[nodiscard]] StridedMemoryView view(dlpack::DLDataType dtype) const;
  /// The same memory in another layout, which must stay inside it; `strides` as in from_buffer().
  /// Throws std::invalid_argument for another number of strides than of dimensions.
  [[nodiscard]] StridedMemoryView view(std::vector<std::int64_t> shape, dlpack::DLDataType dtype,
                                       std::vector<std::int64_t> strides = {}) const;
  /// A descriptor by which kernels move tiles of this array. Throws std::invalid_argument for host
  /// memory, and for what a tensor map cannot hold.
  [[nodiscard]] TensorMapDescriptor as_tensor_map(const TensorMapDescriptorOptions& options) const;

  /// Copies the elements of a view of the same shape and type. Throws std::invalid_argument for
  /// another one and for a read-only destination, and what copy_strided() throws.
  void copy_from(const StridedMemoryView& source, StreamRef stream) const;
  /// The same in the other direction.
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

/// The strides, in elements, of a packed array in C order.
[[nodiscard]] CUCORE_EXPORT std::vector<std::int64_t> dense_strides(
    std::span<const std::int64_t> shape);
/// Whether nothing lies between the elements, and the last dimension varies fastest. For the first
/// one, pass both in reverse.
[[nodiscard]] CUCORE_EXPORT bool is_contiguous(std::span<const std::int64_t> shape,
                                               std::span<const std::int64_t> strides);
/// Throws std::invalid_argument unless all elements of `bits` bits lie in `size` bytes. `strides`
/// count elements, one per dimension.
CUCORE_EXPORT void check_layout(std::span<const std::int64_t> shape,
                                std::span<const std::int64_t> strides, std::size_t bits,
                                std::size_t size);

/// Copies elements of `bits` bits each, in as few copies as the strides (in elements) allow. Throws
/// std::domain_error for elements smaller than a byte that are not contiguous, and for views that
/// overlap themselves or run backwards.
CUCORE_EXPORT void copy_strided(CUdeviceptr dst, std::span<const std::int64_t> dst_strides,
                                CUdeviceptr src, std::span<const std::int64_t> src_strides,
                                std::span<const std::int64_t> shape, std::size_t bits,
                                StreamRef stream);

}  // namespace cucore
