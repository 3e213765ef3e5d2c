// SPDX-License-Identifier: Apache-2.0
// dlpack.cpp: imports tensors of other libraries.
#include "cucore/dlpack.hpp"

#include <stdexcept>
#include <string>

namespace cucore::dlpack {
namespace {

/// Throws if a producer's tensor is malformed: its fields would be dereferenced.
void require_valid(const DLTensor& tensor) {
  const char* wrong = nullptr;
  if (tensor.ndim < 0) wrong = "a negative number of dimensions";
  if (tensor.ndim > 0 && tensor.shape == nullptr) wrong = "dimensions, but no shape";
  for (std::int32_t i = 0; wrong == nullptr && i < tensor.ndim; ++i)
    if (tensor.shape[i] < 0) wrong = "a negative extent";
  if (wrong != nullptr) {
    throw std::invalid_argument{std::string{"the DLPack tensor is not valid: it has "} + wrong};
  }
}

template <class Managed>
std::shared_ptr<void> owner_of(Managed* managed) {
  return {static_cast<void*>(managed), [](void* p) {
            auto* const tensor = static_cast<Managed*>(p);
            if (tensor->deleter != nullptr) tensor->deleter(tensor);
          }};
}

}  // namespace

ImportedTensor import_tensor(DLManagedTensorVersioned* managed) {
  if (managed->version.major != kDLPackVersion.major) {
    throw std::invalid_argument{"DLPack version " + std::to_string(managed->version.major) + "." +
                                std::to_string(managed->version.minor) + " is not known"};
  }
  require_valid(managed->dl_tensor);
  return {managed->dl_tensor, (managed->flags & kDLFlagReadOnly) != 0, owner_of(managed)};
}

ImportedTensor import_tensor(DLManagedTensor* managed) {
  require_valid(managed->dl_tensor);
  return {managed->dl_tensor, false, owner_of(managed)};
}

}  // namespace cucore::dlpack
