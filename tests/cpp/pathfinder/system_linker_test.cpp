// SPDX-License-Identifier: Apache-2.0
// system_linker_test.cpp: the linker's cache may be malformed, and the candidates match dlopen().
#include "pathfinder/system_linker.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "pathfinder/search_roots.hpp"

namespace cucore::pathfinder {
namespace {

TEST(SystemLinker, CandidateOfTheMathLibraryEqualsDlopensPath) {
  void* handle = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  link_map* map = nullptr;
  ASSERT_EQ(dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)), 0);
  const auto real = std::filesystem::canonical(map->l_name);
  const auto candidates = linker_candidates("libm.so.6");
  const auto first =
      std::ranges::find_if(candidates, [](const std::string& path) { return is_file(path); });
  ASSERT_NE(first, candidates.end());
  EXPECT_EQ(std::filesystem::canonical(*first), real);
  dlclose(handle);
}

TEST(SystemLinker, EveryCandidateIsAnAbsolutePath) {
  for (const auto& path : linker_candidates("libnothing.so.1")) EXPECT_EQ(path.front(), '/');
}

TEST(SystemLinker, MalformedAndTruncatedCachesYieldNoPaths) {
  EXPECT_TRUE(paths_in_linker_cache("", "libm.so.6").empty());
  EXPECT_TRUE(paths_in_linker_cache("glibc-ld.so.cache1.1", "libm.so.6").empty());
  std::string malformed = "glibc-ld.so.cache1.1";
  malformed.resize(48, '\xff');  // the header claims 2^32 - 1 entries; the file has none
  EXPECT_TRUE(paths_in_linker_cache(malformed, "libm.so.6").empty());

  std::ifstream file{"/etc/ld.so.cache", std::ios::binary};
  if (!file) GTEST_SKIP() << "this system has no linker cache";
  const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    paths_in_linker_cache(std::string_view{bytes}.substr(0, size),
                          "libm.so.6");  // must not read past the end
  }
}

}  // namespace
}  // namespace cucore::pathfinder
