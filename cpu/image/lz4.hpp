// SPDX-License-Identifier: Apache-2.0
// cpu/image/lz4.hpp: the LZ4 block format, as fat binaries use it (decoding only).
#pragma once

#include <string>
#include <string_view>

namespace cucpu::driver {

/// Fills `out`, whose size is the decompressed size. False for damaged data; never accesses memory
/// outside of both.
bool lz4_decompress(std::string_view packed, std::string& out) noexcept;

}  // namespace cucpu::driver
