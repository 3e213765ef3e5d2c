// SPDX-License-Identifier: Apache-2.0
// Deflate (RFC 1951), read by zlib.
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "cpu/image/decompress.hpp"

namespace cucpu::driver {
namespace {

/// A z_stream for data without zlib's header and checksum. Its memory is freed in any case.
class RawInflate {
 public:
  RawInflate() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc{};
  }
  ~RawInflate() { inflateEnd(&stream); }
  RawInflate(const RawInflate&) = delete;
  RawInflate& operator=(const RawInflate&) = delete;
  z_stream stream{};
};

/// zlib counts in 32 bits: larger buffers are given to it in parts.
uInt part_of(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

}  // namespace

std::optional<std::size_t> inflate_raw(std::span<const unsigned char> in,
                                       std::span<unsigned char> out) {
  RawInflate raw;
  z_stream& z = raw.stream;
  std::size_t read = 0, written = 0;
  for (;;) {
    const uInt readable = part_of(in.size() - read), writable = part_of(out.size() - written);
    z.next_in = const_cast<Bytef*>(in.data() + read);
    z.avail_in = readable;
    z.next_out = out.data() + written;
    z.avail_out = writable;
    const int result = inflate(&z, Z_NO_FLUSH);
    read += readable - z.avail_in;
    written += writable - z.avail_out;
    if (result == Z_STREAM_END) return written;
    if (result == Z_MEM_ERROR) throw std::bad_alloc{};
    if (result != Z_OK) return std::nullopt;  // damaged, cut off, or more than `out` holds
  }
}

}  // namespace cucpu::driver
