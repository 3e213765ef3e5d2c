// SPDX-License-Identifier: Apache-2.0
// shift.h: what shift.cu adds.
#pragma once
template <typename T>
__device__ T shifted(T value) {
  return value + T(OFFSET);
}
