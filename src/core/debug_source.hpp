// SPDX-License-Identifier: Apache-2.0
// core/debug_source.hpp: writes the sources of programs to files for debuggers.
#pragma once

#include <string>

namespace cucore::detail {

/// Returns whether CUCORE_DEBUG=1 is set: programs are then compiled as with ProgramOptions::debug.
bool debug_from_environment();

/// Returns the code to compile with debug information. Its first line refers to a file with the
/// same code, `debug/DIGEST/NAME` in the user's cache folder, which is written first. Returns
/// `code` unchanged if `name` is already a file with this code, or if the file cannot be written.
std::string with_source_file(const std::string& code, const std::string& name);

}  // namespace cucore::detail
