// SPDX-License-Identifier: Apache-2.0
// cucore/export.hpp: marks what libcucore.so exports; everything else in it is hidden.
#pragma once

#define CUCORE_EXPORT __attribute__((visibility("default")))

#if __cplusplus < 202002L
#error "cucore needs C++20: compile with -std=c++20"
#endif
