// SPDX-License-Identifier: Apache-2.0
// catalogue_test.cpp: every row of the catalogue is well-formed: unique name, file names that match
// the kind, existing dependencies.
#include "pathfinder/catalogue.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <set>

namespace cucore::pathfinder {
namespace {

constexpr Kind kAll[] = {Kind::dynamic_lib, Kind::headers, Kind::static_lib, Kind::bitcode_lib,
                         Kind::binary};

bool is_variable(std::string_view name) {
  for (const char c : name) {
    if (!std::isupper(static_cast<unsigned char>(c)) &&
        !std::isdigit(static_cast<unsigned char>(c)) && c != '_')
      return false;
  }
  return !name.empty();
}

TEST(Catalogue, NamesAreUniqueWithinAKind) {
  for (const Kind kind : kAll) {
    std::set<std::string_view> names;
    for (const auto& row : entries(kind)) EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(names.empty());
  }
}

TEST(Catalogue, FoldersAreRelativeAndStayBelowTheirRoot) {
  for (const Kind kind : kAll) {
    for (const auto& row : entries(kind)) {
      for (const auto list : {row.wheel, row.conda, row.root}) {
        for (const auto folder : split(list)) {
          EXPECT_NE(folder.front(), '/') << row.name;
          EXPECT_NE(folder.back(), '/') << row.name;
          EXPECT_EQ(folder.find(".."), std::string_view::npos) << row.name;
        }
      }
      if (row.origin == Origin::driver) {
        EXPECT_TRUE(row.wheel.empty() && row.conda.empty() && row.root.empty())
            << row.name << " comes from the system only";
      } else {
        EXPECT_FALSE(row.wheel.empty() || row.conda.empty() || row.root.empty()) << row.name;
      }
    }
  }
}

TEST(Catalogue, FileNamesMatchTheirKind) {
  const auto each_file = [](Kind kind, const std::function<bool(std::string_view)>& good) {
    for (const auto& row : entries(kind)) {
      const auto files = split(row.files);
      EXPECT_FALSE(files.empty()) << row.name;
      for (const auto file : files) EXPECT_TRUE(good(file)) << row.name << ": " << file;
    }
  };
  each_file(Kind::dynamic_lib,
            [](auto f) { return f.starts_with("lib") && f.find(".so") != f.npos; });
  each_file(Kind::static_lib, [](auto f) { return f.starts_with("lib") && f.ends_with(".a"); });
  each_file(Kind::bitcode_lib, [](auto f) { return f.ends_with(".bc"); });
  each_file(Kind::binary, [](auto f) { return f.find('/') == f.npos; });
}

TEST(Catalogue, ProductVariablesAreEnvironmentVariableNames) {
  for (const Kind kind : kAll) {
    for (const auto& row : entries(kind)) {
      for (const auto variable : split(row.variables))
        EXPECT_TRUE(is_variable(variable)) << row.name << ": " << variable;
    }
  }
}

TEST(Catalogue, DependenciesAreLibrariesAndHaveNoCycle) {
  const std::function<void(const Entry&, std::set<std::string_view>)> visit =
      [&](const Entry& row, std::set<std::string_view> above) {
        ASSERT_TRUE(above.insert(row.name).second) << "cycle through " << row.name;
        for (const auto name : split(row.needs)) {
          const Entry* dependency = find_entry(Kind::dynamic_lib, name);
          ASSERT_NE(dependency, nullptr) << row.name << " needs " << name;
          visit(*dependency, above);
        }
      };
  for (const auto& row : entries(Kind::dynamic_lib)) visit(row, {});
}

TEST(Catalogue, NewerSonamesComeFirst) {
  for (const auto& row : entries(Kind::dynamic_lib)) {
    if (row.origin != Origin::toolkit) continue;
    const auto wheel = split(row.wheel);
    EXPECT_TRUE(wheel.front().starts_with("nvidia/cu13/")) << row.name;
    const auto files = split(row.files);
    for (std::size_t i = 1; i < files.size(); ++i) EXPECT_GT(files[i - 1], files[i]) << row.name;
  }
}

TEST(Catalogue, SplitIgnoresRepeatedSpaces) {
  const auto words = split("  a  bc ");
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0], "a");
  EXPECT_EQ(words[1], "bc");
  EXPECT_TRUE(split("").empty());
}

}  // namespace
}  // namespace cucore::pathfinder
