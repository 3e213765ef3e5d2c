// SPDX-License-Identifier: Apache-2.0
// search_test.cpp: the search order, tested in temporary folder trees.
#include "pathfinder/search.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../temporary_folder.hpp"
#include "cucore/pathfinder.hpp"
#include "pathfinder/catalogue.hpp"
#include "pathfinder/search_roots.hpp"

namespace cucore::pathfinder {
namespace {

namespace fs = std::filesystem;

class Search : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("CONDA_PREFIX");
    unsetenv("CUDNN_PATH");
    set_site_packages({});
  }
  void TearDown() override {
    unsetenv("CONDA_PREFIX");
    unsetenv("CUDNN_PATH");
  }
  std::string create_file(const std::string& path) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream{root_ / path} << "planted";
    return (root_ / path).string();
  }
  const cucore::test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
};

TEST_F(Search, NewerWheelLayoutPrecedesOlderOne) {
  const auto old_lib = create_file("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  set_site_packages({root_ / "site"});
  auto report = explain("nvrtc");
  EXPECT_EQ(report.abs_path, old_lib);
  EXPECT_EQ(report.found_via, "site-packages");
  const auto new_lib = create_file("site/nvidia/cu13/lib/libnvrtc.so.13");
  report = explain("nvrtc");
  EXPECT_EQ(report.abs_path, new_lib);
  EXPECT_TRUE(std::ranges::find(report.attempts,
                                Attempt{"site-packages", old_lib, "also found, not used"}) !=
              report.attempts.end());
}

TEST_F(Search, WheelPrecedesConda) {
  create_file("conda/lib/libnvjpeg.so.13");
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  EXPECT_EQ(explain("nvjpeg").found_via, "conda");
  const auto wheel = create_file("site/nvidia/nvjpeg/lib/libnvjpeg.so.12");
  set_site_packages({root_ / "site"});
  EXPECT_EQ(explain("nvjpeg").abs_path, wheel);
}

TEST_F(Search, EarlierSitePackagesFolderPrecedesLaterOne) {
  create_file("second/nvidia/cu13/lib/libnvjpeg.so.13");
  const auto first = create_file("first/nvidia/nvjpeg/lib/libnvjpeg.so.12");
  set_site_packages({root_ / "first", root_ / "second"});
  EXPECT_EQ(explain("nvjpeg").abs_path, first);
}

TEST_F(Search, HeadersOfAProductAreFoundThroughItsVariable) {
  create_file("product/include/cudnn.h");
  setenv("CUDNN_PATH", (root_ / "product").c_str(), 1);
  const auto report = explain("cudnn", Kind::headers);
  EXPECT_EQ(report.abs_path, (root_ / "product/include").string());
  EXPECT_EQ(report.found_via, "CUDNN_PATH");
}

TEST_F(Search, CondaHeadersAreFoundInTheTargetsFolder) {
  const std::string folder = "conda/targets/" + std::string{target_name()} + "/include";
  create_file(folder + "/nvFatbin.h");
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  EXPECT_EQ(explain("nvfatbin", Kind::headers).abs_path, (root_ / folder).string());
}

TEST_F(Search, RuntimeHeadersWithoutCompilerHeadersYieldToACompleteSet) {
  const auto part = create_file("site/nvidia/cu13/include/cuda_runtime.h");
  create_file("conda/include/cuda_runtime.h");
  create_file("conda/include/crt/host_defines.h");
  set_site_packages({root_ / "site"});
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  const auto report = explain("cudart", Kind::headers);
  EXPECT_EQ(report.abs_path, (root_ / "conda/include").string()) << report.str();
  EXPECT_EQ(report.found_via, "conda");
  EXPECT_NE(report.str().find(part + ": found, without crt/host_defines.h"), std::string::npos)
      << report.str();
}

TEST_F(Search, CompilerHeadersOfAnotherWheelCompleteRuntimeHeaders) {
  create_file("conda/include/cuda_runtime.h");
  create_file("conda/include/crt/host_defines.h");
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  create_file("cuda13/nvidia/cu13/include/cuda_runtime.h");
  create_file("cuda13/nvidia/cu13/include/crt/host_defines.h");
  set_site_packages({root_ / "cuda13"});
  EXPECT_EQ(explain("cudart", Kind::headers).found_via, "site-packages");
  create_file("cuda12/nvidia/cuda_runtime/include/cuda_runtime.h");
  create_file("cuda12/nvidia/cuda_nvcc/include/crt/host_defines.h");
  set_site_packages({root_ / "cuda12"});
  EXPECT_EQ(explain("cudart", Kind::headers).abs_path,
            (root_ / "cuda12/nvidia/cuda_runtime/include").string());
}

TEST_F(Search, CompilerHeadersAreFoundSeparately) {
  create_file("site/nvidia/cu13/include/cuda_runtime.h");
  create_file("conda/include/crt/host_defines.h");
  set_site_packages({root_ / "site"});
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  const auto found = locate_compiler_headers();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->abs_path, (root_ / "conda/include").string());
}

TEST_F(Search, ProgramWithoutExecutePermissionIsNotFound) {
  const auto program = create_file("conda/bin/cuda-gdbserver");
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  EXPECT_NE(explain("cuda-gdbserver").abs_path, program);
  fs::permissions(program, fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_EQ(explain("cuda-gdbserver").abs_path, program);
}

TEST_F(Search, RelativePathsAreNeverSearched) {
  create_file("nvidia/cu13/lib/libnvjpeg.so.13");
  create_file("lib/libnvjpeg.so.13");
  const auto before = fs::current_path();
  fs::current_path(root_);
  setenv("CONDA_PREFIX", ".", 1);
  set_site_packages({"", ".", "nvidia"});
  const auto report = explain("nvjpeg");
  fs::current_path(before);
  EXPECT_FALSE(report.abs_path.starts_with(root_.string())) << report.str();
  for (const auto& attempt : report.attempts)
    EXPECT_EQ(attempt.place.find("./"), std::string::npos) << attempt.place;
}

TEST_F(Search, DriverLibraryIsSearchedByTheLinkerOnly) {
  create_file("site/nvidia/cu13/lib/libcuda.so.1");
  create_file("conda/lib/libcuda.so.1");
  setenv("CONDA_PREFIX", (root_ / "conda").c_str(), 1);
  set_site_packages({root_ / "site"});
  for (const auto& attempt : explain("cuda").attempts) {
    EXPECT_TRUE(attempt.step == "system-search" || attempt.step == "already-loaded")
        << attempt.step;
  }
}

TEST_F(Search, MissingLibraryErrorListsEveryPath) {
  create_file("site/nvidia/nvshmem/lib/something_else");
  set_site_packages({root_ / "site"});
  try {
    locate_bitcode_lib("nvshmem_device");
    FAIL() << "found a library that does not exist";
  } catch (const NotFoundError& error) {
    EXPECT_FALSE(error.report().attempts.empty());
    const std::string place = (root_ / "site/nvidia/nvshmem/lib/libnvshmem_device.bc").string();
    EXPECT_NE(error.report().str().find(place), std::string::npos);
    EXPECT_EQ(std::string{error.what()}.find(place), std::string::npos);
    EXPECT_NE(std::string{error.what()}.find("cucore info --why nvshmem_device"),
              std::string::npos);
    EXPECT_TRUE(error.report().abs_path.empty());
  }
}

TEST_F(Search, AMissingCompilerNamesTheCommandThatInstallsItInTheFirstLine) {
  const SearchReport report{
      Kind::dynamic_lib,
      "nvrtc",
      {},
      {},
      {{"conda", "/a", "not there"}, {"site", "/b", "could not be loaded: no"}}};
  const std::string text = NotFoundError{report}.what();
  EXPECT_NE(text.substr(0, text.find('\n')).find("pip install \"cucore[cu13]\""),
            std::string::npos);
  EXPECT_NE(text.find("/b: could not be loaded: no"), std::string::npos) << text;
  EXPECT_EQ(text.find("/a"), std::string::npos) << text;
}

TEST_F(Search, InvalidLibraryFileIsNamedInTheError) {
  const auto broken = create_file("site/nvidia/npp/lib/libnppc.so.12");
  set_site_packages({root_ / "site"});
  try {
    load_nvidia_dynamic_lib("nppc");
    GTEST_SKIP() << "this system has the library elsewhere";
  } catch (const NotFoundError& error) {
    const auto& attempts = error.report().attempts;
    const auto row = std::ranges::find(attempts, broken, &Attempt::place);
    ASSERT_NE(row, attempts.end());
    EXPECT_TRUE(row->outcome.starts_with("could not be loaded")) << row->outcome;
  }
}

TEST_F(Search, UnknownNameThrows) {
  EXPECT_THROW(load_nvidia_dynamic_lib("nothing"), UnknownNameError);
  EXPECT_THROW(locate_static_lib("nothing"), UnknownNameError);
  EXPECT_THROW(explain("nothing"), UnknownNameError);
}

}  // namespace
}  // namespace cucore::pathfinder
