// SPDX-License-Identifier: Apache-2.0
// code_arguments.hpp: conversions that the files about compilation share.
#pragma once

#include <string>

#include "binding.hpp"
#include "cucore/linker.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"

namespace cucore::python {

/// str as UTF-8, or anything with the buffer protocol. `what` names the argument in the TypeError.
std::string text_argument(nb::handle object, const char* what);
SymbolMapping mapping_argument(nb::handle object);

/// A ProgramOptions or LinkerOptions object of Python (or None) as C++ ones. TypeError names the
/// field.
ProgramOptions program_options_argument(nb::handle options);
LinkerOptions linker_options_argument(nb::handle options);
/// What a compiler says, which may quote source bytes that are not UTF-8.
nb::object text_of_log(const std::string& log);
/// "cubin", or a member of ObjectCodeFormatType.
CodeType target_argument(nb::handle target);

}  // namespace cucore::python
