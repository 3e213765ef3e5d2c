// SPDX-License-Identifier: Apache-2.0
// nvml_calls.cpp: all other NVML functions: each records its name and arguments, writes nothing and
// succeeds. No NVML function has floating-point or by-value struct parameters, so eight 64-bit
// numbers hold the arguments of any of them.
#include <cstdint>

namespace {
using Word = std::uint64_t;
const char* last_name = "";
Word last[8];
}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT const char* double_last_name() { return last_name; }
EXPORT void double_forget() { last_name = ""; }
EXPORT const Word* double_last_arguments() { return last; }

#define NAME(symbol)                                                                              \
  EXPORT __attribute__((weak)) int symbol(Word a, Word b, Word c, Word d, Word e, Word f, Word g, \
                                          Word h) {                                               \
    last_name = #symbol;                                                                          \
    const Word given[] = {a, b, c, d, e, f, g, h};                                                \
    for (int i = 0; i < 8; ++i) last[i] = given[i];                                               \
    return 0;                                                                                     \
  }
#include "nvml_names.inc"
