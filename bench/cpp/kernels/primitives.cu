// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/primitives.cu: building blocks of parallel algorithms.
extern "C" __global__ void copy_ints(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

extern "C" __global__ void gather_values(const int* places, const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[places[i]];
}

extern "C" __global__ void scatter_values(const int* places, const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[places[i]] = in[i];
}

extern "C" __global__ void adjacent_difference(const int* in, int* out, int n) {
  __shared__ int values[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  int v = i < n ? in[i] : 0;
  values[threadIdx.x] = v;
  __syncthreads();
  int before = threadIdx.x > 0 ? values[threadIdx.x - 1] : i > 0 ? in[i - 1] : 0;
  if (i < n) out[i] = v - before;
}

// Inclusive prefix sums of 256 numbers each, in shared memory.
extern "C" __global__ void shared_scan(const int* in, int* out) {
  __shared__ int sums[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  sums[threadIdx.x] = in[i];
  for (int d = 1; d < 256; d <<= 1) {
    __syncthreads();
    int other = threadIdx.x >= d ? sums[threadIdx.x - d] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
  }
  out[i] = sums[threadIdx.x];
}

// The largest number of a block and its place, by warps.
extern "C" __global__ void arg_max(const float* in, float* values, int* places) {
  __shared__ float best[8];
  __shared__ int where[8];
  int i = blockIdx.x * 256 + threadIdx.x;
  float v = in[i];
  int at = i;
  for (int d = 16; d > 0; d >>= 1) {
    float other = __shfl_down_sync(0xffffffff, v, d);
    int place = __shfl_down_sync(0xffffffff, at, d);
    if (other > v) {
      v = other;
      at = place;
    }
  }
  if ((threadIdx.x & 31) == 0) {
    best[threadIdx.x / 32] = v;
    where[threadIdx.x / 32] = at;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < 8; ++w)
    if (best[w] > v) {
      v = best[w];
      at = where[w];
    }
  values[blockIdx.x] = v;
  places[blockIdx.x] = at;
}

// Sums of rows of equal length; a warp per row.
extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float sum = 0;
  for (int i = lane; i < columns; i += 32) sum += in[row * columns + i];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) out[row] = sum;
}

// Positive numbers of each block of 256 to its beginning, in order, and their number.
extern "C" __global__ void select_in_order(const int* in, int* out, int* counts) {
  __shared__ int warps[8];
  int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int v = in[i];
  unsigned keep = __ballot_sync(0xffffffff, v > 0);
  if (lane == 0) warps[warp] = __popc(keep);
  __syncthreads();
  int before = __popc(keep & ((1u << lane) - 1)), total = 0;
  for (int w = 0; w < 8; ++w) {
    if (w < warp) before += warps[w];
    total += warps[w];
  }
  if (v > 0) out[blockIdx.x * 256 + before] = v;
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

extern "C" __global__ void bit_counts(const unsigned* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __popc(in[i]) + __clz(in[i]) * 64;
}
