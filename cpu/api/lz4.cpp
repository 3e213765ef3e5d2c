// LZ4 blocks: tokens of literals and matches.
#include "api/lz4.hpp"

#include <cstddef>
#include <cstring>

namespace cucpu::driver {

bool lz4_decompress(std::string_view packed, std::string& out) noexcept {
  std::size_t in = 0, to = 0;
  const auto extend = [&](std::size_t& length) {  // a length of 15 goes on in bytes of 255
    if (length != 15) return true;
    for (;;) {
      if (in >= packed.size()) return false;
      const auto byte = static_cast<unsigned char>(packed[in++]);
      length += byte;
      if (byte != 255) return true;
    }
  };
  while (in < packed.size()) {
    const auto token = static_cast<unsigned char>(packed[in++]);
    std::size_t literals = token >> 4;
    if (!extend(literals) || literals > packed.size() - in || literals > out.size() - to) return false;
    std::memcpy(out.data() + to, packed.data() + in, literals);
    in += literals;
    to += literals;
    if (in == packed.size()) break;  // the last sequence has no match
    if (packed.size() - in < 2) return false;
    const std::size_t offset =
        static_cast<unsigned char>(packed[in]) | (static_cast<std::size_t>(static_cast<unsigned char>(packed[in + 1])) << 8);
    in += 2;
    std::size_t match = token & 15;
    if (!extend(match)) return false;
    match += 4;
    if (offset == 0 || offset > to || match > out.size() - to) return false;
    for (; match > 0; --match, ++to) out[to] = out[to - offset];  // source and target may overlap: byte by byte
  }
  return to == out.size();
}

}  // namespace cucpu::driver
