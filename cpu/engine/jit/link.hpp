// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/link.hpp: links object code into executable memory, which is never writable at the
// same time; an object with a section that is both is an error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu {

struct SymbolAddress {
  std::string name;
  std::uint64_t address;
};

/// Linked code; owns its memory.
class LinkedCode {
 public:
  /// `object` is an ELF file. It may refer only to `symbols` and to the routines of
  /// runtime/table.hpp. Throws std::runtime_error that names missing symbols. Thread-safe. `debug`:
  /// debuggers know the code while it lives.
  static std::unique_ptr<LinkedCode> link(std::string_view object,
                                          std::span<const SymbolAddress> symbols,
                                          std::span<const std::string> wanted, bool debug = false);
  virtual ~LinkedCode() = default;
  [[nodiscard]] void* address(std::size_t wanted) const { return addresses_[wanted]; }

 protected:
  std::vector<void*> addresses_;
};

/// "file:line" of an address in an object, `offset` bytes after the start of `symbol`. Empty
/// without line tables.
std::string line_of(std::string_view object, std::string_view symbol, std::uint64_t offset);

}  // namespace cucpu
