// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/simulation.cu: physics, search and clustering, in the manner of benchmark suites for GPUs.

// Temperatures on a chip: one step with a source of power per cell.
extern "C" __global__ void hotspot(const float* in, const float* power, float* out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * n + x;
  float t = in[i], north = y > 0 ? in[i - n] : t, south = y < n - 1 ? in[i + n] : t;
  float west = x > 0 ? in[i - 1] : t, east = x < n - 1 ? in[i + 1] : t;
  out[i] = t + 0.1f * (power[i] + (south + north - 2 * t) * 0.5f + (east + west - 2 * t) * 0.25f + (80 - t) * 0.01f);
}

// Speckle reduction: the diffusion coefficient of every pixel.
extern "C" __global__ void diffusion(const float* in, float* out, int n, float q0) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * n + x;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  float c = in[i], dn = in[i - n] - c, ds = in[i + n] - c, dw = in[i - 1] - c, de = in[i + 1] - c;
  float g2 = (dn * dn + ds * ds + dw * dw + de * de) / (c * c), l = (dn + ds + dw + de) / c;
  float num = 0.5f * g2 - 0.0625f * l * l, den = 1 + 0.25f * l, q = num / (den * den);
  float value = 1 / (1 + (q - q0) / (q0 * (1 + q0)));
  out[i] = fminf(fmaxf(value, 0), 1);
}

// Cheapest way down a grid: each step moves straight or to a neighbour. A block does `steps` rows of its 256 columns in shared memory, of
// which the outer ones become invalid.
extern "C" __global__ void pathfinder(const int* wall, const int* from, int* to, int columns, int row, int steps) {
  __shared__ int now[256], next[256];
  int inside = 256 - 2 * steps, column = blockIdx.x * inside - steps + (int)threadIdx.x, t = threadIdx.x;
  bool valid = column >= 0 && column < columns;
  now[t] = valid ? from[column] : 1 << 30;
  for (int s = 0; s < steps; ++s) {
    __syncthreads();
    int best = now[t];
    if (t > 0) best = min(best, now[t - 1]);
    if (t < 255) best = min(best, now[t + 1]);
    next[t] = valid ? best + wall[(row + s) * columns + column] : 1 << 30;
    __syncthreads();
    now[t] = next[t];
  }
  if (valid && t >= steps && t < 256 - steps) to[column] = now[t];
}

// Lennard-Jones forces with a list of neighbours per particle.
extern "C" __global__ void pair_forces(const float4* position, const int* neighbours, float4* force, int n, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 me = position[i];
  float fx = 0, fy = 0, fz = 0;
  for (int k = 0; k < count; ++k) {
    float4 other = position[neighbours[k * n + i]];
    float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z, r2 = dx * dx + dy * dy + dz * dz + 0.01f;
    float inverse = 1 / r2, r6 = inverse * inverse * inverse, f = r6 * (r6 - 0.5f) * inverse;
    fx += dx * f;
    fy += dy * f;
    fz += dz * f;
  }
  force[i] = make_float4(fx, fy, fz, 0);
}

// The nearest of the centres; eight features per point, by feature.
extern "C" __global__ void nearest_centre(const float* points, const float* centres, int* out, int n, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int which = 0;
  for (int c = 0; c < count; ++c) {
    float sum = 0;
    for (int f = 0; f < 8; ++f) {
      float d = points[f * n + i] - centres[c * 8 + f];
      sum += d * d;
    }
    if (sum < best) {
      best = sum;
      which = c;
    }
  }
  out[i] = which;
}

// One level of a breadth-first search.
extern "C" __global__ void search_level(const int* rows, const int* columns, int* level, int n, int depth) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || level[i] != depth) return;
  for (int k = rows[i]; k < rows[i + 1]; ++k)
    if (level[columns[k]] < 0) level[columns[k]] = depth + 1;
}

extern "C" __global__ void monte_carlo(unsigned* hits, int tries) {
  unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u, inside = 0;
  for (int k = 0; k < tries; ++k) {
    state = state * 1664525u + 1013904223u;
    float x = (state >> 8) * (1.0f / 16777216);
    state = state * 1664525u + 1013904223u;
    float y = (state >> 8) * (1.0f / 16777216);
    inside += x * x + y * y < 1;
  }
  atomicAdd(hits, inside);
}

// An option by a binomial tree of 255 steps; a block per option.
extern "C" __global__ void binomial(const float* price, float* out, float up, float down) {
  __shared__ float value[256];
  int t = threadIdx.x;
  float s = price[blockIdx.x] * __expf((2 * t - 255) * 0.02f);
  value[t] = fmaxf(s - 100, 0);
  for (int step = 255; step > 0; --step) {
    __syncthreads();
    float v = t < step ? up * value[t + 1] + down * value[t] : 0;
    __syncthreads();
    if (t < step) value[t] = v;
  }
  if (t == 0) out[blockIdx.x] = value[0];
}

// Positions and velocities as structures of three numbers.
extern "C" __global__ void integrate(float3* position, float3* velocity, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float3 p = position[i], v = velocity[i];
  v.z -= 9.81f * dt;
  p.x += v.x * dt;
  p.y += v.y * dt;
  p.z += v.z * dt;
  position[i] = p;
  velocity[i] = v;
}
