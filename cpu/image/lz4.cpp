// SPDX-License-Identifier: Apache-2.0
// LZ4 blocks: tokens of literals and matches.
#include "cpu/image/lz4.hpp"

#include <cstddef>
#include <cstring>

#include "cpu/image/decompress.hpp"

namespace cucpu::driver {

std::optional<std::size_t> lz4_decompress_block(std::span<const unsigned char> packed,
                                                std::span<unsigned char> out) {
  std::size_t in = 0, to = 0;
  const auto extend = [&](std::size_t& length) {  // a length of 15 continues in bytes of 255
    if (length != 15) return true;
    for (;;) {
      if (in >= packed.size()) return false;
      const unsigned char byte = packed[in++];
      length += byte;
      if (byte != 255) return true;
    }
  };
  while (in < packed.size()) {
    const unsigned char token = packed[in++];
    std::size_t literals = token >> 4;
    if (!extend(literals) || literals > packed.size() - in || literals > out.size() - to)
      return std::nullopt;
    if (literals) std::memcpy(out.data() + to, packed.data() + in, literals);
    in += literals;
    to += literals;
    if (in == packed.size()) break;  // the last sequence has no match
    if (packed.size() - in < 2) return std::nullopt;
    const std::size_t offset = packed[in] | (static_cast<std::size_t>(packed[in + 1]) << 8);
    in += 2;
    std::size_t match = token & 15;
    if (!extend(match)) return std::nullopt;
    match += 4;
    if (offset == 0 || offset > to || match > out.size() - to) return std::nullopt;
    for (; match > 0; --match, ++to)
      out[to] = out[to - offset];  // byte by byte: source and target may overlap
  }
  return to;
}

bool lz4_decompress(std::string_view packed, std::string& out) noexcept {
  const auto bytes =
      lz4_decompress_block({reinterpret_cast<const unsigned char*>(packed.data()), packed.size()},
                           {reinterpret_cast<unsigned char*>(out.data()), out.size()});
  return bytes == out.size();
}

}  // namespace cucpu::driver
