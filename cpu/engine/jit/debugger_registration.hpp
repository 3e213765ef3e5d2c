// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/debugger_registration.hpp: makes linked code known to GDB and LLDB through GDB's
// JIT interface. LLVM's plugin for it never unregisters an object, and a module may be unloaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cpu/engine/jit/link.hpp"

namespace cucpu {

/// An object file that debuggers know while this lives.
class DebuggerRegistration {
 public:
  /// `sections`: the addresses of the object's sections. Debuggers resolve references to undefined
  /// symbols by `symbols`. Throws std::runtime_error.
  DebuggerRegistration(std::string_view object,
                       const std::map<std::string, std::uint64_t>& sections,
                       std::span<const SymbolAddress> symbols);
  ~DebuggerRegistration();
  DebuggerRegistration(const DebuggerRegistration&) = delete;
  DebuggerRegistration& operator=(const DebuggerRegistration&) = delete;

 private:
  struct Entry;
  std::string object_;
  std::unique_ptr<Entry> entry_;
};

}  // namespace cucpu
