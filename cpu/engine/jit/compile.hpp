// cpu/engine/jit/compile.hpp: one kernel from thread code to an object file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/jit/align.hpp"
#include "cpu/engine/jit/reach.hpp"
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
};

/// An object file and what it takes to run it. The entry point is the symbol `kEntry`.
struct ObjectCode {
  std::string object;
  bool fibers = false;  ///< a ThreadFunction, else a BlockFunction
  std::uint32_t width = 1, scratch_bytes = 0, stack_bytes = 0;
  bool recursive = false, waits_for_blocks = false;
  bool runs_on = false;  ///< goes on with the blocks behind: BlockContext::blocks_left
  std::vector<ParamAlignment> assumed;
  std::vector<ParamReach> reached;

  [[nodiscard]] std::string pack() const;
  static std::optional<ObjectCode> unpack(std::string_view);
};

inline constexpr const char* kEntry = "cucpu_entry";

/// Throws LoadError. With a block shape: nullopt when the kernel cannot be vectorized.
std::optional<ObjectCode> compile_kernel(const CompileJob&, const Settings&);

/// The functions of a module that are called through pointers (or are named by `also`), and their
/// names.
struct FunctionsObject {
  std::string object;
  std::vector<std::string> names;

  [[nodiscard]] std::string pack() const;  ///< for the disk cache
  static std::optional<FunctionsObject> unpack(std::string_view);
};
FunctionsObject compile_functions(std::string_view bitcode, std::span<const std::string> also,
                                  int optimization, const Settings&);

/// The one way into the compiler: on a thread of its own (run/protect.hpp). What goes wrong there
/// is a LoadError; after a crash `input` is kept. `what` names it. `optimization`: of code that the
/// work generates.
void in_compiler(const std::string& what, std::string_view input, const Settings&,
                 const std::function<void()>& work, std::optional<int> optimization = {});

/// What objects depend on besides their source: this library's build and the host's CPU.
const std::string& compiler_identity();

}  // namespace cucpu
