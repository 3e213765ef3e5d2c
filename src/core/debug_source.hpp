// SPDX-License-Identifier: Apache-2.0
// core/debug_source.hpp: sources of programs as files, which debuggers show.
#pragma once

#include <string>

namespace cucore::detail {

/// CUCORE_DEBUG=1: programs are compiled as with ProgramOptions::debug.
bool debug_from_environment();

/// The code of a program for a compilation with debug information: its first line names a file with
/// this code, `debug/DIGEST/NAME` in the user's cache folder, which is written first. The code
/// itself where `name` is a file with this code already, or where no file can be written.
std::string with_source_file(const std::string& code, const std::string& name);

}  // namespace cucore::detail
