// Compiles two sources apart and links them; the program cache answers the second time.
#include <cstdio>
#include <span>
#include <vector>

#include "cucore/buffer.hpp"
#include "cucore/device.hpp"
#include "cucore/launch.hpp"
#include "cucore/linker.hpp"
#include "cucore/program_cache.hpp"
#include "cucore/stream.hpp"

constexpr const char* kLibrary = "__device__ float shape(float x) { return x * x + 1.0f; }";
constexpr const char* kProgram = R"(
__device__ float shape(float x);
extern "C" __global__ void apply(float* data) { data[threadIdx.x] = shape(data[threadIdx.x]); }
)";

static cucore::ObjectCode compile(cucore::ProgramCache& cache, const char* source,
                                  const cucore::ProgramOptions& options, cucore::CodeType target) {
  cucore::Program program{source, cucore::SourceType::cxx, options};
  const std::string key =
      cucore::make_program_cache_key(source, cucore::SourceType::cxx, options, target);
  return cucore::compile_cached(cache, program, key, target);
}

int main() try {
  cucore::Device device{0};
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  const bool lto = cucore::Linker::which_backend() == cucore::CompilerBackend::nvjitlink;
  const auto target = lto ? cucore::CodeType::ltoir : cucore::CodeType::cubin;

  cucore::InMemoryProgramCache cache;
  cucore::ProgramOptions options;
  options.relocatable_device_code = true;
  cucore::LinkerOptions linking;
  linking.link_time_optimization = lto;

  for (int turn = 0; turn < 2; ++turn) {
    cucore::Linker linker{
        {compile(cache, kLibrary, options, target), compile(cache, kProgram, options, target)},
        linking};
    const cucore::Kernel kernel = linker.link(cucore::CodeType::cubin).get_kernel("apply");

    std::vector<float> data{1, 2, 3, 4};
    cucore::Buffer buffer = device.allocate(data.size() * sizeof(float), stream);
    buffer.copy_from(std::span{data}, stream);
    cucore::launch(stream, {.grid = {1}, .block = {4}}, kernel, buffer);
    buffer.copy_to(std::span{data}, stream);
    stream.sync();
    std::printf("%s, %zu cached: %g %g %g %g\n", code_type_name(target), cache.size(), data[0],
                data[1], data[2], data[3]);
    if (data[3] != 17.0F) return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
