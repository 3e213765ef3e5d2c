// cpu/engine/compile.hpp: one kernel from thread code to an object file.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/jit/object_code.hpp"
#include "cpu/engine/settings.hpp"

namespace cucpu {

struct CompileJob {
  std::string_view bitcode;  ///< the thread code of a whole module
  std::string kernel;
  std::optional<Dim3>
      block;               ///< vector code for this block shape; none: scalar code for every shape
  bool small_grid = true;  ///< nctaid * ntid < 2^31 in every dimension
  int optimization = 4;
  bool check = false;  ///< instrumented, thread by thread (CUCORE_CHECK)
  bool aligned =
      true;  ///< for launches whose parameters are as `ObjectCode::assumed` and `reached` say
  /// Vector code that takes long to optimise shall be quick to make instead: ObjectCode::quick.
  bool may_be_quick = false;
  bool in_background = false;  ///< on the thread of run/tier_up.hpp: ends with the process
};

/// Throws LoadError. With a block shape: nullopt when the kernel cannot be vectorized.
std::optional<ObjectCode> compile_kernel(const CompileJob&, const Settings&);

/// Functions that are called through pointers, and those named by `also`. Throws LoadError.
FunctionsObject compile_functions(std::string_view bitcode, std::span<const std::string> also,
                                  int optimization, const Settings&);

/// The one way into the compiler: on a thread of its own (run/crash_recovery.hpp). What goes wrong
/// there is a LoadError; after a crash `input` is kept. `what` names it. `optimizations`: of code
/// that the work may generate.
void in_compiler(const std::string& what, std::string_view input, const Settings&,
                 const std::function<void()>& work, std::span<const int> optimizations = {});

/// What objects depend on besides their source: this library's build and the host's CPU.
const std::string& compiler_identity();

}  // namespace cucpu
