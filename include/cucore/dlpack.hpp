// SPDX-License-Identifier: Apache-2.0
// cucore/dlpack.hpp: tensors that libraries exchange without copying, in the types of the DLPack
// project's own header.
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

/// Whether two tensors are on one device. No operator: the types are not ours.
[[nodiscard]] inline bool is_same(const DLDevice& a, const DLDevice& b) noexcept {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
/// Whether two tensors have elements of one type.
[[nodiscard]] inline bool is_same(const DLDataType& a, const DLDataType& b) noexcept {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

inline constexpr std::uint64_t kDLFlagReadOnly =
    DLPACK_FLAG_BITMASK_READ_ONLY;                    ///< must not be written
inline constexpr DLPackVersion kDLPackVersion{1, 1};  ///< what is written here

/// A tensor that another library exported, and the owner of its memory.
struct ImportedTensor {
  DLTensor tensor;              ///< shape and strides are the producer's
  bool readonly;                ///< must not be written
  std::shared_ptr<void> owner;  ///< calls the producer's deleter in the end
};
/// Takes a tensor over. Throws std::invalid_argument for one that is not valid, or of a version
/// that is not known: it stays the caller's then.
[[nodiscard]] CUCORE_EXPORT ImportedTensor import_tensor(DLManagedTensorVersioned* managed);
/// The same before version 1.
[[nodiscard]] CUCORE_EXPORT ImportedTensor import_tensor(DLManagedTensor* managed);

namespace detail {
/// What an exported tensor owns. `Managed` is one of the two structs.
template <class Managed, class Keep>
struct Export {
  Managed managed{};
  std::vector<std::int64_t> extents;
  Keep keep;
  static void release(Managed* managed) { delete static_cast<Export*>(managed->manager_ctx); }
};
}  // namespace detail

/// A new tensor for a consumer, who calls its deleter: `Managed` is DLManagedTensorVersioned or
/// DLManagedTensor. Shape and strides are copied; `keep` lives until the deleter is called.
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
