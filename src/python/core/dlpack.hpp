// SPDX-License-Identifier: Apache-2.0
// dlpack.hpp: the DLPack exchange format (its public binary interface), and capsules of it.
#pragma once

#include <cstdint>

#include "cucore/buffer.hpp"
#include "cucore/dlpack.hpp"
#include "support.hpp"

namespace cucore::python {

using namespace dlpack;

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
