// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/object_code.hpp: the result of a compilation, and its serialized form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/jit/alignment_check.hpp"
#include "cpu/engine/jit/peer_access.hpp"

namespace cucpu {

inline constexpr const char* kEntry = "cucpu_entry";

/// An object file and the data that running it needs. The entry point is the symbol `kEntry`.
struct ObjectCode {
  std::string object;
  bool fibers = false;  ///< a ThreadFunction, else a BlockFunction
  std::uint32_t width = 1, scratch_bytes = 0, stack_bytes = 0;
  bool recursive = false, waits_for_blocks = false;
  bool runs_on = false;   ///< one call runs BlockContext::blocks_left further blocks
  bool baseline = false;  ///< baseline tier: optimized code can be compiled
  std::vector<ParamAlignment> assumed;
  std::vector<ParamPeerAccess> reached;

  [[nodiscard]] std::string pack() const;
  static std::optional<ObjectCode> unpack(std::string_view);
};

/// The address-taken functions of a module, and their names.
struct FunctionsObject {
  std::string object;
  std::vector<std::string> names;

  [[nodiscard]] std::string pack() const;  ///< for the disk cache
  static std::optional<FunctionsObject> unpack(std::string_view);
};

}  // namespace cucpu
