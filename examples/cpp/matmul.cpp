// Multiplies matrices twice: tiles in shared memory, and tensor cores through wmma (half precision
// in, single out).
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
#include <mma.h>
using namespace nvcuda;

constexpr int kTile = 16;

extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile], b_tile[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    b_tile[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();  // the tiles are whole
    for (int i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();  // all reads are done
  }
  c[row * n + column] = sum;
}

// One warp makes one 16 x 16 tile of c; the numbers become halves on their way through shared memory.
extern "C" __global__ void tensor_cores(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(32) half a_tile[kTile * kTile], b_tile[kTile * kTile];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_part;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_part;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  for (int k = 0; k < n; k += kTile) {
    for (int i = threadIdx.x; i < kTile * kTile; i += 32) {
      a_tile[i] = __float2half(a[(row + i / kTile) * n + k + i % kTile]);
      b_tile[i] = __float2half(b[(k + i / kTile) * n + column + i % kTile]);
    }
    __syncwarp();
    wmma::load_matrix_sync(a_part, a_tile, kTile);
    wmma::load_matrix_sync(b_part, b_tile, kTile);
    __syncwarp();
    wmma::mma_sync(sum, a_part, b_part, sum);
  }
  wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::ProgramOptions options;
  options.std = "c++17";
  options.use_bundled_headers = true;  // <mma.h>
  cucore::Program program{kSource, cucore::SourceType::cxx, options};
  const cucore::ObjectCode code = program.compile(cucore::CodeType::cubin);

  // Small whole numbers: a half holds them, and a float every sum of their products.
  constexpr int n = 128;
  std::vector<float> a(n * n);
  std::vector<float> b(n * n);
  std::vector<float> expected(n * n);
  std::vector<float> c(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i * 7 % 11);
    b[i] = static_cast<float>(i * 5 % 13);
  }
  for (int row = 0; row < n; ++row)
    for (int k = 0; k < n; ++k)
      for (int column = 0; column < n; ++column)
        expected[row * n + column] += a[row * n + k] * b[k * n + column];

  const std::size_t bytes = a.size() * sizeof(float);
  cucore::Buffer a_dev = device.allocate(bytes, stream);
  cucore::Buffer b_dev = device.allocate(bytes, stream);
  cucore::Buffer c_dev = device.allocate(bytes, stream);
  a_dev.copy_from(std::span{a}, stream);
  b_dev.copy_from(std::span{b}, stream);
  const auto multiply = [&](const char* name, cucore::Dim3 block) {
    c_dev.fill(0, stream);
    cucore::launch(stream, {.grid = {n / 16, n / 16}, .block = block}, code.get_kernel(name), a_dev,
                   b_dev, c_dev, n);
    c_dev.copy_to(std::span{c}, stream);
    stream.sync();
    std::printf("%s: %s, %d x %d\n", device.name().c_str(), name, n, n);
    return c == expected;
  };
  return multiply("tiled", {16, 16}) && multiply("tensor_cores", {32}) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
