// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/float_environment.hpp: default rounding and denormal modes while kernels run; the
// modes of the caller are restored afterwards.
#pragma once

#include <cstdint>

namespace cucpu {

class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment() noexcept : saved_{read()} {
    if (saved_ != kDefault) write(kDefault);
  }
  ~ScopedFloatEnvironment() {
    if (saved_ != kDefault) write(saved_);
  }
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

 private:
#if defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;
  static Word read() noexcept {
    Word value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Word value) noexcept { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
  using Word = std::uint32_t;
  static constexpr Word kDefault = 0x1f80;
  static Word read() noexcept {
    return __builtin_ia32_stmxcsr() & ~Word{0x3f};
  }  // without the sticky flags
  static void write(Word value) noexcept { __builtin_ia32_ldmxcsr(value); }
#endif
  Word saved_;
};

}  // namespace cucpu
