// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/images.cu: filters and conversions of images.
extern "C" __global__ void sobel(const unsigned char* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const unsigned char *a = in + (y - 1) * width + x, *b = a + width, *c = b + width;
  int gx = a[1] - a[-1] + 2 * (b[1] - b[-1]) + c[1] - c[-1];
  int gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
  out[y * width + x] = sqrtf((float)(gx * gx + gy * gy));
}

__device__ void order(float& a, float& b) {
  float low = fminf(a, b);
  b = fmaxf(a, b);
  a = low;
}

extern "C" __global__ void median(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  float v[9];
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 3; ++i) v[3 * j + i] = in[(y + j - 1) * width + x + i - 1];
  for (int end = 8; end > 3; --end)
    for (int i = 0; i < end; ++i) order(v[i], v[i + 1]);
  out[y * width + x] = v[4];
}

extern "C" __global__ void bilateral(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 2 || y < 2 || x >= width - 2 || y >= height - 2) return;
  float here = in[y * width + x], sum = 0, weights = 0;
  for (int j = -2; j <= 2; ++j)
    for (int i = -2; i <= 2; ++i) {
      float other = in[(y + j) * width + x + i], d = other - here;
      float weight = __expf(-0.125f * (i * i + j * j) - 8 * d * d);
      sum += weight * other;
      weights += weight;
    }
  out[y * width + x] = sum / weights;
}

// A tile of 16 x 16 with a border of one pixel in shared memory.
extern "C" __global__ void box_blur(const float* in, float* out, int width, int height) {
  __shared__ float tile[18][18];
  int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 16 - 1;
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
    int x = min(max(x0 + i % 18, 0), width - 1), y = min(max(y0 + i / 18, 0), height - 1);
    tile[i / 18][i % 18] = in[y * width + x];
  }
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 3; ++i) sum += tile[threadIdx.y + j][threadIdx.x + i];
  out[(y0 + 1 + threadIdx.y) * width + x0 + 1 + threadIdx.x] = sum / 9;
}

// Twice the size, bilinear: out pixels lie at quarters of in pixels.
extern "C" __global__ void upscale(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float fx = fminf(fmaxf(0.5f * x - 0.25f, 0), width - 1), fy = fminf(fmaxf(0.5f * y - 0.25f, 0), height - 1);
  int ix = (int)fx, iy = (int)fy, jx = min(ix + 1, width - 1), jy = min(iy + 1, height - 1);
  float u = fx - ix, v = fy - iy;
  float top = in[iy * width + ix] * (1 - u) + in[iy * width + jx] * u;
  float bottom = in[jy * width + ix] * (1 - u) + in[jy * width + jx] * u;
  out[y * 2 * width + x] = top * (1 - v) + bottom * v;
}

extern "C" __global__ void rgb_to_yuv(const unsigned char* in, float* y, float* u, float* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float r = in[3 * i], g = in[3 * i + 1], b = in[3 * i + 2];
  y[i] = 0.299f * r + 0.587f * g + 0.114f * b;
  u[i] = -0.14713f * r - 0.28886f * g + 0.436f * b;
  v[i] = 0.615f * r - 0.51499f * g - 0.10001f * b;
}
