// SPDX-License-Identifier: Apache-2.0
// cpu/image/jit_options.hpp: CU_JIT_* options: read before a load, written after it (logs, time).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cpu/base/error.hpp"
#include "cpu/engine/engine.hpp"

namespace cucpu::driver {

class JitOptions {
 public:
  /// Fails with 1 on an unknown option or a null list. The lists must outlive this object.
  JitOptions(unsigned count, const CUjit_option* options, void** values);

  cucpu::LoadOptions load;  ///< its info_log points into this object
  std::string info, error;
  unsigned max_registers = 0;  ///< limit per thread; 0: none

  /// Applies options that change the code to PTX texts.
  void apply(std::vector<std::string>& texts) const;
  /// ptx_of_image() with the options applied, except for cubins, which were compiled before.
  std::vector<std::string> texts_of(const void* image, std::size_t size,
                                    std::uint32_t target) const;

  /// Writes logs and times to the caller's buffers.
  void report();

  /// Runs `f`; writes the text of a LoadError to the error log and rethrows it.
  template <class F>
  auto logged(F&& f) {
    try {
      auto result = f();
      report();
      return result;
    } catch (const LoadError& e) {
      error += e.what();
      report();
      throw;
    }
  }

 private:
  unsigned count_;
  const CUjit_option* options_;
  void** values_;
  unsigned info_room_ = 0,
           error_room_ =
               0;  // sizes as the caller gave them; a report overwrites them with the used sizes
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace cucpu::driver
