// SPDX-License-Identifier: Apache-2.0
// option_values.hpp: conversion of option values: strings, numbers, sequences. Errors name the
// option and, for a sequence, the index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support.hpp"

namespace cucore::python {

/// Returns the index of a string in `words`. Throws ValueError that lists them.
int word_value(nb::handle value, const char* name, std::span<const char* const> words);
/// Converts an int that is at least `least` and fits in 32 bits. Throws TypeError or ValueError.
unsigned number_value(nb::handle value, const char* name, std::int64_t least);
/// Converts a real number. Throws TypeError.
float real_value(nb::handle value, const char* name);
/// Converts a sequence of ints. Throws TypeError.
std::vector<std::int64_t> int_values(nb::handle value, const char* name);
/// Converts a sequence of str or UTF-8 bytes, or of bytearrays if `bytearrays` is true. Throws
/// TypeError.
std::vector<std::string> text_values(nb::handle value, const char* name, bool bytearrays);
/// Converts a member of a Python enum. Throws TypeError.
int enum_value(nb::handle value, const char* name, nb::handle type);

/// Returns the items of a tuple or list. Throws TypeError for other objects.
std::vector<nb::object> sequence_values(nb::handle value, const char* name, const char* of_what);

}  // namespace cucore::python
