// SPDX-License-Identifier: Apache-2.0
// cpu/device/tensor_map.hpp: writes the engine's tensor map into the opaque bytes of a CUtensorMap.
#pragma once

#include "cpu/base/abi.hpp"
#include "cpu/engine/runtime/tensor_map.hpp"

namespace cucpu::driver {

using cucpu::kTensorMapMagic;
using cucpu::TensorMap;

void write_tensor_map(CUtensorMap* out, const TensorMap& map);

}  // namespace cucpu::driver
