// SPDX-License-Identifier: Apache-2.0
// cpu/image/image.hpp: extracts PTX texts from the images that programs pass to cuModuleLoadData
// and similar calls. Supported images: PTX text; fat binaries with PTX (plain, LZ4 or zstd); ELF
// files with a section `.cucore.ptx` of PTX texts, each terminated by a zero byte; object files of
// the host with fat binaries, as nvcc writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu::driver {

/// The PTX texts of an image for a device (`target` is 90 for sm_90). `size` may be 0: images
/// contain their own length, and PTX text ends with a zero byte. Throws LoadError: 200 for an
/// invalid image, 209 for GPU machine code without PTX (the message says what to do).
std::vector<std::string> ptx_of_image(const void* image, std::size_t size, std::uint32_t target);

/// The PTX texts of all members of an archive. Members with machine code for GPUs only are skipped,
/// because the program may not need them; `skipped` counts them. Throws LoadError (200) for an
/// invalid archive.
std::vector<std::string> ptx_of_archive(std::string_view archive, std::uint32_t target,
                                        std::size_t& skipped);

/// The bytes of a file, terminated by a zero byte. Fails with 301.
std::string read_image_file(const char* path);

}  // namespace cucpu::driver
