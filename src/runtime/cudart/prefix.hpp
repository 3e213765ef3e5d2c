// SPDX-License-Identifier: Apache-2.0
// prefix.hpp: converts structs whose CUDA 12 layout is a prefix of CUDA 13's.
#pragma once
#include <cstddef>
#include <cstring>

#include "cucore/abi/runtime.h"

namespace cucore::cudart {

/// A CUDA 12 struct converted to CUDA 13. The fields that CUDA 12 lacks are zero.
template <class T>
class Prefix {
 public:
  Prefix(const void* given, std::size_t bytes) : is_null_{given == nullptr} {
    static_assert(sizeof(T) >= 24);
    if (!is_null_) std::memcpy(static_cast<void*>(&value_), given, bytes);
  }
  [[nodiscard]] const T* get() const noexcept { return is_null_ ? nullptr : &value_; }

 private:
  T value_{};
  bool is_null_;
};

/// Calls `get` with the CUDA 13 struct and copies the prefix that CUDA 12 has.
template <class T, class Get>
cudaError_t get_prefix(void* out, std::size_t bytes, Get&& get) {
  if (out == nullptr) return get(static_cast<T*>(nullptr));
  T own{};
  const cudaError_t code = get(&own);
  if (code == cudaSuccess) std::memcpy(out, &own, bytes);
  return code;
}

}  // namespace cucore::cudart
