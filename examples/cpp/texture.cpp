// Samples a small picture through a texture: the hardware interpolates, wraps and converts.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

#include "cucore/cucore.hpp"

// Enlarges the picture: each thread samples a point between the pixels.
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
  const cucore::OpaqueArray array{{.shape = {4, 4}, .format = cucore::ArrayFormat::uint8}};
  array.copy_from(std::span{picture}, stream);

  cucore::TextureObjectOptions sampling;  // beyond the edge lies the edge, unless told otherwise
  sampling.filter_mode = cucore::FilterMode::linear;        // a mix of the four nearest pixels
  sampling.read_mode = cucore::ReadMode::normalized_float;  // 0..255 reads as 0..1
  sampling.normalized_coords = true;                        // coordinates of the picture are 0 to 1
  const cucore::TextureObject texture{cucore::ResourceDescriptor::from_opaque_array(array),
                                      sampling};

  std::array<float, 32> out{};
  cucore::Buffer buffer = device.allocate(sizeof out, stream);
  cucore::launch(stream, {.grid = {1}, .block = {32}}, enlarge, texture, buffer,
                 static_cast<int>(out.size()));
  buffer.copy_to(std::span{out}, stream);
  stream.sync();

  // The same mix on the host: 8 bits of fraction is what texture units keep.
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
