// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/networks.cpp: the native side of networks.cu.
#include <algorithm>
#include <cmath>

extern "C" {

void gelu(const float* in, float* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float x = in[i], cube = 0.044715f * x * x * x;
    out[i] = 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + cube)));
  }
}

void residual(const float* a, const float* b, float* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void embed(const int* tokens, const float* words, const float* places, float* out, int count,
           int length, int channels) {
#pragma omp parallel for schedule(static)
  for (int t = 0; t < count; ++t) {
    const float *word = words + tokens[t] * channels, *place = places + t % length * channels;
#pragma omp simd
    for (int c = 0; c < channels; ++c) out[t * channels + c] = word[c] + place[c];
  }
}

void adamw(float* parameters, const float* gradients, float* m, float* v, int n, float rate,
           float decay, float correction1, float correction2) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float g = gradients[i], first = 0.9f * m[i] + 0.1f * g, second = 0.95f * v[i] + 0.05f * g * g;
    m[i] = first;
    v[i] = second;
    first /= correction1;
    second /= correction2;
    parameters[i] -= rate * (first / (std::sqrt(second) + 1e-8f) + decay * parameters[i]);
  }
}

void cross_entropy(const float* scores, const int* targets, float* losses, int rows, int columns) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < rows; ++row) {
    const float* x = scores + row * columns;
    float most = x[0], sum = 0;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < columns; ++i) most = std::max(most, x[i]);
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < columns; ++i) sum += std::exp(x[i] - most);
    losses[row] = std::log(sum) + most - x[targets[row]];
  }
}

void rope(const float* in, const float* turns, float* out, int pairs, int n) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < n / pairs; ++row)
#pragma omp simd
    for (int k = 0; k < pairs; ++k) {
      int i = row * pairs + k;
      float x = in[2 * i], y = in[2 * i + 1], c = turns[2 * k], s = turns[2 * k + 1];
      out[2 * i] = x * c - y * s;
      out[2 * i + 1] = x * s + y * c;
    }
}

void rms_norm(const float* in, const float* gain, float* out, int rows, int columns) {
#pragma omp parallel for schedule(static)
  for (int row = 0; row < rows; ++row) {
    const float* x = in + row * columns;
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (int i = 0; i < columns; ++i) square += x[i] * x[i];
    float scale = 1 / std::sqrt(square / static_cast<float>(columns) + 1e-6f);
#pragma omp simd
    for (int i = 0; i < columns; ++i) out[row * columns + i] = x[i] * scale * gain[i];
  }
}

void split_heads(const float* in, float* out, int length, int heads, int size) {
#pragma omp parallel for schedule(static)
  for (int t = 0; t < length; ++t)
    for (int h = 0; h < heads; ++h)
#pragma omp simd
      for (int d = 0; d < size; ++d)
        out[(h * length + t) * size + d] = in[(t * heads + h) * size + d];
}

void silu_gate(const float* gate, const float* up, float* out, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

}  // extern "C"
