// Tensor maps: the tensor memory accelerator brings a tile of a matrix into shared memory (compute
// capability 9.0). A descriptor made on the host describes the layout of the matrix in memory; in
// the kernel, one thread requests a tile.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

struct alignas(64) TensorMap { char opaque[128]; };  // CUtensorMap of <cuda.h>, a header NVRTC cannot read

constexpr int kTile = 16;

// Transposes a matrix tile by tile. Tiles that stick out of the matrix are filled with zeros.
extern "C" __global__ void transpose(const __grid_constant__ TensorMap map, float* out, int rows, int columns) {
  __shared__ alignas(128) float tile[kTile][kTile];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier arrived;
  if (threadIdx.x == 0) {
    init(&arrived, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);  // the accelerator sees it too
  }
  __syncthreads();

  const int x = blockIdx.x * kTile, y = blockIdx.y * kTile;
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    const int corner[2] = {x, y};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &tile, &map, corner,
                              cuda::device::barrier_native_handle(arrived));
    token = cuda::device::barrier_arrive_tx(arrived, 1, sizeof(tile));
  } else {
    token = arrived.arrive();
  }
  arrived.wait(cuda::std::move(token));  // the tile is here

  for (int i = threadIdx.x; i < kTile * kTile; i += blockDim.x) {
    const int row = i % kTile, column = i / kTile;
    if (x + column < columns && y + row < rows) out[(x + column) * rows + y + row] = tile[row][column];
  }
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  if (device.compute_capability().major < 9) {
    std::printf("%s has no tensor memory accelerator\n", device.name().c_str());
    return 0;
  }
  const cucore::Stream stream = device.create_stream();
  cucore::ProgramOptions options;
  options.std = "c++17";
  for (const char* name : {"cudart", "cccl"})  // <cuda/barrier>
    if (const auto found = cucore::pathfinder::locate_nvidia_header_directory(name))
      options.include_path.push_back(found->abs_path);
  cucore::Program program{kSource, cucore::SourceType::cxx, options};
  const cucore::Kernel transpose = program.compile(cucore::CodeType::cubin).get_kernel("transpose");

  constexpr unsigned rows = 40;
  constexpr unsigned columns = 52;
  std::vector<float> matrix(rows * columns);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  std::vector<float> result(matrix.size());
  cucore::Buffer source = device.allocate(matrix.size() * sizeof(float), stream);
  cucore::Buffer target = device.allocate(result.size() * sizeof(float), stream);
  source.copy_from(std::span{matrix}, stream);

  const cucore::TensorMapDescriptor map{{.ptr = source.handle(), .shape = {rows, columns}},
                                        {.box_dim = {16, 16}}};
  cucore::launch(stream, {.grid = {(columns + 15) / 16, (rows + 15) / 16}, .block = {64}},
                 transpose, map, target, static_cast<int>(rows), static_cast<int>(columns));
  target.copy_to(std::span{result}, stream);
  stream.sync();

  for (unsigned row = 0; row < rows; ++row)
    for (unsigned column = 0; column < columns; ++column)
      if (result[column * rows + row] != matrix[row * columns + column]) return 1;
  std::printf("%s: transposed %u x %u in tiles that the accelerator fetched\n",
              device.name().c_str(), rows, columns);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
