// SPDX-License-Identifier: Apache-2.0
// The caches of compiled programs, as C++ programs use them.
#include "cucore/program_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "../temporary_folder.hpp"

namespace cucore {
namespace {

namespace fs = std::filesystem;

class OnDisk : public testing::Test {
 protected:
  fs::path only_file() const {
    return fs::directory_iterator { root_ / "c" } -> path();
  }
  const cucore::test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(OnDisk, KeepsEntriesForTheNextProcess) {
  FileStreamProgramCache{root_ / "c"}.put("key", "code");
  FileStreamProgramCache again{root_ / "c"};
  EXPECT_EQ(again.get("key"), "code");
  EXPECT_EQ(again.get("other"), std::nullopt);
  EXPECT_EQ(again.size(), 1u);
  EXPECT_TRUE(again.erase("key"));
  EXPECT_FALSE(again.erase("key"));
}

TEST_F(OnDisk, DamagedCodeIsNeverHandedOut) {
  FileStreamProgramCache cache{root_ / "c"};
  cache.put("key", "code");
  const auto size = fs::file_size(only_file());
  for (std::uintmax_t at = 0; at < size; ++at) {
    cache.put("key", "code");
    std::fstream file{only_file(), std::ios::binary | std::ios::in | std::ios::out};
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 0x20);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    EXPECT_EQ(cache.get("key"), std::nullopt) << "byte " << at;
  }
}

TEST_F(OnDisk, AFolderThatOthersMayWriteToIsRefused) {
  fs::create_directory(root_ / "c");
  ASSERT_EQ(chmod((root_ / "c").c_str(), 0777), 0);
  EXPECT_THROW(FileStreamProgramCache{root_ / "c"}, std::runtime_error);
}

TEST_F(OnDisk, ReadersNeverSeeHalfAFile) {
  FileStreamProgramCache cache{root_ / "c"};
  const std::string code(100000, 'x');
  std::thread writer{[&] {
    for (int i = 0; i < 200; ++i) cache.put("key", code);
  }};
  for (int i = 0; i < 200; ++i) {
    const auto found = cache.get("key");
    EXPECT_TRUE(!found || *found == code);
  }
  writer.join();
  EXPECT_EQ(cache.get("key"), code);
}

TEST(InMemory, TheLeastRecentlyUsedGoesFirst) {
  InMemoryProgramCache cache{10};
  cache.put("a", "1234");
  cache.put("b", "1234");
  EXPECT_TRUE(cache.get("a"));
  cache.put("c", "1234");
  EXPECT_FALSE(cache.get("b"));
  EXPECT_EQ(cache.size(), 2u);
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
}

TEST(Key, NamesTheFilesItCannotSee) {
  ProgramOptions options;
  options.arch = "sm_90";
  options.include_path = {"/somewhere"};
  try {
    static_cast<void>(
        make_program_cache_key("#include \"mine.h\"\n", SourceType::cxx, options, CodeType::ptx));
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string{error.what()}.find("include_path"), std::string::npos);
    EXPECT_NE(std::string{error.what()}.find("mine.h"), std::string::npos);
  }
}

}  // namespace
}  // namespace cucore
