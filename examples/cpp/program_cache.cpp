// Keeps compiled programs on disk, so that the next start need not compile:
// example_program_cache [folder]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
template <int N> __global__ void power(double* p) {
  double x = 1;
  for (int i = 0; i < N; ++i) x *= p[threadIdx.x];
  p[threadIdx.x] = x;
}
)";

int main(int count, char** arguments) try {
  const std::filesystem::path temporary =
      std::filesystem::temp_directory_path() / ("cucore-programs-" + std::to_string(getpid()));
  const std::filesystem::path folder = count > 1 ? arguments[1] : temporary;
  std::vector<std::string> names;
  for (int n = 1; n < 20; ++n) names.push_back("power<" + std::to_string(n) + ">");

  cucore::FileStreamProgramCache cache{folder, 100'000'000};
  std::vector<std::string> codes;
  for (const char* turn : {"first", "second"}) {
    const auto start = std::chrono::steady_clock::now();
    cucore::ProgramOptions options;
    options.arch = "sm_90";
    cucore::Program program{kSource, cucore::SourceType::cxx, options};
    const std::string key = cucore::make_program_cache_key(kSource, cucore::SourceType::cxx,
                                                           options, cucore::CodeType::cubin, names);
    const cucore::ObjectCode code =
        cucore::compile_cached(cache, program, key, cucore::CodeType::cubin, names);
    codes.emplace_back(code.code());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf("%s time: %.1f ms, %zu entries in %s\n", turn, took.count(), cache.size(),
                folder.c_str());
  }
  std::filesystem::remove_all(temporary);
  return codes[0] == codes[1] && !codes[0].empty() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
