// Tensor cores through wmma, and the sm_80 copies.
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void products(const half* a, const half* b, float* c, half* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> fd;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fd, d, 16, wmma::mem_row_major);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::mma_sync(fd, fa, fb, fd);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  wmma::store_matrix_sync(d, fd, 16, wmma::mem_col_major);
}

extern "C" __global__ void stages(const float4* a, float4* b, int n) {
  __shared__ float4 tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], a + threadIdx.x, 16, n & 15);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  b[threadIdx.x] = tile[63 - threadIdx.x];
}
