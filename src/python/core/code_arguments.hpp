// SPDX-License-Identifier: Apache-2.0
// code_arguments.hpp: conversions of arguments for compilation.
#pragma once

#include <string>

#include "binding.hpp"
#include "cucore/linker.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"

namespace cucore::python {

/// Converts a str (as UTF-8) or an object with the buffer protocol. Throws TypeError that names the
/// argument (`what`).
std::string text_argument(nb::handle object, const char* what);
SymbolMapping mapping_argument(nb::handle object);

/// Converts a Python ProgramOptions or LinkerOptions object, or None. Throws TypeError that names
/// the field.
ProgramOptions program_options_argument(nb::handle options);
LinkerOptions linker_options_argument(nb::handle options);
/// Converts a compiler's log, which may quote source bytes that are not valid UTF-8.
nb::object text_of_log(const std::string& log);
/// Converts "cubin" or a member of ObjectCodeFormatType.
CodeType target_argument(nb::handle target);

}  // namespace cucore::python
