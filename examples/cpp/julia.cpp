// Draws a Julia set and writes it as PNG, with the standard library alone: example_julia
// [julia.png]
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void julia(uchar3* pixels, int width, int height, float2 c) {
  const int px = threadIdx.x + blockIdx.x * blockDim.x, py = threadIdx.y + blockIdx.y * blockDim.y;
  if (px >= width || py >= height) return;
  float x = 3.2f * (px - 0.5f * width) / width, y = 3.2f * (py - 0.5f * height) / width;
  int step = 0;
  for (; step < 256 && x * x + y * y < 16.0f; ++step) {
    const float next = x * x - y * y + c.x;
    y = 2.0f * x * y + c.y;
    x = next;
  }
  // A smooth count of steps, and a palette of three shifted waves.
  const float smooth = step == 256 ? 0.0f : (step + 1 - log2f(0.5f * log2f(x * x + y * y))) / 64.0f;
  const auto wave = [&](float shift) {
    return static_cast<unsigned char>(step == 256 ? 0 : 127.5f - 127.5f * cospif(2.0f * (smooth + shift)));
  };
  pixels[py * width + px] = make_uchar3(wave(0.05f), wave(0.0f), wave(-0.1f));
}
)";

struct Float2 {  // the kernel's float2
  float x, y;
};

// The four bytes of a number, the largest first, as PNG has them.
std::string bytes(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// A part of a PNG file: length, name, data, and a checksum of the last two.
std::string chunk(const std::string& name, const std::string& data) {
  std::uint32_t crc = ~0U;
  for (const unsigned char byte : name + data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320U : 0U);
  }
  return bytes(static_cast<std::uint32_t>(data.size())) + name + data + bytes(~crc);
}

// zlib's format with nothing compressed: blocks of at most 65535 bytes, and a checksum.
std::string stored(std::string_view data) {
  std::string out = "\x78\x01";
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const unsigned char byte : data) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  while (true) {
    const std::string_view block = data.substr(0, 65535);
    data.remove_prefix(block.size());
    const auto length = static_cast<std::uint16_t>(block.size());
    const auto inverse = static_cast<std::uint16_t>(~length);
    out += data.empty() ? '\1' : '\0';  // 1: the last one
    out += {static_cast<char>(length), static_cast<char>(length >> 8), static_cast<char>(inverse),
            static_cast<char>(inverse >> 8)};
    out += block;
    if (data.empty()) return out + bytes(high << 16 | low);
  }
}

// A PNG file: signature, header, the rows (each with filter 0 in front), end.
std::string png(int width, int height, std::span<const char> rgb) {
  std::string rows;
  for (int y = 0; y < height; ++y) {
    const auto row = rgb.subspan(std::size_t{3} * width * y, std::size_t{3} * width);
    rows.append(1, '\0').append(row.data(), row.size());
  }
  const std::string header = bytes(width) + bytes(height) + std::string{8, 2, 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", stored(rows)) +
         chunk("IEND", "");
}

int main(int count, char** arguments) try {
  const std::string path = count > 1 ? arguments[1] : "julia.png";
  constexpr int width = 640;
  constexpr int height = 400;
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::Kernel julia = program.compile(cucore::CodeType::cubin).get_kernel("julia");

  std::vector<char> pixels(3 * width * height);
  cucore::Buffer buffer = device.allocate(pixels.size(), stream);
  cucore::launch(stream, {.grid = {(width + 31) / 32, (height + 7) / 8}, .block = {32, 8}}, julia,
                 buffer, width, height, Float2{-0.79F, 0.15F});
  buffer.copy_to(std::span{pixels}, stream);
  stream.sync();

  std::ofstream file{path, std::ios::binary};
  file << png(width, height, pixels);
  if (!file.flush()) throw std::runtime_error{"cannot write " + path};
  std::printf("%s: %s, %d x %d\n", device.name().c_str(), path.c_str(), width, height);
  return std::set<char>(pixels.begin(), pixels.end()).size() > 100 ? 0 : 1;  // no flat colour
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
