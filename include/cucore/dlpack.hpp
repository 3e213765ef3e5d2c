// SPDX-License-Identifier: Apache-2.0
// cucore/dlpack.hpp: zero-copy tensor exchange, with the types of the DLPack project's header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/third_party/dlpack.h"

namespace cucore::dlpack {

using ::DLDataType;
using ::DLDataTypeCode;
using ::DLDevice;
using ::DLDeviceType;
using ::DLManagedTensor;
using ::DLManagedTensorVersioned;
using ::DLPackVersion;
using ::DLTensor;
using ::kDLBfloat;
using ::kDLBool;
using ::kDLComplex;
using ::kDLCPU;
using ::kDLCUDA;
using ::kDLCUDAHost;
using ::kDLCUDAManaged;
using ::kDLFloat;
using ::kDLInt;
using ::kDLUInt;

/// Returns whether two devices are the same. Not an operator because the types are DLPack's.
[[nodiscard]] inline bool is_same(const DLDevice& a, const DLDevice& b) noexcept {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
/// Returns whether two element types are the same.
[[nodiscard]] inline bool is_same(const DLDataType& a, const DLDataType& b) noexcept {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline constexpr std::uint64_t kDLFlagReadOnly =
    DLPACK_FLAG_BITMASK_READ_ONLY;                    ///< the tensor must not be written
inline constexpr DLPackVersion kDLPackVersion{1, 1};  ///< version of exported tensors

/// A tensor that another library exported, and the owner of its memory.
struct ImportedTensor {
  DLTensor tensor;              ///< shape and strides belong to the producer
  bool readonly;                ///< the tensor must not be written
  std::shared_ptr<void> owner;  ///< calls the producer's deleter when the last copy is destroyed
};
/// Takes ownership of a tensor. Throws std::invalid_argument if the tensor is invalid or its major
/// version is not supported; the caller then keeps ownership.
[[nodiscard]] CUCORE_EXPORT ImportedTensor import_tensor(DLManagedTensorVersioned* managed);
/// As above, for tensors of DLPack versions before 1.
[[nodiscard]] CUCORE_EXPORT ImportedTensor import_tensor(DLManagedTensor* managed);

namespace detail {
/// Storage of an exported tensor. `Managed` is DLManagedTensorVersioned or DLManagedTensor.
template <class Managed, class Keep>
struct Export {
  Managed managed{};
  std::vector<std::int64_t> extents;
  Keep keep;
  static void release(Managed* managed) { delete static_cast<Export*>(managed->manager_ctx); }
};
}  // namespace detail

/// Creates a tensor for a consumer, which must call its deleter. `Managed` is
/// DLManagedTensorVersioned or DLManagedTensor. Shape and strides are copied; the deleter destroys
/// `keep`.
template <class Managed, class Keep>
[[nodiscard]] Managed* export_tensor(const DLTensor& tensor, Keep keep) {
  auto made = std::make_unique<detail::Export<Managed, Keep>>();
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  made->extents.assign(tensor.shape, tensor.shape + rank);
  if (tensor.strides != nullptr)
    made->extents.insert(made->extents.end(), tensor.strides, tensor.strides + rank);
  Managed& managed = made->managed;
  managed.dl_tensor = tensor;
  managed.dl_tensor.shape = made->extents.data();
  managed.dl_tensor.strides = tensor.strides != nullptr ? made->extents.data() + rank : nullptr;
  managed.deleter = &detail::Export<Managed, Keep>::release;
  if constexpr (requires { managed.version; }) managed.version = kDLPackVersion;
  made->keep = std::move(keep);
  managed.manager_ctx = made.get();
  return &made.release()->managed;
}

}  // namespace cucore::dlpack
