// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/ptx_compiler.cpp: libFuzzer harness: any bytes compile to machine code or yield a
// loader error, and nothing aborts. Kernels are not executed, because any behaviour of them is
// valid.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/engine/engine.hpp"
#include "tests/fuzz/device_of.hpp"

namespace {
class Memory final : public cucpu::VariableMemory {
 public:
  Place allocate(std::size_t bytes, std::size_t alignment, bool) override {
    if (bytes > (std::size_t{1} << 28)) throw std::bad_alloc{};
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment < 16 ? 16 : alignment,
                                      rounded < 16 ? 16 : (rounded + 15) / 16 * 16);
    if (memory == nullptr) throw std::bad_alloc{};
    std::memset(memory, 0, bytes);
    return {memory, false};
  }
  void free(void* memory) noexcept override { std::free(memory); }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool quiet = setenv("CUCORE_CPU_CACHE", "0", 1) == 0;
  (void)quiet;
  setenv("CUCORE_CPU_TIER", size / 2 % 2 ? "baseline" : "optimized", 1);
  Memory memory;
  const std::string text{reinterpret_cast<const char*>(data), size};
  const std::string_view texts[] = {text};
  try {
    cucpu::LoadOptions options;
    options.target = device_of(text);
    const auto module = cucpu::Module::load(texts, options, memory);
    if (module == nullptr) std::abort();
    for (const cucpu::Kernel* kernel : module->kernels()) {  // preparing a kernel compiles it
      cucpu::LaunchShape shape;
      shape.grid = shape.block = {1, 1, 1};
      shape.block.x = size % 2 ? 32 : 1;
      const std::vector<std::byte> params(kernel->info().param_bytes + 16);
      (void)cucpu::Launch::make(*kernel, shape, params.data());
    }
  } catch (const cucpu::LoadError& error) {
    if (error.code != 218 && error.code != 222 && error.code != 2 && error.code != 200 &&
        error.code != 1)
      std::abort();
  } catch (const std::bad_alloc&) {
  }
  return 0;
}
