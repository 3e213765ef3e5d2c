// SPDX-License-Identifier: Apache-2.0
// Entries of the compile cache as bytes. What is found and kept is tested from Python
// (tests/python/core/test_compile_cache.py).
#include "core/compile_cache.hpp"

#include <gtest/gtest.h>

namespace cucore::detail {
namespace {

CompiledProgram sample() {
  CompiledProgram program;
  program.code = std::string{
      "\x7f"
      "ELF\0:1:",
      8};
  program.symbols = {{"add<int>", "_Z3addIiE"}, {"", ""}};
  program.log = "a warning: 12:34\n";
  program.params["f"] = {{ParamKind::pointer, 8, "p"}, {ParamKind::unknown, 0, ""}};
  program.params["g"] = {};
  return program;
}

TEST(CompileCache, AnEntryHasAllOfTheResult) {
  EXPECT_EQ(unpack(pack(sample())), sample());
  EXPECT_EQ(unpack(pack(CompiledProgram{})), CompiledProgram{});
}

TEST(CompileCache, OtherBytesAreNoEntry) {
  const std::string bytes = pack(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(unpack(std::string_view{bytes}.substr(0, size))) << size;
  EXPECT_FALSE(unpack(bytes + "x"));
  EXPECT_FALSE(unpack("99999999999999999999:"));
  EXPECT_FALSE(unpack("18446744073709551615:x"));
  EXPECT_FALSE(unpack("-1:x"));
  EXPECT_FALSE(unpack("1:x"));
}

}  // namespace
}  // namespace cucore::detail
