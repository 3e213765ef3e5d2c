// SPDX-License-Identifier: Apache-2.0
// symbol_test.cpp: addresses of host variables are not symbols of this runtime.
#include <gtest/gtest.h>

#include <cstddef>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeSymbol, HostVariableReturnsInvalidSymbol) {
  rt.cudaGetLastError();
  static int shadow = 0;
  void* address = nullptr;
  std::size_t size = 0;
  EXPECT_EQ(rt.cudaGetSymbolAddress(&address, &shadow), cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaGetSymbolSize(&size, &shadow), cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaMemcpyToSymbol(&shadow, &size, 4, 0, cudaMemcpyHostToDevice),
            cudaErrorInvalidSymbol);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorInvalidSymbol);
}

}  // namespace
