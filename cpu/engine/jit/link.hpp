// cpu/engine/jit/link.hpp: object code becomes executable memory, never writable at the same time:
// code that asks for both is refused.
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

/// Linked code; its memory is freed with the object.
class LinkedCode {
 public:
  /// `object` is an ELF file. It may refer to `symbols` and to the routines of runtime/table.hpp,
  /// to nothing else. Throws std::runtime_error, naming what is missing. Thread-safe.
  static std::unique_ptr<LinkedCode> link(std::string_view object,
                                          std::span<const SymbolAddress> symbols,
                                          std::span<const std::string> wanted);
  virtual ~LinkedCode() = default;
  [[nodiscard]] void* address(std::size_t wanted) const { return addresses_[wanted]; }

 protected:
  std::vector<void*> addresses_;
};

/// "file:line" for an address inside a function of an object; `offset` counts from the start of
/// `symbol`. Empty without line tables.
std::string line_of(std::string_view object, std::string_view symbol, std::uint64_t offset);

}  // namespace cucpu
