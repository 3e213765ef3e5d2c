// SPDX-License-Identifier: Apache-2.0
// check.h: ends the program with a message if a CUDA call fails.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                           \
  do {                                                                                        \
    const cudaError_t code_ = (call);                                                         \
    if (code_ != cudaSuccess) {                                                               \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code_));   \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (false)
