// SPDX-License-Identifier: Apache-2.0
// tests/cpp/temporary_folder.hpp: a folder of a test's own, gone with it.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace cucore::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cucore-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::filesystem::filesystem_error{pattern,
                                              std::error_code{errno, std::generic_category()}};
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code left;
    std::filesystem::remove_all(path_, left);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cucore::test
