struct Point {
  float x, y;
  int tag[3];
};
enum Mode { kAdd, kMul };
__device__ int counter;
__constant__ float table[4] = {1, 2, 3, 4};
__device__ __noinline__ float scale(float v, float s) {
  float r = v * s;
  return r;
}
__device__ __forceinline__ float twice(float v) {
  float t = v + v;
  return t;
}
__device__ __noinline__ int factorial(int n) {
  return n < 2 ? 1 : n * factorial(n - 1);
}
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y, Point p) {
  __shared__ float tile[32];
  extern __shared__ int dynamic[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Mode mode = kMul;
  float local[3] = {1, 2, a};
  if (threadIdx.x < 8) dynamic[threadIdx.x] = i * 10;
  if (i < n) {
    float v = scale(x[i], a);
    for (int k = 0; k < 2; ++k) {
      float w = twice(v);
      v = w + table[k];
    }
    tile[threadIdx.x] = v + p.x;
    __syncthreads();
    y[i] += v + tile[0] + local[i % 3];
    if (mode == kAdd) counter = factorial(3);
  }
}
