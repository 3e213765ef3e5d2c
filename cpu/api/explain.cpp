// SPDX-License-Identifier: Apache-2.0
// cpu/api/explain.cpp: `cucore explain`. Not part of the driver API; needs no context.
#include "cpu/engine/explain.hpp"

#include <exception>
#include <string>

/// Describes how a kernel of a PTX text is compiled for blocks of this shape, as JSON; an empty
/// name is the first kernel. `failed` is set to 1 when the result is the text of an error instead.
/// The result lives until the next call of this thread.
extern "C" __attribute__((visibility("default"))) const char* cucoreExplainKernel(
    const char* ptx, const char* kernel, unsigned x, unsigned y, unsigned z, int* failed) {
  static thread_local std::string result;
  *failed = 0;
  try {
    result = cucpu::explain_kernel(ptx, kernel ? kernel : "", {x, y, z});
  } catch (const std::exception& error) {
    *failed = 1;
    result = error.what();
  }
  return result.c_str();
}
