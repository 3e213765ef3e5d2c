// SPDX-License-Identifier: Apache-2.0
// cpu/image/decompress.hpp: decompressors of cuMemBatchDecompressAsync. The input is untrusted:
// every length is checked.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace cucpu::driver {

/// All three write into `out` and return the number of bytes; nothing for damaged data or when
/// `out` is too small.
std::optional<std::size_t> inflate_raw(std::span<const unsigned char> in,
                                       std::span<unsigned char> out);  ///< RFC 1951
std::optional<std::size_t> snappy_decompress(std::span<const unsigned char> in,
                                             std::span<unsigned char> out);
std::optional<std::size_t> lz4_decompress_block(std::span<const unsigned char> in,
                                                std::span<unsigned char> out);

}  // namespace cucpu::driver
