// SPDX-License-Identifier: Apache-2.0
// cpu/engine/dump.hpp: files of CUCORE_CPU_DUMP, lines of CUCORE_CPU_REPORT, and inputs of the
// compiler that made it crash.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/settings.hpp"

namespace llvm {
class Module;
}

namespace cucpu {

void dump(bool wanted, const Settings&, const std::string& name, const llvm::Module&);
void dump_text(const Settings&, const std::string& name, std::string_view);
void report(const Settings&, const std::string& line);

/// Debug mode: writes PTX without line numbers to files beside the code cache, which debuggers then
/// show. Returns a path for each text; empty where no file was written.
std::vector<std::string> write_debug_texts(const Settings&, std::span<const std::string_view> ptx);

/// After a crash of the compiler: writes its input (PTX, or thread code as bitcode) to a file
/// beside the code cache. Returns the path; empty when no file could be written.
std::string keep_reproducer(const Settings&, const std::string& what, std::string_view input,
                            const std::string& reason) noexcept;

}  // namespace cucpu
