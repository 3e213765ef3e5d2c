// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/quantized.cpp: the native side of quantized.cu.
#include <algorithm>
#include <cmath>

extern "C" {

void quantize(const float* in, signed char* out, float* scales, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / 32; ++b) {
    float most = 0;
    for (int k = 0; k < 32; ++k) most = std::max(most, std::fabs(in[b * 32 + k]));
    float scale = most / 127;
#pragma omp simd
    for (int k = 0; k < 32; ++k)
      out[b * 32 + k] =
          static_cast<signed char>(most == 0 ? 0 : std::nearbyint(in[b * 32 + k] / scale));
    scales[b] = scale;
  }
}

void dequantize(const unsigned char* in, const float* scales, float* out, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / 16; ++b)
#pragma omp simd
    for (int k = 0; k < 16; ++k) {
      unsigned char both = in[b * 16 + k];
      out[b * 32 + k] = static_cast<float>((both & 15) - 8) * scales[b];
      out[b * 32 + 16 + k] = static_cast<float>((both >> 4) - 8) * scales[b];
    }
}

void matvec_q4(const unsigned char* a, const float* scales, const float* x, float* y, int rows,
               int columns) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
    for (int b = 0; b < columns / 32; ++b) {
      const unsigned char* from = a + row * (columns / 2) + b * 16;
      float part = 0;
#pragma omp simd reduction(+ : part)
      for (int k = 0; k < 16; ++k)
        part += static_cast<float>((from[k] & 15) - 8) * x[b * 32 + k] +
                static_cast<float>((from[k] >> 4) - 8) * x[b * 32 + 16 + k];
      sum += scales[row * (columns / 32) + b] * part;
    }
    y[row] = sum;
  }
}

void matvec_q8(const signed char* a, const signed char* x, int* y, int rows, int words) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < rows; ++row) {
    int sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < 4 * words; ++i) sum += a[row * 4 * words + i] * x[i];
    y[row] = sum;
  }
}

void im2col(const float* in, float* out, int n) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int p = 0; p < 9; ++p)
    for (int y = 0; y < n; ++y) {
      int v = y + p / 3 - 1, shift = p % 3 - 1;
      float* to = out + p * n * n + y * n;
      if (v < 0 || v >= n) {
        std::fill(to, to + n, 0.0f);
        continue;
      }
#pragma omp simd
      for (int x = 1; x < n - 1; ++x) to[x] = in[v * n + x + shift];
      to[0] = shift < 0 ? 0 : in[v * n + shift];
      to[n - 1] = shift > 0 ? 0 : in[v * n + n - 1 + shift];
    }
}

void max_pool(const float* in, float* out, int n) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < n; ++y)
#pragma omp simd
    for (int x = 0; x < n; ++x) {
      const float* from = in + 4 * y * n + 2 * x;
      out[y * n + x] = std::max(std::max(from[0], from[1]), std::max(from[2 * n], from[2 * n + 1]));
    }
}

}  // extern "C"
