// SPDX-License-Identifier: Apache-2.0
// cucore/container.hpp: a cubin that also runs on the CPU device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cucore/export.hpp"

namespace cucore {

/// The ELF section that holds PTX in a container: one or more modules (a linked program has
/// several), each ended by a zero.
inline constexpr std::string_view kContainerSection = ".cucore.ptx";

/// A cubin (a 64-bit ELF file) with the PTX it was made from appended as a section: the GPU's
/// driver sees the cubin, the CPU device the PTX. An empty `cubin` gives a file that holds PTX
/// only. Throws std::invalid_argument when it is no such file.
[[nodiscard]] CUCORE_EXPORT std::string make_container(std::string_view cubin,
                                                       std::string_view ptx);

/// PTX whose kernels take at most so many registers: `.maxnreg` on every entry that has no bounds
/// of its own, which go before a compiler's option. What a cubin gets from max_register_count, PTX
/// has to be told in so many words.
[[nodiscard]] CUCORE_EXPORT std::string limit_registers(std::string_view ptx, unsigned registers);

/// The PTX modules of a container; none when it has none or the bytes are not a well-formed file.
/// The views are into `file`.
[[nodiscard]] CUCORE_EXPORT std::vector<std::string_view> ptx_of_container(std::string_view file);

}  // namespace cucore
