// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/more.cu: twenty and more other kernels, as CUDA programmers write them.
#include <cuda_fp16.h>
#include <mma.h>

// ---- moving data ----
extern "C" __global__ void transpose_naive(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[x * n + y + j] = in[(y + j) * n + x];
}

extern "C" __global__ void transpose_tiled(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void grayscale(const uchar4* in, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uchar4 p = in[i];
  out[i] = (unsigned char)(0.299f * p.x + 0.587f * p.y + 0.114f * p.z);
}

// ---- stencils and convolutions ----
__constant__ float taps[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};

extern "C" __global__ void convolution(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2) return;
  float sum = 0;
  for (int j = -2; j <= 2; ++j)
    for (int i = -2; i <= 2; ++i) sum += taps[(j + 2) * 5 + i + 2] * in[(y + j) * width + x + i];
  out[y * width + x] = sum / 256;
}

extern "C" __global__ void row_filter(const float* in, float* out, int n) {
  __shared__ float line[256 + 16];
  int i = blockIdx.x * 256 + threadIdx.x;
  line[threadIdx.x + 8] = in[i];
  if (threadIdx.x < 8) {
    line[threadIdx.x] = i >= 8 ? in[i - 8] : 0;
    line[threadIdx.x + 264] = i + 256 < n ? in[i + 256] : 0;
  }
  __syncthreads();
  float sum = 0;
  for (int k = -8; k <= 8; ++k) sum += line[threadIdx.x + 8 + k];
  out[i] = sum / 17;
}

extern "C" __global__ void jacobi(const double* in, double* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
    int i = y * n + x;
    out[i] = 0.25 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
  }
}

extern "C" __global__ void life(const unsigned char* in, unsigned char* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  int i = y * n + x;
  int around = in[i - n - 1] + in[i - n] + in[i - n + 1] + in[i - 1] + in[i + 1] + in[i + n - 1] + in[i + n] + in[i + n + 1];
  out[i] = around == 3 || (around == 2 && in[i]);
}

// ---- sparse matrices ----
extern "C" __global__ void spmv_thread(const int* rows, const int* columns, const float* values, const float* x, float* y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int k = rows[row]; k < rows[row + 1]; ++k) sum += values[k] * x[columns[k]];
  y[row] = sum;
}

extern "C" __global__ void spmv_warp(const int* rows, const int* columns, const float* values, const float* x, float* y, int n) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= n) return;
  float sum = 0;
  for (int k = rows[row] + lane; k < rows[row + 1]; k += 32) sum += values[k] * x[columns[k]];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) y[row] = sum;
}

// ---- neural networks ----
__device__ float block_sum(float v, float* warps) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffff, v, d);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) v += warps[w];
  __syncthreads();
  return v;
}

extern "C" __global__ void softmax(const float* in, float* out, int columns) {
  __shared__ float warps[32];
  const float* row = in + (size_t)blockIdx.x * columns;
  float most = __int_as_float(0xff800000);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
  for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) most = fmaxf(most, warps[w]);
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(row[i] - most);
  sum = block_sum(sum, warps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = __expf(row[i] - most) / sum;
}

extern "C" __global__ void layer_norm(const float* in, const float* gain, const float* bias, float* out, int columns) {
  __shared__ float warps[32];
  const float* row = in + (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
  float mean = block_sum(sum, warps) / columns, square = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) square += (row[i] - mean) * (row[i] - mean);
  float scale = rsqrtf(block_sum(square, warps) / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[(size_t)blockIdx.x * columns + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

// One block per query; 64 numbers per head, keys in tiles of 64.
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int n) {
  __shared__ float query[64], scores[64];
  int t = threadIdx.x, row = blockIdx.x;
  query[t] = q[row * 64 + t] * 0.125f;
  float most = __int_as_float(0xff800000), sum = 0, result = 0;
  for (int base = 0; base < n; base += 64) {
    __syncthreads();
    float s = 0;
    for (int i = 0; i < 64; ++i) s += query[i] * k[(base + t) * 64 + i];
    scores[t] = s;
    __syncthreads();
    float now = most;
    for (int j = 0; j < 64; ++j) now = fmaxf(now, scores[j]);
    float shrink = __expf(most - now);
    result *= shrink;
    sum *= shrink;
    most = now;
    for (int j = 0; j < 64; ++j) {
      float p = __expf(scores[j] - now);
      sum += p;
      result += p * v[(base + j) * 64 + t];
    }
  }
  out[row * 64 + t] = result / sum;
}

// ---- sorting, scanning, hashing ----
extern "C" __global__ void bitonic(unsigned* data) {
  __shared__ unsigned keys[512];
  unsigned t = threadIdx.x, base = blockIdx.x * 512;
  keys[t] = data[base + t];
  keys[t + 256] = data[base + t + 256];
  for (unsigned size = 2; size <= 512; size <<= 1) {
    for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      unsigned at = 2 * t - (t & (stride - 1));
      bool up = (at & size) == 0;
      unsigned a = keys[at], b = keys[at + stride];
      if ((a > b) == up) {
        keys[at] = b;
        keys[at + stride] = a;
      }
    }
  }
  __syncthreads();
  data[base + t] = keys[t];
  data[base + t + 256] = keys[t + 256];
}

// One pass of a radix sort: 16 bins, a histogram per block, then each block moves its keys in order.
extern "C" __global__ void radix_count(const unsigned* keys, unsigned* counts, int shift) {
  __shared__ unsigned bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[keys[blockIdx.x * 256 + threadIdx.x] >> shift & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void radix_scan(unsigned* counts, int n) {  // one block
  __shared__ unsigned sums[1024];
  unsigned run = 0;
  for (int base = 0; base < n; base += 1024) {
    int i = base + threadIdx.x;
    unsigned v = i < n ? counts[i] : 0;
    sums[threadIdx.x] = v;
    __syncthreads();
    for (int d = 1; d < 1024; d <<= 1) {
      unsigned other = threadIdx.x >= d ? sums[threadIdx.x - d] : 0;
      __syncthreads();
      sums[threadIdx.x] += other;
      __syncthreads();
    }
    if (i < n) counts[i] = run + sums[threadIdx.x] - v;
    run += sums[1023];
    __syncthreads();
  }
}

extern "C" __global__ void radix_move(const unsigned* keys, unsigned* out, const unsigned* counts, int shift) {
  __shared__ unsigned digits[256];
  unsigned key = keys[blockIdx.x * 256 + threadIdx.x], digit = key >> shift & 15, before = 0;
  digits[threadIdx.x] = digit;
  __syncthreads();
  for (int i = 0; i < threadIdx.x; ++i) before += digits[i] == digit;
  out[counts[digit * gridDim.x + blockIdx.x] + before] = key;
}

// Prefix sums in one pass: a block adds up what the blocks before it have published.
extern "C" __global__ void look_back(const int* in, int* out, unsigned long long* state, unsigned* ticket, int n) {
  __shared__ int warps[8], before, tile;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
  __syncthreads();
  int i = tile * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  int v = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(0xffffffff, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  int add = 0, total = 0;
  for (int w = 0; w < 8; ++w) {
    if (w < warp) add += warps[w];
    total += warps[w];
  }
  v += add;
  if (threadIdx.x == 0) {
    volatile unsigned long long* s = state;
    int sum = 0;
    if (tile > 0) {
      s[tile] = 1ull << 32 | (unsigned)total;
      for (int b = tile - 1;; --b) {
        unsigned long long seen;
        do seen = s[b];
        while (seen >> 32 == 0);
        sum += (int)(unsigned)seen;
        if (seen >> 32 == 2) break;
      }
    }
    s[tile] = 2ull << 32 | (unsigned)(sum + total);
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + v;
}

extern "C" __global__ void compact(const int* in, int* out, unsigned* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int v = i < n ? in[i] : 0;
  unsigned keep = __ballot_sync(0xffffffff, v > 0);
  unsigned at = 0;
  if (lane == 0) at = atomicAdd(count, __popc(keep));
  at = __shfl_sync(0xffffffff, at, 0);
  if (v > 0) out[at + __popc(keep & ((1u << lane) - 1))] = v;
}

__device__ unsigned mix(unsigned h) {
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ h >> 16;
}

extern "C" __global__ void hash(const unsigned* in, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned h = in[i];
  for (int k = 0; k < 8; ++k) h = mix(h + k);
  out[i] = h;
}

extern "C" __global__ void hash_insert(const unsigned* keys, unsigned* table, int n, unsigned mask) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i], at = mix(key) & mask;
  for (;;) {
    unsigned old = atomicCAS(&table[at], 0u, key);
    if (old == 0 || old == key) return;
    at = at + 1 & mask;
  }
}

extern "C" __global__ void floyd(int* distance, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  int through = distance[i * n + k] + distance[k * n + j];
  if (through < distance[i * n + j]) distance[i * n + j] = through;
}

// ---- numbers ----
extern "C" __global__ void philox(uint4* out, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = 0;
  for (int r = 0; r < 10; ++r) {
    unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[i] = make_uint4(c0, c1, c2, c3);
}

extern "C" __global__ void collatz(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = i + 1;
  int steps = 0;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    ++steps;
  }
  out[i] = steps;
}

// 1024 points per block, in shared memory (Stockham, radix 2).
extern "C" __global__ void fft(const float2* in, float2* out) {
  __shared__ float2 a[1024], b[1024];
  int t = threadIdx.x;
  const float2* from = in + blockIdx.x * 1024;
  for (int i = t; i < 1024; i += 256) a[i] = from[i];
  float2 *x = a, *y = b;
  for (int half = 1; half < 1024; half <<= 1) {
    __syncthreads();
    for (int i = t; i < 512; i += 256) {
      int k = i & (half - 1);
      float s, c;
      __sincosf(-3.14159265f * k / half, &s, &c);
      float2 u = x[i], w = x[i + 512];
      float2 v = make_float2(w.x * c - w.y * s, w.x * s + w.y * c);
      int at = (i - k) * 2 + k;
      y[at] = make_float2(u.x + v.x, u.y + v.y);
      y[at + half] = make_float2(u.x - v.x, u.y - v.y);
    }
    float2* swap = x;
    x = y;
    y = swap;
  }
  __syncthreads();
  for (int i = t; i < 1024; i += 256) out[blockIdx.x * 1024 + i] = x[i];
}

extern "C" __global__ void half_axpy(__half a, const __half2* x, __half2* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

extern "C" __global__ void dot(const double* x, const double* y, double* out, int n) {
  double sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i] * y[i];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, sum);
}

extern "C" __global__ void dgemm(const double* a, const double* b, double* c, int n) {
  __shared__ double as[16][16], bs[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  double sum = 0;
  for (int t = 0; t < n; t += 16) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// A warp per 16 x 16 tile of the result.
extern "C" __global__ void warp_matmul(const __half* a, const __half* b, float* c, int n) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  int row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + row * n + k, n);
    wmma::load_matrix_sync(fb, b + k * n + column, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}
