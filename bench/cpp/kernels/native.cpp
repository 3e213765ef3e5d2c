// bench/cpp/kernels/native.cpp: compiled with -O3 -march=native -fopenmp.
#include "native.hpp"

#include <algorithm>
#include <cmath>

namespace native {

void saxpy(float a, const float* x, float* y, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) y[i] = a * x[i] + y[i];
}

void vector_add(const float* a, const float* b, float* c, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

void matmul(const float* a, const float* b, float* c, int n) {
  constexpr int kTile = 64;
#pragma omp parallel for schedule(static)
  for (int i0 = 0; i0 < n; i0 += kTile) {
    for (int i = i0; i < i0 + kTile; ++i) std::fill(c + i * n, c + (i + 1) * n, 0.0f);
    for (int k0 = 0; k0 < n; k0 += kTile)
      for (int j0 = 0; j0 < n; j0 += kTile)
        for (int i = i0; i < i0 + kTile; ++i)
          for (int k = k0; k < k0 + kTile; ++k) {
            float s = a[i * n + k];
#pragma omp simd
            for (int j = j0; j < j0 + kTile; ++j) c[i * n + j] += s * b[k * n + j];
          }
  }
}

float reduce(const float* in, int n) {
  float sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
  for (int i = 0; i < n; ++i) sum += in[i];
  return sum;
}

void histogram(const unsigned char* in, unsigned* bins, int n) {
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

void mandelbrot(int* out, int width, int height, int most) {
#pragma omp parallel for schedule(dynamic, 8)
  for (int py = 0; py < height; ++py) {
    constexpr int kLanes = 16;  // what a programmer does by hand: a strip of pixels at a time
    for (int p0 = 0; p0 < width; p0 += kLanes) {
      float cx[kLanes], x[kLanes], y[kLanes];
      int n[kLanes];
      float cy = -1.5f + 3.0f * static_cast<float>(py) / static_cast<float>(height);
      for (int l = 0; l < kLanes; ++l) {
        cx[l] = -2.0f + 3.0f * static_cast<float>(p0 + l) / static_cast<float>(width);
        x[l] = y[l] = 0;
        n[l] = 0;
      }
      for (int step = 0; step < most; ++step) {
        int active = 0;
#pragma omp simd reduction(+ : active)
        for (int l = 0; l < kLanes; ++l) {
          float xx = x[l] * x[l], yy = y[l] * y[l];
          int in = xx + yy <= 4.0f;
          float t = xx - yy + cx[l];
          y[l] = in ? 2 * x[l] * y[l] + cy : y[l];
          x[l] = in ? t : x[l];
          n[l] += in;
          active += in;
        }
        if (!active) break;
      }
      for (int l = 0; l < kLanes; ++l) out[py * width + p0 + l] = n[l];
    }
  }
}

namespace {
inline float normal(float d) {
  const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
  float k = 1.0f / (1.0f + 0.2316419f * std::fabs(d));
  float c = 0.39894228040143267794f * std::exp(-0.5f * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
  return d > 0 ? 1.0f - c : c;
}
}  // namespace

void blackscholes(float* call, float* put, const float* price, const float* strike, const float* years, float rate, float volatility, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float s = price[i], x = strike[i], t = years[i], root = std::sqrt(t);
    float d1 = (std::log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root), d2 = d1 - volatility * root;
    float n1 = normal(d1), n2 = normal(d2), discount = x * std::exp(-rate * t);
    call[i] = s * n1 - discount * n2;
    put[i] = discount * (1.0f - n2) - s * (1.0f - n1);
  }
}

void nbody(const float* position, float* force, int n) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    float mx = position[4 * i], my = position[4 * i + 1], mz = position[4 * i + 2], ax = 0, ay = 0, az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
    for (int j = 0; j < n; ++j) {
      float dx = position[4 * j] - mx, dy = position[4 * j + 1] - my, dz = position[4 * j + 2] - mz;
      float inverse = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-6f), s = position[4 * j + 3] * inverse * inverse * inverse;
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
        out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - nx * ny] + in[i + nx * ny]);
      }
}

void scan(const int* in, int* out, int* sums, int n, int block) {
#pragma omp parallel for schedule(static)
  for (int b = 0; b < n / block; ++b) {
    int sum = 0;
    for (int i = b * block; i < (b + 1) * block; ++i) out[i] = sum += in[i];
    sums[b] = sum;
  }
}

}  // namespace native
