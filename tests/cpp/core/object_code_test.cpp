// SPDX-License-Identifier: Apache-2.0
// object_code_test.cpp: what code tells before it is loaded.
#include "cucore/object_code.hpp"

#include <gtest/gtest.h>

namespace cucore {
namespace {

TEST(ObjectCode, PtxTellsTheDriverThatItNeeds) {
  EXPECT_EQ(cuda_version_of_ptx(".version 8.4\n.target sm_90\n"), 12040);
  EXPECT_EQ(cuda_version_of_ptx("// .version 1.0\n\n  .version\t9.0 // comment\n"), 13000);
  EXPECT_EQ(cuda_version_of_ptx(".version 1.0"), 1000);
}

TEST(ObjectCode, OtherTextTellsNoDriver) {
  for (const char* text :
       {"",
        "\x7f"
        "ELF",
        ".version", ".version 9", ".version nine.zero", ".version 99.0", "// .version 8.4"})
    EXPECT_FALSE(cuda_version_of_ptx(text)) << text;
}

}  // namespace
}  // namespace cucore
