// SPDX-License-Identifier: Apache-2.0
// Snappy.
#include <cstdint>

#include "cpu/image/decompress.hpp"

namespace cucpu::driver {

/// The format is a length, followed by elements: literals, or copies of earlier output.
std::optional<std::size_t> snappy_decompress(std::span<const unsigned char> in,
                                             std::span<unsigned char> out) {
  std::size_t at = 0, to = 0;
  std::uint64_t total = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (at == in.size() || shift > 28) return std::nullopt;
    const unsigned char byte = in[at++];
    total |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) break;
  }
  if (total > out.size()) return std::nullopt;
  const auto number =
      [&](unsigned bytes) -> std::size_t {  // little-endian; the caller has checked the length
    std::size_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= static_cast<std::size_t>(in[at + i]) << (8 * i);
    at += bytes;
    return value;
  };
  while (at < in.size()) {
    const unsigned char tag = in[at++];
    const unsigned kind = tag & 3;
    std::size_t length, distance = 0;
    if (kind == 0) {
      length = tag >> 2;
      if (length >= 60) {
        const auto bytes = static_cast<unsigned>(length) - 59;
        if (in.size() - at < bytes) return std::nullopt;
        length = number(bytes);
      }
      ++length;
      if (length > in.size() - at || length > total - to) return std::nullopt;
      for (std::size_t i = 0; i < length; ++i) out[to++] = in[at++];
      continue;
    }
    const unsigned bytes = kind == 1 ? 1 : kind == 2 ? 2 : 4;
    if (in.size() - at < bytes) return std::nullopt;
    distance = number(bytes);
    length = (tag >> 2) + 1u;
    if (kind == 1) {
      length = ((tag >> 2) & 7u) + 4u;
      distance |= static_cast<std::size_t>(tag >> 5) << 8;
    }
    if (distance == 0 || distance > to || length > total - to) return std::nullopt;
    for (std::size_t i = 0; i < length; ++i, ++to) out[to] = out[to - distance];
  }
  if (to != total) return std::nullopt;
  return to;
}

}  // namespace cucpu::driver
