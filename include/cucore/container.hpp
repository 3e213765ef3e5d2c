// cucore/container.hpp: a cubin that also runs on the CPU device.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cucore/export.hpp"

namespace cucore {

/// The ELF section that holds PTX text in a container.
inline constexpr std::string_view kContainerSection = ".cucore.ptx";

/// A cubin (a 64-bit ELF file) with the PTX it was made from appended as a section: the GPU's driver sees the cubin, the CPU
/// device the PTX. An empty `cubin` gives a file that holds PTX only. Throws std::invalid_argument when it is no such file.
[[nodiscard]] CUCORE_EXPORT std::string make_container(std::string_view cubin, std::string_view ptx);

/// The PTX of a container, without the terminating zero; nothing when there is none or the bytes are not a well-formed file.
/// The view is into `file`.
[[nodiscard]] CUCORE_EXPORT std::optional<std::string_view> ptx_of_container(std::string_view file) noexcept;

}  // namespace cucore
