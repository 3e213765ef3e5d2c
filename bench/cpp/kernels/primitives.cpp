// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/primitives.cpp: the native side of primitives.cu.
#include <bit>

extern "C" {

void gather_values(const int* places, const float* in, float* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) out[i] = in[places[i]];
}

void scatter_values(const int* places, const float* in, float* out, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) out[places[i]] = in[i];
}

void adjacent_difference(const int* in, int* out, int n) {
  out[0] = in[0];
#pragma omp parallel for simd schedule(static)
  for (int i = 1; i < n; ++i) out[i] = in[i] - in[i - 1];
}

void shared_scan(const int* in, int* out, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n; b += 256) {
    int sums[2][256];
    for (int t = 0; t < 256; ++t) sums[0][t] = in[b + t];
    for (int d = 1, from = 0; d < 256; d <<= 1, from = 1 - from) {
      for (int t = 0; t < d; ++t) sums[1 - from][t] = sums[from][t];
#pragma omp simd
      for (int t = d; t < 256; ++t) sums[1 - from][t] = sums[from][t] + sums[from][t - d];
    }
    for (int t = 0; t < 256; ++t) out[b + t] = sums[0][t];
  }
}

void arg_max(const float* in, float* values, int* places, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / 256; ++b) {
    int at = b * 256;
    for (int i = at + 1; i < (b + 1) * 256; ++i)
      if (in[i] > in[at]) at = i;
    values[b] = in[at];
    places[b] = at;
  }
}

void row_sums(const float* in, float* out, int rows, int columns) {
#pragma omp parallel for schedule(static)
  for (int r = 0; r < rows; ++r) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < columns; ++i) sum += in[r * columns + i];
    out[r] = sum;
  }
}

void select_in_order(const int* in, int* out, int* counts, int n) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / 256; ++b) {
    int kept = 0;
    for (int i = b * 256; i < (b + 1) * 256; ++i)
      if (in[i] > 0) out[b * 256 + kept++] = in[i];
    counts[b] = kept;
  }
}

void bit_counts(const unsigned* in, int* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) out[i] = std::popcount(in[i]) + std::countl_zero(in[i]) * 64;
}

}  // extern "C"
