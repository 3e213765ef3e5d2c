// SPDX-License-Identifier: Apache-2.0
// cucore/dlpack.hpp: tensors that libraries hand each other without copying: the binary layout of
// DLPack (github.com/dmlc/dlpack, Apache License 2.0), version 1. Only the layout's facts are here;
// pointers to the structs of <dlpack/dlpack.h> can be cast to these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cucore/export.hpp"

namespace cucore::dlpack {

/// Where memory is.
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
/// A place for memory.
struct DLDevice {
  DLDeviceType device_type;  ///< which kind
  std::int32_t device_id;    ///< which of them
  friend bool operator==(const DLDevice&, const DLDevice&) = default;
};
/// What the bits of an element mean.
enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};
/// The type of an element.
struct DLDataType {
  std::uint8_t code;    ///< a DLDataTypeCode, or one that is newer
  std::uint8_t bits;    ///< of one lane
  std::uint16_t lanes;  ///< 1 unless an element is a vector
  friend bool operator==(const DLDataType&, const DLDataType&) = default;
};
/// Elements in memory. Strides count elements; null: dense, the last dimension varies fastest.
struct DLTensor {
  void* data;                 ///< where it starts, without byte_offset
  DLDevice device;            ///< where the memory is
  std::int32_t ndim;          ///< how many dimensions
  DLDataType dtype;           ///< of an element
  std::int64_t* shape;        ///< ndim extents
  std::int64_t* strides;      ///< ndim strides, or null
  std::uint64_t byte_offset;  ///< of the first element
};
/// A tensor with its owner, before version 1.
struct DLManagedTensor {
  DLTensor dl_tensor;                      ///< what it is
  void* manager_ctx;                       ///< the producer's
  void (*deleter)(DLManagedTensor* self);  ///< called once by the consumer; may be null
};
/// The version of the layout.
struct DLPackVersion {
  std::uint32_t major;  ///< another one is another layout
  std::uint32_t minor;  ///< a higher one adds values
};
/// A tensor with its owner.
struct DLManagedTensorVersioned {
  DLPackVersion version;                            ///< of the layout
  void* manager_ctx;                                ///< the producer's
  void (*deleter)(DLManagedTensorVersioned* self);  ///< called once by the consumer; may be null
  std::uint64_t flags;                              ///< kDLFlagReadOnly, ...
  DLTensor dl_tensor;                               ///< what it is
};
inline constexpr std::uint64_t kDLFlagReadOnly = 1;   ///< must not be written
inline constexpr DLPackVersion kDLPackVersion{1, 1};  ///< what is written here

/// A tensor that somebody exported, and what keeps it alive.
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
