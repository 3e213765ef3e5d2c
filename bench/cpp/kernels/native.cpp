// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/native.cpp: typical C++ code for a CPU: loops, OpenMP, simd pragmas, and common
// blocking for caches and registers. Compiled with -O3 -march=native -fopenmp.
#include <algorithm>
#include <cmath>

extern "C" {

void saxpy(float a, const float* x, float* y, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void vector_add(const float* a, const float* b, float* c, int n, int times) {
  for (int t = 0; t < times; ++t) {
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
  }
}

// Four rows by sixteen columns of sums stay in registers; blocks of rows and of depth stay in the
// caches.
void matmul(const float* __restrict a, const float* __restrict b, float* __restrict c, int n) {
  constexpr int kRows = 4, kColumns = 16, kBlock = 64, kDepth = 256;
#pragma omp parallel for schedule(static)
  for (int i0 = 0; i0 < n; i0 += kBlock)
    for (int k0 = 0; k0 < n; k0 += kDepth)
      for (int j = 0; j < n; j += kColumns)
        for (int i = i0; i < i0 + kBlock; i += kRows) {
          float sum[kRows][kColumns];
          for (int r = 0; r < kRows; ++r)
            for (int l = 0; l < kColumns; ++l) sum[r][l] = k0 > 0 ? c[(i + r) * n + j + l] : 0.0f;
          for (int k = k0; k < k0 + kDepth; ++k)
            for (int r = 0; r < kRows; ++r)
#pragma omp simd
              for (int l = 0; l < kColumns; ++l) sum[r][l] += a[(i + r) * n + k] * b[k * n + j + l];
          for (int r = 0; r < kRows; ++r)
            for (int l = 0; l < kColumns; ++l) c[(i + r) * n + j + l] = sum[r][l];
        }
}

void reduce(const float* in, float* out, int n) {
  float sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
  for (int i = 0; i < n; ++i) sum += in[i];
  *out = sum;
}

void histogram(const unsigned char* in, unsigned* bins, int n) {
  std::fill(bins, bins + 256, 0u);
#pragma omp parallel
  {
    unsigned local[256] = {};
#pragma omp for schedule(static)
    for (int i = 0; i < n; ++i) ++local[in[i]];
    for (int b = 0; b < 256; ++b)
#pragma omp atomic
      bins[b] += local[b];
  }
}

// Processes sixteen pixels as four vectors. A point that has escaped never returns, so no masks are
// needed.
void mandelbrot(int* out, int width, int height, int most) {
  using Floats = float __attribute__((vector_size(16)));
  using Integers = int __attribute__((vector_size(16)));
  constexpr int kVectors = 4;
#pragma omp parallel for schedule(dynamic, 8)
  for (int py = 0; py < height; ++py) {
    float cy = -1.5f + 3.0f * static_cast<float>(py) / static_cast<float>(height);
    for (int p0 = 0; p0 < width; p0 += 4 * kVectors) {
      Floats cx[kVectors], x[kVectors], y[kVectors];
      Integers n[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        for (int l = 0; l < 4; ++l)
          cx[v][l] = -2.0f + 3.0f * static_cast<float>(p0 + 4 * v + l) / static_cast<float>(width);
        x[v] = y[v] = Floats{};
        n[v] = Integers{};
      }
      for (int step = 0; step < most; ++step) {
        Integers any{};
        for (int v = 0; v < kVectors; ++v) {
          Floats xx = x[v] * x[v], yy = y[v] * y[v];
          Integers in = xx + yy <= 4.0f;
          y[v] = 2 * x[v] * y[v] + cy;
          x[v] = xx - yy + cx[v];
          n[v] -= in;
          any |= in;
        }
        if (!(any[0] | any[1] | any[2] | any[3])) break;
      }
      for (int v = 0; v < kVectors; ++v)
        for (int l = 0; l < 4; ++l) out[py * width + p0 + 4 * v + l] = n[v][l];
    }
  }
}

static inline float normal(float d) {
  const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f,
              a5 = 1.330274429f;
  float k = 1.0f / (1.0f + 0.2316419f * std::fabs(d));
  float c = 0.39894228040143267794f * std::exp(-0.5f * d * d) *
            (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
  return d > 0 ? 1.0f - c : c;
}

void blackscholes(float* call, float* put, const float* price, const float* strike,
                  const float* years, float rate, float volatility, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float s = price[i], x = strike[i], t = years[i], root = std::sqrt(t);
    float d1 =
              (std::log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root),
          d2 = d1 - volatility * root;
    float n1 = normal(d1), n2 = normal(d2), discount = x * std::exp(-rate * t);
    call[i] = s * n1 - discount * n2;
    put[i] = discount * (1.0f - n2) - s * (1.0f - n1);
  }
}

void nbody(const float* position, float* force, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    float mx = position[4 * i], my = position[4 * i + 1], mz = position[4 * i + 2], ax = 0, ay = 0,
          az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
    for (int j = 0; j < n; ++j) {
      float dx = position[4 * j] - mx, dy = position[4 * j + 1] - my, dz = position[4 * j + 2] - mz;
      float inverse = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-6f),
            s = position[4 * j + 3] * inverse * inverse * inverse;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    force[4 * i] = ax;
    force[4 * i + 1] = ay;
    force[4 * i + 2] = az;
    force[4 * i + 3] = 0;
  }
}

void stencil(const float* in, float* out, int nx, int ny, int nz) {
#pragma omp parallel for schedule(static)
  for (int z = 1; z < nz - 1; ++z)
    for (int y = 1; y < ny - 1; ++y)
#pragma omp simd
      for (int x = 1; x < nx - 1; ++x) {
        int i = (z * ny + y) * nx + x;
        out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] +
                                        in[i - nx * ny] + in[i + nx * ny]);
      }
}

void scan(const int* in, int* out, int* sums, int n) {
  constexpr int kBlock = 256;
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / kBlock; ++b) {
    int sum = 0;
    for (int i = b * kBlock; i < (b + 1) * kBlock; ++i) out[i] = sum += in[i];
    sums[b] = sum;
  }
}

}  // extern "C"
