// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/disk_cache_test.cpp: the folder of compiled code stays below its limit, and is
// seldom looked through.
#include "cpu/engine/jit/disk_cache.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "../temporary_folder.hpp"

namespace cucpu::test {
namespace {

class CacheFolder : public ::testing::Test {
 protected:
  const cucore::test::TemporaryFolder own_;
  const std::string folder_ = own_.path().string();

  static std::string key(int i) { return digest(std::to_string(i)); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator{folder_})
      if (entry.path().extension() == ".o") sum += entry.file_size();
    return sum;
  }
};

constexpr std::uint64_t kLimit = 1 << 20;

TEST_F(CacheFolder, EvictsTheLeastRecentlyUsedEntriesAboveItsLimit) {
  DiskCache cache{folder_, kLimit};
  for (int i = 0; i < 1000; ++i) {
    cache.put(key(i), std::string(4000, 'x'));
    ASSERT_LE(bytes(), kLimit);
  }
  EXPECT_TRUE(cache.get(key(999)).has_value());
  EXPECT_FALSE(cache.get(key(0)).has_value());
}

TEST_F(CacheFolder, IsScannedOnlyWhenItMayBeFull) {
  DiskCache cache{folder_, kLimit};
  for (int i = 0; i < 200; ++i) cache.put(key(i), std::string(4000, 'x'));
  EXPECT_EQ(cache.looks(), 1U);  // the first: another process may have filled it
  for (int i = 200; i < 1000; ++i) cache.put(key(i), std::string(4000, 'x'));
  EXPECT_GT(cache.looks(), 1U);
  EXPECT_LT(cache.looks(), 40U);  // once per quarter of the limit, generously
}

TEST_F(CacheFolder, EvictsEntriesOfOtherProcesses) {
  {
    DiskCache large{folder_, 64 * kLimit};
    for (int i = 0; i < 1000; ++i) large.put(key(i), std::string(4000, 'x'));
    EXPECT_GT(bytes(), kLimit);
  }
  DiskCache cache{folder_, kLimit};
  cache.put(key(1000), "y");
  EXPECT_LE(bytes(), kLimit);
  std::filesystem::remove(folder_ + "/count");  // as folders of older versions
  DiskCache larger{folder_, 64 * kLimit};
  larger.put(key(1001), "z");
  EXPECT_EQ(larger.looks(), 1U);
}

}  // namespace
}  // namespace cucpu::test
