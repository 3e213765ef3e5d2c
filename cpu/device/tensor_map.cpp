// SPDX-License-Identifier: Apache-2.0
// Tensor maps: the 128 opaque bytes hold a TensorMap.
#include "cpu/device/tensor_map.hpp"

#include <cstring>

#include "cpu/device/context.hpp"

namespace cucpu::driver {
void write_tensor_map(CUtensorMap* out, const TensorMap& map) {
  static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &map, sizeof map);
}

}  // namespace cucpu::driver
