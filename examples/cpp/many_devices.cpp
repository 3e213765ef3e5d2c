// All devices share one job: a thread per device takes part after part until none is left. The
// result is compared with that of one device. CUCORE_CPU_DEVICES=4 shows four CPU devices.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
// How many steps a point of the complex plane takes to leave the circle of radius 2.
extern "C" __global__ void escape_times(int* out, int first_row, int width, int height, int limit) {
  int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
  if (x >= width) return;
  float cx = 3.0f * x / width - 2.25f, cy = 2.5f * (y + first_row) / height - 1.25f;
  float zx = 0, zy = 0;
  int steps = 0;
  for (; steps < limit && zx * zx + zy * zy < 4; ++steps) {
    float next = zx * zx - zy * zy + cx;
    zy = 2 * zx * zy + cy;
    zx = next;
  }
  out[y * width + x] = steps;
}
)";
constexpr int kWidth = 640, kHeight = 480, kRows = 16, kLimit = 200;
constexpr int kParts = (kHeight + kRows - 1) / kRows;

/// One line that changes on a terminal; elsewhere one line at the end.
void show(int done) {
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (terminal || done == kParts)
    std::printf("%s%3d %% of %d parts%s", terminal ? "\r" : "", 100 * done / kParts, kParts,
                done == kParts ? "\n" : "");
  std::fflush(stdout);
}

std::vector<int> compute(std::span<const cucore::Device> devices, const cucore::ObjectCode& code) {
  std::vector<int> image(std::size_t{kWidth} * kHeight);
  std::atomic<int> next{0}, done{0};
  std::vector<std::exception_ptr> errors(devices.size());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < devices.size(); ++k)
    threads.emplace_back([&, k] {
      try {
        const cucore::Device device = devices[k];
        device.set_current();  // for this thread
        const cucore::Stream stream = device.create_stream();
        const cucore::Kernel kernel = code.get_kernel("escape_times");
        const cucore::Buffer part =
            device.allocate(sizeof(int) * std::size_t{kWidth} * kRows, stream);
        for (int number = next++; number < kParts; number = next++) {
          const int first = number * kRows;
          const int count = std::min(kRows, kHeight - first);
          cucore::launch(
              stream,
              {.grid = {(kWidth + 127) / 128, static_cast<unsigned>(count)}, .block = {128}},
              kernel, part, first, kWidth, kHeight, kLimit);
          std::vector<int> block(std::size_t{kWidth} * kRows);
          part.copy_to(std::span{block}, stream);
          stream.sync();
          std::copy_n(block.begin(), std::size_t{kWidth} * static_cast<std::size_t>(count),
                      image.begin() + std::ptrdiff_t{kWidth} * first);
          show(++done);
        }
      } catch (...) {
        errors[k] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return image;
}

int main() try {
  const std::vector<cucore::Device> devices = cucore::Device::all();
  devices[0].set_current();
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const cucore::ObjectCode code = program.compile(cucore::CodeType::cubin);
  const std::vector<int> together = compute(devices, code);
  const std::vector<int> alone = compute(std::span{devices}.first(1), code);
  if (together != alone || *std::max_element(alone.begin(), alone.end()) != kLimit) return 1;
  std::printf("%zu devices and one device agree on %d x %d points\n", devices.size(), kWidth,
              kHeight);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
