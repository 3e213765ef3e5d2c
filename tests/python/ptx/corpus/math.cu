// The math library as NVRTC inlines it: slow paths with local arrays and tables, directed rounding, doubles.
extern "C" __global__ void singles(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i];
  b[i] = sinf(x) + cosf(x) * tanf(x) + expf(x) + logf(x) + powf(x, 1.3f) + rsqrtf(x) + erff(x) + tgammaf(x) + cbrtf(x);
  b[i] += __expf(x) + __logf(x) + __sinf(x) + __fdividef(x, 3.f) + fmodf(x, 2.5f) + atan2f(x, 2.f) + log1pf(x) + rintf(x);
  b[i] += __fadd_rd(x, 1.f) + __fmul_ru(x, 3.f) + __fdiv_rz(x, 7.f) + __fsqrt_rd(x) + __fmaf_rz(x, x, x) + __frcp_ru(x);
  b[i] += j0f(x) + normcdff(x) + ldexpf(x, 3) + (float)__float2int_rn(x) + nextafterf(x, 1.f) + __saturatef(x) + tanhf(x);
}

extern "C" __global__ void doubles(const double* a, double* b, long long* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = a[i];
  b[i] = sin(x) + exp(x) * log(x) + pow(x, 2.7) + sqrt(x) / x + fma(x, x, x) + __dadd_ru(x, 1.0) + __dmul_rd(x, 3.0);
  b[i] += __ddiv_rz(x, 3.0) + __dsqrt_rn(x) + rsqrt(x) + cbrt(x) + erf(x) + floor(x) + fmin(x, 1.0) + remainder(x, 3.0);
  c[i] = __double2ll_rn(x) + llrint(x) + __double_as_longlong(x) + (long long)(unsigned long long)x;
}

extern "C" __global__ void integers(const int* a, int* b, const unsigned long long* c, unsigned long long* d, int n) {
  int i = threadIdx.x;
  int x = a[i], y = a[i + 1];
  b[i] = x / y + x % y + __mulhi(x, y) + __clz(x) + __ffs(y) + __popc(x) + __brev(y) + __byte_perm(x, y, 0x1240) + __sad(x, y, 3);
  b[i] += __funnelshift_l(x, y, i) + __dp4a(x, y, i) + __dp2a_lo(x, y, i) + abs(x) + min(x, y) + __viaddmax_s32(x, y, i);
  b[i] += __vadd2(x, y) + __vabsdiffu4(x, y) + __vmaxs2(x, y) + __vcmpgtu4(x, y) + __vavgs2(x, y) + __uhadd(x, y) + __rhadd(x, y);
  d[i] = c[i] / c[i + 1] + c[i] % c[i + 1] + __umul64hi(c[i], c[i + 1]) + (c[i] >> (y & 63)) + __clzll(c[i]);
  __int128 w = (__int128)c[i] * c[i + 1] + x;
  d[i] += (unsigned long long)(w >> 37) + (unsigned long long)(w / (y | 1));
}
