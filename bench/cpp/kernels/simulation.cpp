// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/simulation.cpp: the native side of simulation.cu.
#include <algorithm>
#include <cmath>
#include <vector>

extern "C" {

void hotspot(const float* in, const float* power, float* out, int n) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < n; ++y)
#pragma omp simd
    for (int x = 0; x < n; ++x) {
      int i = y * n + x;
      float t = in[i], north = y > 0 ? in[i - n] : t, south = y < n - 1 ? in[i + n] : t;
      float west = x > 0 ? in[i - 1] : t, east = x < n - 1 ? in[i + 1] : t;
      out[i] = t + 0.1f * (power[i] + (south + north - 2 * t) * 0.5f +
                           (east + west - 2 * t) * 0.25f + (80 - t) * 0.01f);
    }
}

void diffusion(const float* in, float* out, int n, float q0) {
#pragma omp parallel for schedule(static)
  for (int y = 1; y < n - 1; ++y)
#pragma omp simd
    for (int x = 1; x < n - 1; ++x) {
      int i = y * n + x;
      float c = in[i], dn = in[i - n] - c, ds = in[i + n] - c, dw = in[i - 1] - c,
            de = in[i + 1] - c;
      float g2 = (dn * dn + ds * ds + dw * dw + de * de) / (c * c), l = (dn + ds + dw + de) / c;
      float num = 0.5f * g2 - 0.0625f * l * l, den = 1 + 0.25f * l, q = num / (den * den);
      float value = 1 / (1 + (q - q0) / (q0 * (1 + q0)));
      out[i] = std::min(std::max(value, 0.0f), 1.0f);
    }
}

void pathfinder(const int* wall, const int* from, int* to, int columns, int rows) {
  std::vector<int> now(from, from + columns);
  for (int r = 0; r < rows; ++r) {
#pragma omp parallel for simd schedule(static)
    for (int x = 1; x < columns - 1; ++x)
      to[x] = std::min(std::min(now[x - 1], now[x]), now[x + 1]) + wall[r * columns + x];
    to[0] = std::min(now[0], now[1]) + wall[r * columns];
    to[columns - 1] =
        std::min(now[columns - 2], now[columns - 1]) + wall[r * columns + columns - 1];
    if (r < rows - 1) std::copy(to, to + columns, now.begin());
  }
}

void pair_forces(const float* position, const int* neighbours, float* force, int n, int count) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < n; ++i) {
    float x = position[4 * i], y = position[4 * i + 1], z = position[4 * i + 2], fx = 0, fy = 0,
          fz = 0;
#pragma omp simd reduction(+ : fx, fy, fz)
    for (int k = 0; k < count; ++k) {
      const float* other = position + 4 * neighbours[k * n + i];
      float dx = x - other[0], dy = y - other[1], dz = z - other[2];
      float inverse = 1 / (dx * dx + dy * dy + dz * dz + 0.01f);
      float r6 = inverse * inverse * inverse, f = r6 * (r6 - 0.5f) * inverse;
      fx += dx * f;
      fy += dy * f;
      fz += dz * f;
    }
    force[4 * i] = fx;
    force[4 * i + 1] = fy;
    force[4 * i + 2] = fz;
    force[4 * i + 3] = 0;
  }
}

void nearest_centre(const float* points, const float* centres, int* out, int n, int count) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float best = 1e30f;
    int which = 0;
    for (int c = 0; c < count; ++c) {
      float sum = 0;
      for (int f = 0; f < 8; ++f) {
        float d = points[f * n + i] - centres[c * 8 + f];
        sum += d * d;
      }
      which = sum < best ? c : which;
      best = std::min(best, sum);
    }
    out[i] = which;
  }
}

void search_levels(const int* rows, const int* columns, int* level, int n, int depths) {
  std::fill(level + 1, level + n, -1);
  level[0] = 0;
  for (int depth = 0; depth < depths; ++depth)
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; ++i) {
      if (level[i] != depth) continue;
      for (int k = rows[i]; k < rows[i + 1]; ++k)
        if (level[columns[k]] < 0) level[columns[k]] = depth + 1;
    }
}

void monte_carlo(unsigned* hits, int threads, int tries) {
  unsigned sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
  for (int i = 0; i < threads; ++i) {
    unsigned state = static_cast<unsigned>(i) * 2654435761u + 12345u;
    for (int k = 0; k < tries; ++k) {
      state = state * 1664525u + 1013904223u;
      float x = static_cast<float>(static_cast<int>(state >> 8)) * (1.0f / 16777216);
      state = state * 1664525u + 1013904223u;
      float y = static_cast<float>(static_cast<int>(state >> 8)) * (1.0f / 16777216);
      sum += x * x + y * y < 1;
    }
  }
  *hits = sum;
}

void binomial(const float* price, float* out, float up, float down, int n) {
#pragma omp parallel for schedule(static)
  for (int o = 0; o < n; ++o) {
    float value[256];
    for (int t = 0; t < 256; ++t)
      value[t] = std::max(price[o] * std::exp(static_cast<float>(2 * t - 255) * 0.02f) - 100, 0.0f);
    for (int step = 255; step > 0; --step)
#pragma omp simd
      for (int t = 0; t < step; ++t) value[t] = up * value[t + 1] + down * value[t];
    out[o] = value[0];
  }
}

void integrate(float* position, float* velocity, int n, float dt) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    velocity[3 * i + 2] -= 9.81f * dt;
    for (int k = 0; k < 3; ++k) position[3 * i + k] += velocity[3 * i + k] * dt;
  }
}

}  // extern "C"
