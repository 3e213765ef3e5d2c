// cpu/image/image.hpp: what a program hands to cuModuleLoadData and friends, reduced to PTX texts.
// Known images: PTX text; fat binaries that hold PTX (plain, LZ4 or zstd); ELF files with our
// section `.cucore.ptx`, whose contents are PTX texts, each ended by a zero byte; the host's object
// files with fat binaries in them, as nvcc makes them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu::driver {

inline constexpr char kContainerSection[] = ".cucore.ptx";

/// The PTX texts of an image. `size` may be 0: images describe their own length, and PTX text ends
/// with a zero byte. Throws LoadError: 200 for what is no image at all, 209 for GPU machine code
/// without PTX (the text says what to do).
std::vector<std::string> ptx_of_image(const void* image, std::size_t size = 0);

/// The PTX texts of all members of an archive that have some. Throws LoadError (200) for what is no
/// archive.
std::vector<std::string> ptx_of_archive(std::string_view archive);

/// PTX whose kernels take at most so many registers (CU_JIT_MAX_REGISTERS): `.maxnreg` on every
/// entry that has no bounds of its own, which go before the option.
std::string limit_registers(std::string_view ptx, unsigned registers);

/// Our container: an ELF file with the texts in `.cucore.ptx`.
std::string make_container(const std::vector<std::string>& texts);

/// A file's bytes, with a zero byte behind them. Fails with 301.
std::string read_image_file(const char* path);

}  // namespace cucpu::driver
