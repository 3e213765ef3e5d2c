// SPDX-License-Identifier: Apache-2.0
// shift.cu: adds OFFSET to every element.
#include "shift.h"

template <typename T>
__global__ void shift(T* data, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = shifted(data[i]);
}
