// Half precision through the CUDA headers: scalar, packed, conversions, atomics.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half* a, const __half2* b, __half* c, __half2* d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half x = a[i];
  __half2 y = b[i];
  c[i] = __hfma(x, x, __hadd(x, __float2half(1.5f))) / x;
  d[i] = __hmax2(h2exp2(y), __hfma2(y, y, y)) + __hmul2_sat(y, y);
  if (__hgt(x, c[i]) || __hbeq2(y, d[i])) c[i] = hsqrt(__habs(x)) + htanh(x) + __int2half_rn(i);
  atomicAdd(&d[0], y);
  atomicAdd(&c[0], x);
}

extern "C" __global__ void brains(const __nv_bfloat16* a, const __nv_bfloat162* b, __nv_bfloat16* c, __nv_bfloat162* d) {
  int i = threadIdx.x;
  c[i] = __hfma(a[i], a[i], a[i]) + __float2bfloat16(2.5f) * hexp(a[i]);
  d[i] = __hmin2(b[i], __hadd2(b[i], b[i])) * __hfma2_relu(b[i], b[i], b[i]);
  d[i] += __floats2bfloat162_rn(__bfloat162float(a[i]), 3.0f);
  atomicAdd(&d[1], b[i]);
}

extern "C" __global__ void eights(const float2* a, __nv_fp8x2_e4m3* b, __nv_fp8x2_e5m2* c, __half2* d, float4* e) {
  int i = threadIdx.x;
  b[i] = __nv_fp8x2_e4m3(a[i]);
  c[i] = __nv_fp8x2_e5m2(a[i]);
  d[i] = static_cast<__half2>(b[i + 1]) + static_cast<__half2>(c[i + 1]);
  e[i] = make_float4(__half2float(d[i].x), __uint2float_rz(i), __double2float_rd(a[i].x), __ll2float_ru(i));
}
