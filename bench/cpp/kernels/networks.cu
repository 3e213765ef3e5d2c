// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/networks.cu: layers of language models, as in training and inference by hand.
extern "C" __global__ void gelu(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i], cube = 0.044715f * x * x * x;
  out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + cube)));
}

extern "C" __global__ void residual(const float4* a, const float4* b, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 x = a[i], y = b[i];
  out[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// Token and position vectors of `channels` numbers.
extern "C" __global__ void embed(const int* tokens, const float* words, const float* places, float* out, int length, int channels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = i / channels, c = i % channels;
  out[i] = words[tokens[t] * channels + c] + places[t % length * channels + c];
}

extern "C" __global__ void adamw(float* parameters, const float* gradients, float* m, float* v, int n, float rate, float decay,
                                 float correction1, float correction2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float g = gradients[i], first = 0.9f * m[i] + 0.1f * g, second = 0.95f * v[i] + 0.05f * g * g;
  m[i] = first;
  v[i] = second;
  first /= correction1;
  second /= correction2;
  parameters[i] -= rate * (first / (sqrtf(second) + 1e-8f) + decay * parameters[i]);
}

// The loss of a row of scores: a warp per row.
extern "C" __global__ void cross_entropy(const float* scores, const int* targets, float* losses, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* x = scores + row * columns;
  float most = __int_as_float(0xff800000), sum = 0;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, x[i]);
  for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
  for (int i = lane; i < columns; i += 32) sum += __expf(x[i] - most);
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (lane == 0) losses[row] = logf(sum) + most - x[targets[row]];
}

// Rotary position embedding: pairs of numbers turn by an angle that depends on the position.
extern "C" __global__ void rope(const float2* in, const float2* turns, float2* out, int pairs, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 v = in[i], t = turns[i % pairs];
  out[i] = make_float2(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
}

extern "C" __global__ void rms_norm(const float* in, const float* gain, float* out, int columns) {
  __shared__ float warps[8];
  const float* x = in + blockIdx.x * columns;
  float square = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) square += x[i] * x[i];
  for (int d = 16; d > 0; d >>= 1) square += __shfl_xor_sync(0xffffffff, square, d);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x / 32] = square;
  __syncthreads();
  square = 0;
  for (int w = 0; w < 8; ++w) square += warps[w];
  float scale = rsqrtf(square / columns + 1e-6f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = x[i] * scale * gain[i];
}

// From [position][head][number] to [head][position][number].
extern "C" __global__ void split_heads(const float* in, float* out, int length, int heads, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, d = i % size, h = i / size % heads, t = i / size / heads;
  out[(h * length + t) * size + d] = in[i];
}

extern "C" __global__ void silu_gate(const float* gate, const float* up, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = gate[i] / (1.0f + __expf(-gate[i])) * up[i];
}
