// SPDX-License-Identifier: Apache-2.0
// table_test.cpp: the table of runtime functions has an entry for every function.
#include <gtest/gtest.h>

#include "cucore/runtime.hpp"

namespace {

const cucore::RuntimeTable& rt = cucore::runtime();

TEST(RuntimeTable, EveryFunctionHasAnEntry) {
#define CUCORE_RT(name) EXPECT_NE(rt.name, nullptr) << #name;
#include "runtime_table.inc"
#undef CUCORE_RT
}

TEST(RuntimeTable, UnimplementedFunctionReturnsNotSupported) {
  rt.cudaGetLastError();
  EXPECT_EQ(rt.cudaGLSetGLDevice(0), cudaErrorNotSupported);
  EXPECT_EQ(rt.cudaGetLastError(), cudaErrorNotSupported);
}

}  // namespace
