// dlpack.hpp: the DLPack exchange format (its public binary interface), and capsules of it.
#pragma once

#include <cstdint>

#include "support.hpp"

namespace cucore::python {

struct MemoryTraits;

enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
constexpr std::uint64_t kDLFlagReadOnly = 1;

/// What a type with __dlpack_c_exchange_api__ offers to C: a table for the life of the process.
struct DLPackExchangeHeader {
  DLPackVersion version;
  const DLPackExchangeHeader* previous;  ///< the same in an older major version
};
struct DLPackExchange {
  DLPackExchangeHeader header;
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*managed_to_object)(DLManagedTensorVersioned* tensor, void** out);
  int (*tensor_of_object)(void* object, DLTensor* out);  ///< borrowed; may be null
  int (*current_stream)(DLDeviceType type, std::int32_t device, void** out);
};
constexpr DLPackVersion kDLPackVersion{1, 1};

DLDevice dl_device_of(const MemoryTraits& traits);
/// BufferError when a consumer asks for another device or for a copy.
void check_dlpack_request(const DLDevice& device, PyObject* dl_device, PyObject* copy);
/// TypeError or ValueError for what names no stream. Ordering is the consumer's all the same.
void check_dlpack_stream(PyObject* stream);
/// True when the consumer's max_version is (1, 0) or newer.
bool wants_versioned(PyObject* max_version);
/// A capsule around a tensor; shape and strides are copied, `keep` lives as long as the consumer
/// needs it.
nb::object make_dlpack_capsule(const DLTensor& tensor, bool versioned, bool readonly,
                               nb::object keep);

/// A tensor somebody exported, and what keeps it alive.
struct ImportedTensor {
  DLTensor tensor;
  bool readonly;
  std::shared_ptr<void> owner;
};
/// Takes a "dltensor" or "dltensor_versioned" capsule over.
ImportedTensor import_dlpack(nb::handle capsule);

/// A type's table is in a capsule of the first name, which is an attribute of the second.
constexpr const char* kDLPackExchange = "dlpack_exchange_api";
constexpr const char* kDLPackExchangeAttribute = "__dlpack_c_exchange_api__";

}  // namespace cucore::python
