// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/source.cu: kernels as a CUDA programmer writes them; compiled by NVRTC when the benchmark runs.
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

#define TILE 16
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / TILE; ++t) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t * TILE + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t * TILE + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

extern "C" __global__ void reduce(const float* in, float* out, int n) {
  __shared__ float partial[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  partial[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[in[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void mandelbrot(int* out, int width, int height, int most) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;
  float cx = -2.0f + 3.0f * px / width, cy = -1.5f + 3.0f * py / height, x = 0, y = 0;
  int n = 0;
  while (x * x + y * y <= 4.0f && n < most) {
    float t = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = t;
    ++n;
  }
  out[py * width + px] = n;
}

__device__ float normal(float d) {
  const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228040143267794f * expf(-0.5f * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
  return d > 0 ? 1.0f - c : c;
}

extern "C" __global__ void blackscholes(float* call, float* put, const float* price, const float* strike, const float* years, float rate,
                                        float volatility, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = price[i], x = strike[i], t = years[i], root = sqrtf(t);
  float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root), d2 = d1 - volatility * root;
  float n1 = normal(d1), n2 = normal(d2), discount = x * expf(-rate * t);
  call[i] = s * n1 - discount * n2;
  put[i] = discount * (1.0f - n2) - s * (1.0f - n1);
}

extern "C" __global__ void nbody(const float4* position, float4* force, int n) {
  __shared__ float4 tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = position[i];
  float ax = 0, ay = 0, az = 0;
  for (int base = 0; base < n; base += blockDim.x) {
    tile[threadIdx.x] = position[base + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < blockDim.x; ++j) {
      float4 other = tile[j];
      float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f), s = other.w * inverse * inverse * inverse;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    __syncthreads();
  }
  force[i] = make_float4(ax, ay, az, 0);
}

extern "C" __global__ void stencil(const float* in, float* out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  int i = (z * ny + y) * nx + x;
  out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - nx * ny] + in[i + nx * ny]);
}

extern "C" __global__ void scan(const int* in, int* out, int* sums, int n) {
  __shared__ int warps[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int v = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(0xffffffff, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) warps[warp] = v;
  __syncthreads();
  if (warp == 0) {
    int w = lane < blockDim.x / 32 ? warps[lane] : 0;
    for (int d = 1; d < 32; d <<= 1) {
      int other = __shfl_up_sync(0xffffffff, w, d);
      if (lane >= d) w += other;
    }
    warps[lane] = w;
  }
  __syncthreads();
  if (warp > 0) v += warps[warp - 1];
  if (i < n) out[i] = v;
  if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = v;
}

extern "C" __global__ void empty() {}

// A chain of additions: some microseconds for each block, whatever the memory does.
extern "C" __global__ void chain(float* out, int steps) {
  float x = threadIdx.x;
  for (int i = 0; i < steps; ++i) x = x * 0.75f + 1.0f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// A chain for the only thread of each block, and how long it took. The row of a block in `records`:
// the number of launches, the result, and the nanoseconds of each launch (the CPU device's clock has
// 1 GHz).
extern "C" __global__ void recorded_chain(long long* records, int length, int steps) {
  const long long start = clock64();
  float x = blockIdx.x;
  for (int i = 0; i < steps; ++i) x = x * 0.75f + 1.0f;
  long long* row = records + (long long)blockIdx.x * length;
  row[1] = (long long)x;
  asm volatile("" ::: "memory");  // the chain ends before the clock is read
  row[2 + row[0]] = clock64() - start;
  row[0] += 1;
}
