// SPDX-License-Identifier: Apache-2.0
// The device code of version12.cpp.
__constant__ int factor;
extern "C" __global__ void scale(int* p) { p[threadIdx.x] *= factor; }
