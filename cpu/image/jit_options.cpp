// SPDX-License-Identifier: Apache-2.0
// Options of the JIT compiler.
#include "cpu/image/jit_options.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "cpu/image/image.hpp"
#include "cucore/container.hpp"

namespace cucpu::driver {

JitOptions::JitOptions(unsigned count, const CUjit_option* options, void** values)
    : count_{count}, options_{options}, values_{values} {
  require(count == 0 || (options && values));
  load.info_log = &info;
  for (unsigned i = 0; i < count; ++i) {
    require(options[i] >= 0 && options[i] < CU_JIT_NUM_OPTIONS);
    const auto number = reinterpret_cast<std::uintptr_t>(values[i]);
    if (options[i] == CU_JIT_OPTIMIZATION_LEVEL) {
      require(number <= 4);
      load.optimization = static_cast<int>(number);
    }
    if (options[i] == CU_JIT_MAX_REGISTERS) max_registers = static_cast<unsigned>(number);
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_room_ = static_cast<unsigned>(number);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      error_room_ = static_cast<unsigned>(number);
  }
}

void JitOptions::apply(std::vector<std::string>& texts) const {
  if (max_registers == 0) return;
  for (std::string& text : texts) text = cucore::limit_registers(text, max_registers);
}

std::vector<std::string> JitOptions::texts_of(const void* image, std::size_t size,
                                              std::uint32_t target) const {
  auto texts = ptx_of_image(image, size, target);
  const bool is_compiled = (size == 0 || size >= SELFMAG) &&
                           std::strncmp(static_cast<const char*>(image), ELFMAG, SELFMAG) == 0;
  if (!is_compiled) apply(texts);
  return texts;
}

void JitOptions::report() {
  const auto value_of = [&](CUjit_option option) -> void** {
    for (unsigned i = 0; i < count_; ++i)
      if (options_[i] == option) return &values_[i];
    return nullptr;
  };
  const auto write = [&](CUjit_option buffer, CUjit_option size, unsigned room,
                         const std::string& text) {
    void** bytes = value_of(size);
    void** to = value_of(buffer);
    if (!bytes) return;
    std::size_t used = 0;
    if (to && *to && room > 0) {
      used = std::min<std::size_t>(text.size(), room - 1);
      std::memcpy(*to, text.data(), used);
      static_cast<char*>(*to)[used] = '\0';
    }
    *bytes = reinterpret_cast<void*>(used);
  };
  write(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info_room_, info);
  write(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error_room_, error);
  if (void** wall = value_of(CU_JIT_WALL_TIME)) {
    const float ms =
        std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start_).count();
    std::memcpy(wall, &ms, sizeof ms);
  }
}

}  // namespace cucpu::driver
