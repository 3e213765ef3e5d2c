// SPDX-License-Identifier: Apache-2.0
// cpu/trace/parameters.hpp: the parameters of an API call, as a struct of them in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <tuple>

namespace cucpu::trace {

inline constexpr std::size_t kMostParameterBytes = 160;
struct PackedParameters {
  alignas(8) std::byte bytes[kMostParameterBytes];
};

/// References to the parameters of a call. They are copied only for an observer, so
/// that an unobserved call pays nothing.
template <class... P>
class Parameters {
 public:
  explicit Parameters(const P&... parameters) noexcept : parameters_{parameters...} {}

  /// Copies them with the layout of a C struct that has them as members, in this order.
  const void* pack(PackedParameters& packed) const noexcept {
    std::size_t offset = 0;
    std::apply([&](const P&... p) { (put(packed, offset, p), ...); }, parameters_);
    return packed.bytes;
  }

 private:
  template <class T>
  static void put(PackedParameters& packed, std::size_t& offset, const T& value) noexcept {
    static_assert((sizeof(P) + ...) + 8 * sizeof...(P) <= kMostParameterBytes);
    offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T);
    std::memcpy(packed.bytes + offset, &value, sizeof value);
    offset += sizeof value;
  }
  std::tuple<const P&...> parameters_;
};

}  // namespace cucpu::trace
