// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/quantized.cu: numbers of few bits with a scale per block of 32, and layers of image networks, for inference.

// Eight bits per number: a warp per block of 32.
extern "C" __global__ void quantize(const float* in, signed char* out, float* scales, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = in[i], most = fabsf(v);
  for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
  float scale = most / 127;
  out[i] = (signed char)(most == 0 ? 0 : rintf(v / scale));
  if ((i & 31) == 0) scales[i / 32] = scale;
}

// Four bits per number, two in a byte: the low ones are the first half of a block of 32.
extern "C" __global__ void dequantize(const unsigned char* in, const float* scales, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int block = i / 16, k = i % 16;
  float scale = scales[block];
  unsigned char both = in[i];
  out[block * 32 + k] = ((both & 15) - 8) * scale;
  out[block * 32 + 16 + k] = ((both >> 4) - 8) * scale;
}

// Matrix of four-bit numbers times vector: a warp per row.
extern "C" __global__ void matvec_q4(const unsigned char* a, const float* scales, const float* x, float* y, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float sum = 0;
  for (int i = lane; i < columns / 2; i += 32) {
    int block = i / 16, k = i % 16;
    unsigned char both = a[row * (columns / 2) + i];
    sum += scales[row * (columns / 32) + block] * (((both & 15) - 8) * x[block * 32 + k] + ((both >> 4) - 8) * x[block * 32 + 16 + k]);
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) y[row] = sum;
}

// Products of four bytes at once: a warp per row.
extern "C" __global__ void matvec_q8(const int* a, const int* x, int* y, int rows, int words) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  int sum = 0;
  for (int i = lane; i < words; i += 32) sum = __dp4a(a[row * words + i], x[i], sum);
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) y[row] = sum;
}

// 3 x 3 patches of an image as columns of a matrix.
extern "C" __global__ void im2col(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % n, y = i / n;
  if (y >= n) return;
  for (int j = 0; j < 3; ++j)
    for (int k = 0; k < 3; ++k) {
      int u = x + k - 1, v = y + j - 1;
      out[(j * 3 + k) * n * n + i] = u >= 0 && u < n && v >= 0 && v < n ? in[v * n + u] : 0;
    }
}

extern "C" __global__ void max_pool(const float* in, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const float* from = in + 2 * y * 2 * n + 2 * x;
  out[y * n + x] = fmaxf(fmaxf(from[0], from[1]), fmaxf(from[2 * n], from[2 * n + 1]));
}
