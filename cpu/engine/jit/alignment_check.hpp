// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/alignment_check.hpp: misaligned accesses are faults (716), as on a GPU, without a
// check where alignment follows from the code.
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

/// Requires: thread code of one kernel, or of address-taken functions.
/// Guarantees: a `cucpu.check.align` precedes every access whose alignment is not proven. With
/// `assume_params` parameters count as aligned as the accesses need it; the result lists these
/// assumptions, and the code is valid for launches that satisfy them. Few checks remain, because
/// the address of most accesses is a parameter plus a multiple of the access size.
std::vector<ParamAlignment> check_alignment(llvm::Module&, bool assume_params);

}  // namespace cucpu
