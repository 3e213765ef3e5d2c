// cpu/engine/jit/alignment_check.hpp: misaligned accesses are faults (716), as on a GPU, at no cost
// where alignment follows from the code.
#pragma once

#include <cstdint>
#include <vector>

namespace llvm {
class Module;
}

namespace cucpu {

/// The 64-bit kernel parameter at `offset` is a multiple of `align`.
struct ParamAlignment {
  std::uint32_t offset, align;
  friend bool operator==(const ParamAlignment&, const ParamAlignment&) = default;
};

/// Puts a `cucpu.check.align` before every access of thread code whose alignment cannot be proven.
/// With `assume_params` parameters are taken to be aligned as accesses need it, and what was
/// assumed is the result: the code is for launches that keep to it. Nearly all accesses are a
/// parameter plus a multiple of their size, so this leaves few checks.
std::vector<ParamAlignment> check_alignment(llvm::Module&, bool assume_params);

}  // namespace cucpu
