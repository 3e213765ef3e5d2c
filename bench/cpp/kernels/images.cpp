// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/images.cpp: the native side of images.cu.
#include <algorithm>
#include <cmath>

extern "C" {

void sobel(const unsigned char* in, float* out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 1; y < height - 1; ++y)
#pragma omp simd
    for (int x = 1; x < width - 1; ++x) {
      const unsigned char *a = in + (y - 1) * width + x, *b = a + width, *c = b + width;
      int gx = a[1] - a[-1] + 2 * (b[1] - b[-1]) + c[1] - c[-1];
      int gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
      out[y * width + x] = std::sqrt(static_cast<float>(gx * gx + gy * gy));
    }
}

static inline void order(float& a, float& b) {
  float low = std::min(a, b);
  b = std::max(a, b);
  a = low;
}

void median(const float* in, float* out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 1; y < height - 1; ++y)
#pragma omp simd
    for (int x = 1; x < width - 1; ++x) {
      const float *a = in + (y - 1) * width + x, *b = a + width, *c = b + width;
      float v[9] = {a[-1], a[0], a[1], b[-1], b[0], b[1], c[-1], c[0], c[1]};
#pragma GCC unroll 8
      for (int end = 8; end > 3; --end)
#pragma GCC unroll 8
        for (int i = 0; i < end; ++i) order(v[i], v[i + 1]);
      out[y * width + x] = v[4];
    }
}

void bilateral(const float* in, float* out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 2; y < height - 2; ++y)
#pragma omp simd
    for (int x = 2; x < width - 2; ++x) {
      float here = in[y * width + x], sum = 0, weights = 0;
      for (int j = -2; j <= 2; ++j)
        for (int i = -2; i <= 2; ++i) {
          float other = in[(y + j) * width + x + i], d = other - here;
          float weight = std::exp(-0.125f * static_cast<float>(i * i + j * j) - 8 * d * d);
          sum += weight * other;
          weights += weight;
        }
      out[y * width + x] = sum / weights;
    }
}

void box_blur(const float* in, float* out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < height; ++y) {
    const int rows[] = {std::max(y - 1, 0) * width, y * width, std::min(y + 1, height - 1) * width};
    const auto blur = [&](int x, int left, int right) {
      float sum = 0;
      for (int row : rows) sum += in[row + left] + in[row + x] + in[row + right];
      out[y * width + x] = sum / 9;
    };
    blur(0, 0, 1);
#pragma omp simd
    for (int x = 1; x < width - 1; ++x) blur(x, x - 1, x + 1);
    blur(width - 1, width - 2, width - 1);
  }
}

void upscale(const float* in, float* out, int width, int height) {
#pragma omp parallel for schedule(static)
  for (int y = 0; y < 2 * height; ++y) {
    float fy =
        std::clamp(0.5f * static_cast<float>(y) - 0.25f, 0.0f, static_cast<float>(height - 1));
    int iy = static_cast<int>(fy), jy = std::min(iy + 1, height - 1);
    float v = fy - static_cast<float>(iy);
#pragma omp simd
    for (int x = 0; x < 2 * width; ++x) {
      float fx = std::min(std::max(0.5f * static_cast<float>(x) - 0.25f, 0.0f),
                          static_cast<float>(width - 1));
      int ix = static_cast<int>(fx), jx = std::min(ix + 1, width - 1);
      float u = fx - static_cast<float>(ix);
      float top = in[iy * width + ix] * (1 - u) + in[iy * width + jx] * u;
      float bottom = in[jy * width + ix] * (1 - u) + in[jy * width + jx] * u;
      out[y * 2 * width + x] = top * (1 - v) + bottom * v;
    }
  }
}

void rgb_to_yuv(const unsigned char* in, float* y, float* u, float* v, int n) {
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < n; ++i) {
    float r = in[3 * i], g = in[3 * i + 1], b = in[3 * i + 2];
    y[i] = 0.299f * r + 0.587f * g + 0.114f * b;
    u[i] = -0.14713f * r - 0.28886f * g + 0.436f * b;
    v[i] = 0.615f * r - 0.51499f * g - 0.10001f * b;
  }
}

}  // extern "C"
