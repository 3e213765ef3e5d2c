// SPDX-License-Identifier: Apache-2.0
// coverage_source.hpp: stores the sources of programs for coverage reports (CUCORE_COVERAGE).
#pragma once

#include <string>

namespace cucore::detail {

/// Returns whether kernel coverage is recorded: CUCORE_COVERAGE is set and kernels run on the CPU
/// device.
bool counts_kernels();

/// Returns the file name to compile a source under, so that reports can show it: the absolute path
/// of `name` if that is a file with this text, else of a file in the coverage folder, which is
/// written if necessary. Throws std::system_error.
std::string name_of_counted_source(const std::string& name, const std::string& text);

}  // namespace cucore::detail
