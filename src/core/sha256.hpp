// SPDX-License-Identifier: Apache-2.0
// sha256.hpp: SHA-256 (FIPS 180-4), for cache keys and for the detection of damaged files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cucore::detail {

class Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  /// Adds a field preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
  Sha256& add_field(std::string_view bytes);
  [[nodiscard]] std::string digest();  ///< 32 bytes; the object must not be used afterwards

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  std::size_t used_ = 0;
  std::uint64_t length_ = 0;
};

std::string sha256(std::string_view bytes);
std::string hex(std::string_view bytes);

}  // namespace cucore::detail
