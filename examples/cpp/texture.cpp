// Samples a small picture through a texture: the hardware interpolates, wraps and converts. Arrays
// and textures are the driver's own calls; CUCORE_CALL turns a failure into an exception.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

#include "cucore/cucore.hpp"

// Enlarges the picture: each thread asks for a point between the pixels.
constexpr const char* kSource = R"(
extern "C" __global__ void enlarge(cudaTextureObject_t picture, float* out, int width) {
  out[threadIdx.x] = tex2D<float>(picture, (threadIdx.x + 0.5f) / width, 0.5f);
}
)";

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel enlarge = program.compile(cucore::CodeType::cubin).get_kernel("enlarge");

  const std::array<unsigned char, 4> row{0, 64, 128, 255};
  std::array<std::array<unsigned char, 4>, 4> picture;
  picture.fill(row);
  const CUDA_ARRAY_DESCRIPTOR shape{4, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray array = nullptr;
  CUCORE_CALL(cuArrayCreate(&array, &shape));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = picture.data();
  copy.srcPitch = sizeof row;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = sizeof row;
  copy.Height = picture.size();
  CUCORE_CALL(cuMemcpy2DAsync(&copy, stream.handle()));

  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC sampling{};  // 0..255 reads as 0..1: a texture of bytes is one of fractions
  std::ranges::fill(sampling.addressMode,
                    CU_TR_ADDRESS_MODE_CLAMP);      // beyond the edge lies the edge
  sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;   // a point between pixels is a mix of four
  sampling.flags = CU_TRSF_NORMALIZED_COORDINATES;  // the picture goes from 0 to 1
  CUtexObject texture = 0;
  CUCORE_CALL(cuTexObjectCreate(&texture, &resource, &sampling, nullptr));

  std::array<float, 32> out{};
  cucore::Buffer buffer = device.allocate(sizeof out, stream);
  cucore::launch(stream, {.grid = {1}, .block = {32}}, enlarge, texture, buffer,
                 static_cast<int>(out.size()));
  buffer.copy_to(std::span{out}, stream);
  stream.sync();
  CUCORE_CALL(cuTexObjectDestroy(texture));
  CUCORE_CALL(cuArrayDestroy(array));

  // The same mix by hand: 8 bits of fraction is what texture units keep.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float at = (static_cast<float>(i) + 0.5F) / 32 * 4 - 0.5F;
    const float below = std::floor(at);
    const auto pixel = [&](float x) {
      return row[static_cast<int>(std::clamp(x, 0.0F, 3.0F))] / 255.0F;
    };
    const float mix = pixel(below) + (at - below) * (pixel(below + 1) - pixel(below));
    if (std::abs(out[i] - mix) > 1.0F / 256) return 1;
  }
  std::printf("%s: 4 pixels enlarged to %zu\n", device.name().c_str(), out.size());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
