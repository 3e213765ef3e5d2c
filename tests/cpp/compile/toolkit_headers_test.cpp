// SPDX-License-Identifier: Apache-2.0
// Include folders of CUDA's split packages, on folders made here.
#include "core/toolkit_headers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../temporary_folder.hpp"

namespace cucore::detail {
namespace {

namespace fs = std::filesystem;

class ToolkitHeaders : public testing::Test {
 protected:
  std::string flag_with(const std::string& folder, const std::string& header) {
    fs::create_directories((root_ / folder / header).parent_path());
    std::ofstream{root_ / folder / header} << "// planted\n";
    return "--include-path=" + (root_ / folder).string();
  }
  const cucore::test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
};

std::optional<std::string> found() { return "/there"; }
std::optional<std::string> not_found() { return std::nullopt; }
std::optional<std::string> not_asked() {
  ADD_FAILURE() << "nothing had to be looked for";
  return std::nullopt;
}

TEST_F(ToolkitHeaders, TheRuntimesAloneGetTheCompilersBehindThem) {
  const auto runtime = flag_with("runtime", "cuda_runtime_api.h");
  EXPECT_EQ(folder_to_add({"-arch=sm_90", runtime}, found), "/there");
  EXPECT_EQ(folder_to_add({runtime}, not_found), std::nullopt);
}

TEST_F(ToolkitHeaders, WholeSetsAndOtherFoldersAreLeftAlone) {
  const auto runtime = flag_with("runtime", "cuda_runtime_api.h");
  const auto compiler = flag_with("compiler", "crt/host_defines.h");
  EXPECT_EQ(folder_to_add({runtime, compiler}, not_asked), std::nullopt);
  EXPECT_EQ(folder_to_add({flag_with("mine", "mine.h")}, not_asked), std::nullopt);
  EXPECT_EQ(folder_to_add({"-std=c++17"}, not_asked), std::nullopt);
}

TEST(MissingHeader, OfTheToolkitNamesItsPackage) {
  const auto hint = hint_for_missing_header(
      "x.cu(1): catastrophic error: cannot open source file \"crt/mma.h\"\n  #include");
  EXPECT_NE(hint.find("\"crt/mma.h\" comes with the CUDA toolkit"), std::string::npos) << hint;
  EXPECT_NE(hint.find("pip install nvidia-cuda-crt (CUDA 12: nvidia-cuda-nvcc-cu12)"),
            std::string::npos)
      << hint;
  EXPECT_NE(hint.find("CUDA_HOME"), std::string::npos) << hint;
}

TEST(MissingHeader, OfSomeoneElseGetsNoHint) {
  EXPECT_EQ(hint_for_missing_header("cannot open source file \"mine.h\""), "");
  EXPECT_EQ(hint_for_missing_header("error: expected a \";\""), "");
  EXPECT_EQ(hint_for_missing_header(""), "");
}

}  // namespace
}  // namespace cucore::detail
