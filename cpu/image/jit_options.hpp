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
  unsigned max_registers = 0;  ///< of a thread; 0: no limit

  /// What the options say of the code itself goes into its texts.
  void apply(std::vector<std::string>& texts) const;
  /// ptx_of_image() with the options applied; a cubin has been compiled without them.
  std::vector<std::string> texts_of(const void* image, std::size_t size) const;

  /// Writes logs and times to the caller's buffers.
  void report();

  /// Runs `f`; a LoadError goes to the error log before it goes on.
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
           error_room_ = 0;  // as given: a report writes how much it used in their place
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace cucpu::driver
