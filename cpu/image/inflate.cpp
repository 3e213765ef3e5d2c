// Deflate, as RFC 1951 describes it: canonical Huffman codes read bit by bit.
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/image/decompress.hpp"

namespace cucpu::driver {
namespace {

struct Damaged {};

class Bits {
 public:
  explicit Bits(std::span<const unsigned char> in) : in_{in} {}
  unsigned take(unsigned count) {
    while (held_ < count) {
      if (at_ == in_.size()) throw Damaged{};
      bits_ |= static_cast<std::uint64_t>(in_[at_++]) << held_;
      held_ += 8;
    }
    const auto value = static_cast<unsigned>(bits_ & ((std::uint64_t{1} << count) - 1));
    bits_ >>= count;
    held_ -= count;
    return value;
  }
  void align() { take(held_ % 8); }

 private:
  std::span<const unsigned char> in_;
  std::size_t at_ = 0;
  std::uint64_t bits_ = 0;
  unsigned held_ = 0;
};

constexpr unsigned kMaxLength = 15;

/// A canonical code: symbols in the order of their codes, and how many codes have each length.
class Code {
 public:
  explicit Code(std::span<const unsigned char> lengths) : symbols_(lengths.size()) {
    for (const unsigned char length : lengths) ++counts_[length];
    counts_[0] = 0;
    int left = 1;
    for (unsigned i = 1; i <= kMaxLength; ++i) {
      left = 2 * left - counts_[i];
      if (left < 0) throw Damaged{};
    }
    std::array<unsigned, kMaxLength + 2> first{};
    for (unsigned i = 1; i <= kMaxLength; ++i)
      first[i + 1] = first[i] + static_cast<unsigned>(counts_[i]);
    for (std::size_t s = 0; s < lengths.size(); ++s)
      if (lengths[s]) symbols_[first[lengths[s]]++] = static_cast<std::uint16_t>(s);
  }
  unsigned read(Bits& bits) const {
    int code = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= kMaxLength; ++length) {
      code |= static_cast<int>(bits.take(1));
      if (code - counts_[length] < first)
        return symbols_[static_cast<std::size_t>(index + code - first)];
      index += counts_[length];
      first = (first + counts_[length]) << 1;
      code <<= 1;
    }
    throw Damaged{};
  }

 private:
  std::array<int, kMaxLength + 1> counts_{};
  std::vector<std::uint16_t> symbols_;
};

constexpr std::uint16_t kLengthBase[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                         15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                         67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr unsigned char kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                          2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::uint16_t kDistanceBase[] = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr unsigned char kDistanceExtra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                            6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr unsigned char kOrder[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                    11, 4,  12, 3, 13, 2, 14, 1, 15};

class Output {
 public:
  explicit Output(std::span<unsigned char> out) : out_{out} {}
  void put(unsigned char byte) {
    if (at_ == out_.size()) throw Damaged{};
    out_[at_++] = byte;
  }
  void repeat(std::size_t distance, std::size_t length) {
    if (distance == 0 || distance > at_) throw Damaged{};
    while (length--) put(out_[at_ - distance]);
  }
  [[nodiscard]] std::size_t size() const { return at_; }

 private:
  std::span<unsigned char> out_;
  std::size_t at_ = 0;
};

void read_block(Bits& bits, Output& out, const Code& literals, const Code& distances) {
  for (;;) {
    unsigned symbol = literals.read(bits);
    if (symbol < 256) {
      out.put(static_cast<unsigned char>(symbol));
      continue;
    }
    if (symbol == 256) return;
    symbol -= 257;
    if (symbol >= std::size(kLengthBase)) throw Damaged{};
    const std::size_t length = kLengthBase[symbol] + bits.take(kLengthExtra[symbol]);
    const unsigned where = distances.read(bits);
    if (where >= std::size(kDistanceBase)) throw Damaged{};
    out.repeat(kDistanceBase[where] + bits.take(kDistanceExtra[where]), length);
  }
}

void read_fixed(Bits& bits, Output& out) {
  std::array<unsigned char, 288> lengths;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  std::array<unsigned char, 30> fives;
  fives.fill(5);
  read_block(bits, out, Code{lengths}, Code{fives});
}

void read_dynamic(Bits& bits, Output& out) {
  const unsigned literals = bits.take(5) + 257, distances = bits.take(5) + 1,
                 codes = bits.take(4) + 4;
  if (literals > 286 || distances > 30) throw Damaged{};
  std::array<unsigned char, 19> first{};
  for (unsigned i = 0; i < codes; ++i) first[kOrder[i]] = static_cast<unsigned char>(bits.take(3));
  const Code code{first};
  std::array<unsigned char, 286 + 30> lengths{};
  for (unsigned at = 0; at < literals + distances;) {
    const unsigned symbol = code.read(bits);
    if (symbol < 16) {
      lengths[at++] = static_cast<unsigned char>(symbol);
      continue;
    }
    if (symbol == 16 && at == 0) throw Damaged{};
    const unsigned char value = symbol == 16 ? lengths[at - 1] : 0;
    unsigned count = symbol == 16   ? 3 + bits.take(2)
                     : symbol == 17 ? 3 + bits.take(3)
                                    : 11 + bits.take(7);
    if (at + count > literals + distances) throw Damaged{};
    while (count--) lengths[at++] = value;
  }
  const std::span<const unsigned char> all{lengths};
  read_block(bits, out, Code{all.first(literals)}, Code{all.subspan(literals, distances)});
}

void read_stored(Bits& bits, Output& out) {
  bits.align();
  unsigned length = bits.take(16);
  if (bits.take(16) != (~length & 0xffff)) throw Damaged{};
  while (length--) out.put(static_cast<unsigned char>(bits.take(8)));
}

}  // namespace

std::optional<std::size_t> inflate_raw(std::span<const unsigned char> in,
                                       std::span<unsigned char> to) {
  try {
    Bits bits{in};
    Output out{to};
    bool last = false;
    while (!last) {
      last = bits.take(1) != 0;
      switch (bits.take(2)) {
        case 0:
          read_stored(bits, out);
          break;
        case 1:
          read_fixed(bits, out);
          break;
        case 2:
          read_dynamic(bits, out);
          break;
        default:
          return std::nullopt;
      }
    }
    return out.size();
  } catch (const Damaged&) {
    return std::nullopt;
  }
}

}  // namespace cucpu::driver
