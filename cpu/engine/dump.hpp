// cpu/engine/dump.hpp: CUCORE_CPU_DUMP and CUCORE_CPU_REPORT.
#pragma once

#include <string>
#include <string_view>

#include "cpu/engine/settings.hpp"

namespace llvm {
class Module;
}

namespace cucpu {

void dump(bool wanted, const Settings&, const std::string& name, const llvm::Module&);
void dump_text(const Settings&, const std::string& name, std::string_view);
void report(const Settings&, const std::string& line);

/// After a crash of the compiler: keeps what it was given (PTX, or thread code as bitcode) beside
/// the code cache. The path; empty when nothing could be kept.
std::string keep_reproducer(const Settings&, const std::string& what, std::string_view input,
                            const std::string& reason) noexcept;

}  // namespace cucpu
