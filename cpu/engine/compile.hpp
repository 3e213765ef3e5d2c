// SPDX-License-Identifier: Apache-2.0
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

struct Explanation;

struct CompileJob {
  std::string_view bitcode;  ///< thread code of a whole module
  std::string kernel;
  /// Vector code for this block shape; not set: scalar code for every shape.
  std::optional<Dim3> block;
  bool small_grid = true;  ///< nctaid * ntid < 2^31 in every dimension
  int optimization = 4;
  unsigned check = 0;     ///< the check::Kinds of check mode (CUCORE_CHECK); 0: none
  bool schedule = false;  ///< scalar code with schedule points (CUCORE_CPU_SCHEDULE)
  bool debug = false;     ///< debug mode: scalar code on fibers, not optimized, nothing inlined
  /// Code for launches whose parameters satisfy `ObjectCode::assumed` and `reached`.
  bool aligned = true;
  /// Vector code that is expensive to optimize is baseline code (ObjectCode::baseline).
  bool may_be_baseline = false;
  Explanation* explanation = nullptr;  ///< filled if not null (explain.hpp)
  bool in_background = false;  ///< on the compile thread (run/tier_up.hpp): stops at process exit
};

/// Throws LoadError. With a block shape: nullopt when the kernel cannot be vectorized.
std::optional<ObjectCode> compile_kernel(const CompileJob&, const Settings&);

/// The address-taken functions of a module, and those that `also` names. Throws LoadError.
FunctionsObject compile_functions(std::string_view bitcode, std::span<const std::string> also,
                                  int optimization, const Settings&, bool debug = false);

/// Runs `work`, which uses the compiler, on a thread of its own with crash recovery
/// (run/crash_recovery.hpp). Errors become a LoadError that begins with `what`; after a crash
/// `input` is kept in a file. `optimizations`: the levels of the code that `work` may generate.
void in_compiler(const std::string& what, std::string_view input, const Settings&,
                 const std::function<void()>& work, std::span<const int> optimizations = {});

/// Part of the key of cached objects: the build of this library and the CPU of the host.
const std::string& compiler_identity();

}  // namespace cucpu
