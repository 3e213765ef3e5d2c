// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/f64_nan_fixup.hpp: f64 arithmetic with the NaN bits of a GPU on hosts that produce
// others.
#pragma once

namespace llvm {
class Module;
}

namespace cucpu {

/// Whether thread code has f64 arithmetic that comes from PTX. Helpers that compute f32 results in
/// f64 do not count.
bool has_f64_arithmetic(const llvm::Module&);

/// Restores the order of operands and gives every f64 NaN whose bits are observed the bits of a
/// GPU.
///
/// Requires: operands marked by mark_first_operands(); no later pass of LLVM, because LLVM treats
/// all NaNs as equal.
/// Guarantees: no marks are left. Results that are not NaNs are unchanged.
void fix_f64_nans(llvm::Module&);

}  // namespace cucpu
