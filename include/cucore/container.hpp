// SPDX-License-Identifier: Apache-2.0
// cucore/container.hpp: containers: cubins with a PTX section for the CPU device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cucore/export.hpp"

namespace cucore {

/// Name of the ELF section that has the PTX of a container: one or more null-terminated modules (a
/// linked program has several).
inline constexpr std::string_view kContainerSection = ".cucore.ptx";

/// Returns a container: a cubin (a 64-bit ELF file) with the PTX it was compiled from in an
/// additional section. A GPU driver loads the cubin, the CPU device the PTX. If `cubin` is empty,
/// the file contains only the PTX. Throws std::invalid_argument if `cubin` is not a 64-bit ELF file
/// with sections.
[[nodiscard]] CUCORE_EXPORT std::string make_container(std::string_view cubin,
                                                       std::string_view ptx);

/// Returns PTX whose kernels use at most `registers` registers. Adds `.maxnreg` to every entry
/// without a `.maxnreg`, `.maxntid`, `.reqntid` or `.minnctapersm` directive; these take precedence
/// over compiler options. The max_register_count option affects cubins only: PTX needs an explicit
/// directive.
[[nodiscard]] CUCORE_EXPORT std::string limit_registers(std::string_view ptx, unsigned registers);

/// Returns the PTX modules of a container as views into `file`. The result is empty if `file` has
/// no PTX section or is not a well-formed ELF file.
[[nodiscard]] CUCORE_EXPORT std::vector<std::string_view> ptx_of_container(std::string_view file);

}  // namespace cucore
