// SPDX-License-Identifier: Apache-2.0
// coverage_source.hpp: sources of programs, kept for reports of kernel coverage (CUCORE_COVERAGE).
#pragma once

#include <string>

namespace cucore::detail {

/// Whether kernels of this process are counted: CUCORE_COVERAGE is set, and they run on the CPU
/// device.
bool counts_kernels();

/// The name under which the compiler gets a source, so that reports can show it: `name` if that is
/// a file with this text, else a file in the coverage folder that gets the text. Throws
/// std::system_error.
std::string name_of_counted_source(const std::string& name, const std::string& text);

}  // namespace cucore::detail
