// cpu/engine/jit/dump.hpp: CUCORE_CPU_DUMP and CUCORE_CPU_REPORT.
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

}  // namespace cucpu
