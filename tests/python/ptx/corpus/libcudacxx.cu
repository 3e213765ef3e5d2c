// libcu++: atomics, barriers, pipelines, and the usual suspects of the standard library.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>

extern "C" __global__ void atoms(int* a, unsigned long long* b, float* c, double* d) {
  cuda::atomic_ref<int, cuda::thread_scope_device> r(a[0]);
  r.fetch_add(1, cuda::memory_order_acq_rel);
  r.fetch_max(threadIdx.x, cuda::memory_order_relaxed);
  int expected = 5;
  r.compare_exchange_strong(expected, 7);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_block> s(b[0]);
  s.fetch_xor(3), s.exchange(s.load(cuda::memory_order_acquire) + 1);
  atomicInc((unsigned*)a + 1, 10), atomicDec((unsigned*)a + 2, 10), atomicCAS((unsigned short*)c, 1, 2);
  atomicAdd(c + 1, 1.5f), atomicAdd(d, 2.5), atomicAdd_system(a + 3, 1), atomicMin(b + 1, 5ull), atomicExch(c + 2, 1.f);
  atomicAnd(a + 4, 3), atomicOr_block(a + 5, 3), __threadfence(), __threadfence_system(), __threadfence_block();
}

extern "C" __global__ void barriers(int* a) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  a[threadIdx.x] += 1;
  auto token = bar.arrive();
  bar.wait(cuda::std::move(token));
  a[threadIdx.x] += a[(threadIdx.x + 1) % blockDim.x];
  bar.arrive_and_wait();
}

extern "C" __global__ void pipelines(const int4* a, int4* b, int n) {
  __shared__ int4 buffer[2][128];
  auto pipe = cuda::make_pipeline();
  for (int i = 0; i < n; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(&buffer[i & 1][threadIdx.x], a + i * 128 + threadIdx.x, cuda::aligned_size_t<16>(16), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    b[i * 128 + threadIdx.x] = buffer[i & 1][127 - threadIdx.x];
    pipe.consumer_release();
  }
}

extern "C" __global__ void standard(const cuda::std::complex<float>* a, cuda::std::complex<float>* b) {
  cuda::std::array<cuda::std::complex<float>, 4> t;
  for (int i = 0; i < 4; ++i) t[i] = a[threadIdx.x + i] * cuda::std::exp(a[i]);
  cuda::std::span<cuda::std::complex<float>> s(t.data(), 4);
  b[threadIdx.x] = s[threadIdx.x & 3] / (t[1] + cuda::std::complex<float>(cuda::std::numeric_limits<float>::epsilon(), 1));
}
