// SPDX-License-Identifier: Apache-2.0
// dlpack.hpp: the DLPack exchange format (its public binary interface), and capsules of it.
#pragma once

#include <cstdint>

#include "cucore/dlpack.hpp"
#include "support.hpp"

namespace cucore::python {

struct MemoryTraits;

using namespace dlpack;

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

/// Takes a "dltensor" or "dltensor_versioned" capsule over.
ImportedTensor import_dlpack(nb::handle capsule);

/// A type's table is in a capsule of the first name, which is an attribute of the second.
constexpr const char* kDLPackExchange = "dlpack_exchange_api";
constexpr const char* kDLPackExchangeAttribute = "__dlpack_c_exchange_api__";
constexpr const char* kDLPackExchangeOlder =
    "__c_dlpack_exchange_api__";  // what it was first called

}  // namespace cucore::python
