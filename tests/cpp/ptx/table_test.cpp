// SPDX-License-Identifier: Apache-2.0
// table_test.cpp: the rendered instruction table is consistent.
#include "cpu/ptx/table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cucpu::ptx {
namespace {

TEST(InstructionTable, EveryRowIsFoundByItsOpcode) {
  ASSERT_GT(all_rows().size(), 150u);
  for (const Row& row : all_rows()) {
    bool found = false;
    for (const Row& other : find_rows(row.op)) found = found || &other == &row;
    EXPECT_TRUE(found) << row.op;
  }
  EXPECT_TRUE(find_rows("frob").empty());
}

TEST(InstructionTable, EveryModifierIsFoundByItsText) {
  for (const Row& row : all_rows()) {
    for (const Slot& slot : row.slots) {
      ASSERT_FALSE(slot.mods.empty()) << row.op;
      for (Mod m : slot.mods) {
        EXPECT_EQ(find_mod(text_of(m)), m);
        EXPECT_TRUE(!slot.type || type_of(m) != Type::none) << row.op << " ." << text_of(m);
      }
    }
  }
  EXPECT_FALSE(find_mod("frob"));
}

// The parser assigns a modifier to the first free slot that accepts it, so two slots must not share
// a modifier. Exceptions: type slots, and opcodes whose slots are filled in order.
TEST(InstructionTable, EachModifierOfARowBelongsToOneSlot) {
  const std::set<std::string_view> ordered = {"cp", "mma", "wmma", "createpolicy"};
  for (const Row& row : all_rows()) {
    if (ordered.contains(row.op)) continue;
    std::set<Mod> seen;
    for (const Slot& slot : row.slots) {
      if (slot.type) continue;
      for (Mod m : slot.mods) EXPECT_TRUE(seen.insert(m).second) << row.op << " ." << text_of(m);
    }
  }
}

TEST(InstructionTable, SpecialRegistersAreFoundByName) {
  ASSERT_TRUE(find_special("tid.x"));
  EXPECT_EQ(all_specials()[*find_special("clock64")].type, Type::u64);
  EXPECT_TRUE(find_special("envreg31"));
  EXPECT_FALSE(find_special("tid"));
  EXPECT_FALSE(find_special("tid.w"));
}

}  // namespace
}  // namespace cucpu::ptx
