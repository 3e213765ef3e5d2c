// SPDX-License-Identifier: Apache-2.0
// embedded_code_test.cpp: device code inside the program. tests/install builds programs with it.
#include "cucore/embedded_code.hpp"

#include <string_view>

#include "support.hpp"

namespace cucore {
namespace {

using EmbeddedCodeTest = testing::WithDevice;

std::span<const unsigned char> bytes_of(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

TEST_F(EmbeddedCodeTest, CompiledCodeIsLoadedAsItIs) {
  const EmbeddedCode code{
      "add.cu", CodeType::ptx, bytes_of(testing::kAddPtx), {{"add<int>", "add_value"}}};
  EXPECT_FALSE(code.is_source());
  EXPECT_EQ(code.name(), "add.cu");
  EXPECT_EQ(code.bytes(), testing::kAddPtx);
  EXPECT_EQ(code.get_kernel("add<int>").name(), "add_value");
  EXPECT_TRUE(code.object_code() == code.object_code(Device{0}));
  const EmbeddedCode copy = code;
  EXPECT_TRUE(copy.object_code() == code.object_code());
}

TEST_F(EmbeddedCodeTest, SourceIsNotCompiledBeforeItIsUsed) {
  const EmbeddedCode code{"broken.cu", bytes_of("this is no C++"), ProgramOptions{}};
  EXPECT_TRUE(code.is_source());
  EXPECT_EQ(code.bytes(), "this is no C++");
}

}  // namespace
}  // namespace cucore
