// SPDX-License-Identifier: Apache-2.0
// option_values.hpp: reads the values of options: words, numbers, sequences. Errors name the option
// and, of a sequence, the place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support.hpp"

namespace cucore::python {

/// The place of a text among `words`. ValueError that lists them.
int word_value(nb::handle value, const char* name, std::span<const char* const> words);
/// An int that is at least `least` and fits in 32 bits. TypeError, ValueError.
unsigned number_value(nb::handle value, const char* name, std::int64_t least);
/// A real number. TypeError.
float real_value(nb::handle value, const char* name);
/// A sequence of ints. TypeError.
std::vector<std::int64_t> int_values(nb::handle value, const char* name);
/// A sequence of texts, each a str or UTF-8 bytes, with `bytearrays` also a bytearray. TypeError.
std::vector<std::string> text_values(nb::handle value, const char* name, bool bytearrays);
/// An object of an enumeration of Python. TypeError.
int enum_value(nb::handle value, const char* name, nb::handle type);

/// The values of a tuple or list; TypeError for anything else.
std::vector<nb::object> sequence_values(nb::handle value, const char* name, const char* of_what);

}  // namespace cucore::python
