// bench/cpp/kernels/source.cl: the ten kernels of source.cu in OpenCL C, for PoCL: line by line where the languages agree.
// OpenCL 1.2 has no float atomics (a compare-and-swap loop) and no shuffles (local memory and barriers).
kernel void saxpy(float a, global const float* x, global float* y, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + y[i];
}

kernel void vector_add(global const float* a, global const float* b, global float* c, int n) {
  int i = get_global_id(0);
  if (i < n) c[i] = a[i] + b[i];
}

#define TILE 16
kernel void matmul(global const float* a, global const float* b, global float* c, int n) {
  local float as[TILE][TILE], bs[TILE][TILE];
  int tx = get_local_id(0), ty = get_local_id(1);
  int row = get_group_id(1) * TILE + ty, column = get_group_id(0) * TILE + tx;
  float sum = 0;
  for (int t = 0; t < n / TILE; ++t) {
    as[ty][tx] = a[row * n + t * TILE + tx];
    bs[ty][tx] = b[(t * TILE + ty) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < TILE; ++k) sum += as[ty][k] * bs[k][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}

void add_float(volatile global float* to, float value) {
  volatile global int* word = (volatile global int*)to;
  int before = *word, seen;
  while ((seen = atomic_cmpxchg(word, before, as_int(as_float(before) + value))) != before) before = seen;
}

kernel void reduce(global const float* in, global float* out, int n) {
  local float partial[256];
  int i = get_global_id(0), t = get_local_id(0);
  partial[t] = i < n ? in[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = get_local_size(0) / 2; s > 0; s >>= 1) {
    if (t < s) partial[t] += partial[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) add_float(out, partial[0]);
}

kernel void histogram(global const uchar* in, volatile global uint* bins, int n) {
  local uint counts[256];
  counts[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&counts[in[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[get_local_id(0)], counts[get_local_id(0)]);
}

kernel void mandelbrot(global int* out, int width, int height, int most) {
  int px = get_global_id(0), py = get_global_id(1);
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

float normal_distribution(float d) {
  const float a1 = 0.31938153f, a2 = -0.356563782f, a3 = 1.781477937f, a4 = -1.821255978f, a5 = 1.330274429f;
  float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
  float c = 0.39894228040143267794f * exp(-0.5f * d * d) * (k * (a1 + k * (a2 + k * (a3 + k * (a4 + k * a5)))));
  return d > 0 ? 1.0f - c : c;
}

kernel void blackscholes(global float* call, global float* put, global const float* price, global const float* strike,
                         global const float* years, float rate, float volatility, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  float s = price[i], x = strike[i], t = years[i], root = sqrt(t);
  float d1 = (log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root), d2 = d1 - volatility * root;
  float n1 = normal_distribution(d1), n2 = normal_distribution(d2), discount = x * exp(-rate * t);
  call[i] = s * n1 - discount * n2;
  put[i] = discount * (1.0f - n2) - s * (1.0f - n1);
}

kernel void nbody(global const float4* position, global float4* force, int n) {
  local float4 tile[256];
  int i = get_global_id(0), t = get_local_id(0), size = get_local_size(0);
  float4 me = position[i];
  float ax = 0, ay = 0, az = 0;
  for (int base = 0; base < n; base += size) {
    tile[t] = position[base + t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < size; ++j) {
      float4 other = tile[j];
      float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
      float inverse = rsqrt(dx * dx + dy * dy + dz * dz + 1e-6f), s = other.w * inverse * inverse * inverse;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  force[i] = (float4)(ax, ay, az, 0);
}

kernel void stencil(global const float* in, global float* out, int nx, int ny, int nz) {
  int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
  int i = (z * ny + y) * nx + x;
  out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - nx * ny] + in[i + nx * ny]);
}

kernel void scan(global const int* in, global int* out, global int* sums, int n) {
  local int values[256];
  int i = get_global_id(0), t = get_local_id(0), size = get_local_size(0);
  values[t] = i < n ? in[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int d = 1; d < size; d <<= 1) {
    int other = t >= d ? values[t - d] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    values[t] += other;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i < n) out[i] = values[t];
  if (t == size - 1) sums[get_group_id(0)] = values[t];
}

kernel void empty(void) {}
