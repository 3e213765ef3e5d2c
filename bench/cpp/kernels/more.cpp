// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/more.cpp: the native side of more.cu.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

extern "C" {

void transpose(const float* in, float* out, int n) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int y0 = 0; y0 < n; y0 += 32)
    for (int x0 = 0; x0 < n; x0 += 32)
      for (int x = x0; x < x0 + 32; ++x)
        for (int y = y0; y < y0 + 32; ++y) out[x * n + y] = in[y * n + x];
}

void grayscale(const unsigned char* in, unsigned char* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i)
    out[i] = static_cast<unsigned char>(0.299f * in[4 * i] + 0.587f * in[4 * i + 1] +
                                        0.114f * in[4 * i + 2]);
}

void convolution(const float* in, float* out, int width, int height) {
  static const float taps[25] = {1,  4, 6, 4,  1,  4,  16, 24, 16, 4, 6, 24, 36,
                                 24, 6, 4, 16, 24, 16, 4,  1,  4,  6, 4, 1};
#pragma omp parallel for schedule(static)
  for (int y = 2; y < height - 2; ++y)
#pragma omp simd
    for (int x = 2; x < width - 2; ++x) {
      float sum = 0;
      for (int j = -2; j <= 2; ++j)
        for (int i = -2; i <= 2; ++i)
          sum += taps[(j + 2) * 5 + i + 2] * in[(y + j) * width + x + i];
      out[y * width + x] = sum / 256;
    }
}

void row_filter(const float* in, float* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 8; i < n - 8; ++i) {
    float sum = 0;
    for (int k = -8; k <= 8; ++k) sum += in[i + k];
    out[i] = sum / 17;
  }
  for (int i : {0, 1, 2, 3, 4, 5, 6, 7, n - 8, n - 7, n - 6, n - 5, n - 4, n - 3, n - 2, n - 1}) {
    float sum = 0;
    for (int k = std::max(i - 8, 0); k <= std::min(i + 8, n - 1); ++k) sum += in[k];
    out[i] = sum / 17;
  }
}

void jacobi(const double* in, double* out, int n) {
#pragma omp parallel for schedule(static)
  for (int y = 1; y < n - 1; ++y)
#pragma omp simd
    for (int x = 1; x < n - 1; ++x) {
      int i = y * n + x;
      out[i] = 0.25 * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n]);
    }
}

void life(const unsigned char* in, unsigned char* out, int n) {
#pragma omp parallel for schedule(static)
  for (int y = 1; y < n - 1; ++y)
#pragma omp simd
    for (int x = 1; x < n - 1; ++x) {
      int i = y * n + x;
      unsigned char around =
          static_cast<unsigned char>(in[i - n - 1] + in[i - n] + in[i - n + 1] + in[i - 1] +
                                     in[i + 1] + in[i + n - 1] + in[i + n] + in[i + n + 1]);
      out[i] = (around == 3) | ((around == 2) & in[i]);
    }
}

void spmv(const int* rows, const int* columns, const float* values, const float* x, float* y,
          int n) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < n; ++row) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int k = rows[row]; k < rows[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
  }
}

void softmax(const float* in, float* out, int rows, int columns) {
#pragma omp parallel for schedule(static)
  for (int r = 0; r < rows; ++r) {
    const float* row = in + std::size_t(r) * columns;
    float* to = out + std::size_t(r) * columns;
    float most = row[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < columns; ++i) most = std::max(most, row[i]);
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < columns; ++i) sum += to[i] = std::exp(row[i] - most);
#pragma omp simd
    for (int i = 0; i < columns; ++i) to[i] /= sum;
  }
}

void layer_norm(const float* in, const float* gain, const float* bias, float* out, int rows,
                int columns) {
#pragma omp parallel for schedule(static)
  for (int r = 0; r < rows; ++r) {
    const float* row = in + std::size_t(r) * columns;
    float sum = 0, square = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < columns; ++i) sum += row[i];
    float mean = sum / static_cast<float>(columns);
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < columns; ++i) square += (row[i] - mean) * (row[i] - mean);
    float scale = 1 / std::sqrt(square / static_cast<float>(columns) + 1e-5f);
#pragma omp simd
    for (int i = 0; i < columns; ++i)
      out[std::size_t(r) * columns + i] = (row[i] - mean) * scale * gain[i] + bias[i];
  }
}

void attention(const float* q, const float* k, const float* v, float* out, int n) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < n; ++row) {
    std::vector<float> scores(n);
    float most = -INFINITY, sum = 0, result[64] = {};
    for (int j = 0; j < n; ++j) {
      float s = 0;
#pragma omp simd reduction(+ : s)
      for (int i = 0; i < 64; ++i) s += q[row * 64 + i] * k[j * 64 + i];
      scores[j] = s * 0.125f;
      most = std::max(most, scores[j]);
    }
    for (int j = 0; j < n; ++j) {
      float p = std::exp(scores[j] - most);
      sum += p;
#pragma omp simd
      for (int i = 0; i < 64; ++i) result[i] += p * v[j * 64 + i];
    }
    for (int i = 0; i < 64; ++i) out[row * 64 + i] = result[i] / sum;
  }
}

// The same network as in more.cu.
void sort_blocks(unsigned* data, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n; b += 512)
    for (int size = 2; size <= 512; size <<= 1)
      for (int stride = size / 2; stride > 0; stride >>= 1)
        for (int base = 0; base < 512; base += 2 * stride) {
          unsigned *low = data + b + base, *high = low + stride;
          const bool up = (base & size) == 0;
#pragma omp simd
          for (int k = 0; k < stride; ++k) {
            unsigned least = std::min(low[k], high[k]), most = std::max(low[k], high[k]);
            low[k] = up ? least : most;
            high[k] = up ? most : least;
          }
        }
}

// One pass of a radix sort as in more.cu: counts per block of 256, their prefix sums, and the rank
// of a key by counting equal digits before it.
void radix_pass(const unsigned* keys, unsigned* out, int n, int shift) {
  const int blocks = n / 256;
  std::vector<unsigned> counts(16 * blocks);
#pragma omp parallel for schedule(static)
  for (int b = 0; b < blocks; ++b) {
    unsigned bins[16] = {};
    for (int i = b * 256; i < (b + 1) * 256; ++i) ++bins[keys[i] >> shift & 15];
    for (int d = 0; d < 16; ++d) counts[d * blocks + b] = bins[d];
  }
  unsigned sum = 0;
  for (unsigned& count : counts) sum += std::exchange(count, sum);
#pragma omp parallel for schedule(static)
  for (int b = 0; b < blocks; ++b) {
    unsigned digits[256];
    for (int t = 0; t < 256; ++t) digits[t] = keys[b * 256 + t] >> shift & 15;
    for (int t = 0; t < 256; ++t) {
      unsigned before = 0;
#pragma omp simd reduction(+ : before)
      for (int i = 0; i < t; ++i) before += digits[i] == digits[t];
      out[counts[digits[t] * blocks + b] + before] = keys[b * 256 + t];
    }
  }
}

void prefix_sum(const int* in, int* out, int n) {
  constexpr int kParts = 2;
  int sums[kParts + 1] = {};
#pragma omp parallel for schedule(static)
  for (int p = 0; p < kParts; ++p) {
    int sum = 0;
    for (int i = n / kParts * p; i < n / kParts * (p + 1); ++i) sum += in[i];
    sums[p + 1] = sum;
  }
  for (int p = 0; p < kParts; ++p) sums[p + 1] += sums[p];
#pragma omp parallel for schedule(static)
  for (int p = 0; p < kParts; ++p) {
    int sum = sums[p];
    for (int i = n / kParts * p; i < n / kParts * (p + 1); ++i) out[i] = sum += in[i];
  }
}

void compact(const int* in, int* out, unsigned* count, int n) {
  unsigned at = 0;
  for (int i = 0; i < n; ++i) {
    out[at] = in[i];
    at += in[i] > 0;
  }
  *count = at;
}

static inline unsigned mix(unsigned h) {
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ h >> 16;
}

void hash(const unsigned* in, unsigned* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    unsigned h = in[i];
    for (unsigned k = 0; k < 8; ++k) h = mix(h + k);
    out[i] = h;
  }
}

void hash_insert(const unsigned* keys, unsigned* table, int n, unsigned mask) {
  std::fill(table, table + mask + 1, 0u);
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    unsigned key = keys[i], at = mix(key) & mask;
    for (;;) {
      unsigned old = 0;
      if (__atomic_compare_exchange_n(table + at, &old, key, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED) ||
          old == key)
        break;
      at = (at + 1) & mask;
    }
  }
}

void floyd(int* distance, int n) {
  for (int k = 0; k < n; ++k)
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; ++i) {
      int first = distance[i * n + k];
#pragma omp simd
      for (int j = 0; j < n; ++j)
        distance[i * n + j] = std::min(distance[i * n + j], first + distance[k * n + j]);
    }
}

void philox(unsigned* out, unsigned seed, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    unsigned c0 = static_cast<unsigned>(i), c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = 0;
    for (int r = 0; r < 10; ++r) {
      std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<unsigned>(p1);
      c2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<unsigned>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    out[4 * i] = c0;
    out[4 * i + 1] = c1;
    out[4 * i + 2] = c2;
    out[4 * i + 3] = c3;
  }
}

void collatz(int* out, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    unsigned v = static_cast<unsigned>(i) + 1;
    int steps = 0;
    while (v != 1) {
      v = v & 1 ? 3 * v + 1 : v / 2;
      ++steps;
    }
    out[i] = steps;
  }
}

void fft(const float* in, float* out, int count) {
  static float cosine[512], sine[512];
  for (int k = 0; k < 512; ++k) {
    cosine[k] = std::cos(-3.14159265f * static_cast<float>(k) / 512);
    sine[k] = std::sin(-3.14159265f * static_cast<float>(k) / 512);
  }
#pragma omp parallel for schedule(static)
  for (int f = 0; f < count; ++f) {
    float a[2][1024], b[2][1024];
    for (int i = 0; i < 1024; ++i) {
      a[0][i] = in[2 * (f * 1024 + i)];
      a[1][i] = in[2 * (f * 1024 + i) + 1];
    }
    float(*x)[1024] = a, (*y)[1024] = b;
    for (int half = 1; half < 1024; half <<= 1) {
      for (int j = 0; j < 512; j += half)
#pragma omp simd
        for (int k = 0; k < half; ++k) {
          float c = cosine[k * (512 / half)], s = sine[k * (512 / half)];
          float re = x[0][j + k + 512] * c - x[1][j + k + 512] * s,
                im = x[0][j + k + 512] * s + x[1][j + k + 512] * c;
          int at = 2 * j + k;
          y[0][at] = x[0][j + k] + re;
          y[1][at] = x[1][j + k] + im;
          y[0][at + half] = x[0][j + k] - re;
          y[1][at + half] = x[1][j + k] - im;
        }
      std::swap(x, y);
    }
    for (int i = 0; i < 1024; ++i) {
      out[2 * (f * 1024 + i)] = x[0][i];
      out[2 * (f * 1024 + i) + 1] = x[1][i];
    }
  }
}

#ifdef __aarch64__
using Half = __fp16;  // g++ 12 has no _Float16 in C++ here
#else
using Half = _Float16;
#endif

void half_axpy(float factor, const Half* x, Half* y, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i)
    y[i] = static_cast<Half>(factor * static_cast<float>(x[i]) + static_cast<float>(y[i]));
}

void half_matmul(const Half* a, const Half* b, float* c, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    std::fill(c + i * n, c + (i + 1) * n, 0.0f);
    for (int k = 0; k < n; ++k) {
      float s = static_cast<float>(a[i * n + k]);
#pragma omp simd
      for (int j = 0; j < n; ++j) c[i * n + j] += s * static_cast<float>(b[k * n + j]);
    }
  }
}

void dot(const double* x, const double* y, double* out, int n) {
  double sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
  for (int i = 0; i < n; ++i) sum += x[i] * y[i];
  *out = sum;
}

void dgemm(const double* __restrict a, const double* __restrict b, double* __restrict c, int n) {
  constexpr int kRows = 4, kColumns = 8, kBlock = 64, kDepth = 128;
#pragma omp parallel for schedule(static)
  for (int i0 = 0; i0 < n; i0 += kBlock)
    for (int k0 = 0; k0 < n; k0 += kDepth)
      for (int j = 0; j < n; j += kColumns)
        for (int i = i0; i < i0 + kBlock; i += kRows) {
          double sum[kRows][kColumns];
          for (int r = 0; r < kRows; ++r)
            for (int l = 0; l < kColumns; ++l) sum[r][l] = k0 > 0 ? c[(i + r) * n + j + l] : 0.0;
          for (int k = k0; k < k0 + kDepth; ++k)
            for (int r = 0; r < kRows; ++r)
#pragma omp simd
              for (int l = 0; l < kColumns; ++l) sum[r][l] += a[(i + r) * n + k] * b[k * n + j + l];
          for (int r = 0; r < kRows; ++r)
            for (int l = 0; l < kColumns; ++l) c[(i + r) * n + j + l] = sum[r][l];
        }
}

}  // extern "C"
