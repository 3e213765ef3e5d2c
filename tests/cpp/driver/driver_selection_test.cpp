// SPDX-License-Identifier: Apache-2.0
// driver_selection_test.cpp: the library that CUCORE_DEVICE selects, and the errors of a failed
// selection.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

/// Runs code in a child process, because a process loads one driver only. Returns its result.
template <class Code>
bool in_child(Code code) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = code();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool error_contains(const std::string& expected) {
  try {
    driver();
  } catch (const DriverNotFoundError& error) {
    return std::string{error.what()}.find(expected) != std::string::npos;
  }
  return false;
}

bool cpu_device_is_built() { return std::getenv("CUCORE_CPU_LIBRARY") != nullptr; }

class DriverSelection : public ::testing::Test {
 protected:
  void SetUp() override {
    if (driver_is_loaded())
      GTEST_SKIP() << "the driver is already loaded in this process; run this test alone";
  }
};

TEST_F(DriverSelection, UnknownDeviceRaisesAnErrorThatNamesTheVariable) {
  EXPECT_TRUE(in_child([] {
    setenv("CUCORE_DEVICE", "abacus", 1);
    return error_contains("CUCORE_DEVICE=abacus") && error_contains("auto, gpu or cpu");
  }));
}

TEST_F(DriverSelection, MissingCpuLibraryRaisesAnErrorWithItsPath) {
  EXPECT_TRUE(in_child([] {
    setenv("CUCORE_DEVICE", "cpu", 1);
    setenv("CUCORE_CPU_LIBRARY", "/nonexistent/libcucore_cpu.so", 1);
    return error_contains("/nonexistent/libcucore_cpu.so");
  }));
}

TEST_F(DriverSelection, RelativeCpuLibraryPathRaisesAnError) {
  EXPECT_TRUE(in_child([] {
    setenv("CUCORE_DEVICE", "cpu", 1);
    setenv("CUCORE_CPU_LIBRARY", "libcucore_cpu.so", 1);
    return error_contains("must be an absolute path");
  }));
}

// promise: No library is loaded from the working directory
TEST_F(DriverSelection, NoLibraryIsLoadedFromTheWorkingDirectory) {
  EXPECT_TRUE(in_child([] {
    const auto folder =
        std::filesystem::temp_directory_path() / ("cucore-table-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::filesystem::current_path(folder);
    std::ofstream{"libcuda.so.1"} << "not a library";
    setenv("CUCORE_DEVICE", "gpu", 1);
    setenv("LD_LIBRARY_PATH", ":", 1);
    bool good = false;
    try {
      driver();
      good = driver_info().path.find(folder.string()) ==
             std::string::npos;  // this machine has NVIDIA's driver
    } catch (const DriverNotFoundError& error) {
      good = std::string{error.what()}.find("not absolute paths") != std::string::npos;
    }
    std::filesystem::remove_all(folder);
    return good;
  }));
}

TEST_F(DriverSelection, ConcurrentFirstCallsLoadTheDriverOnce) {
  if (!cpu_device_is_built()) GTEST_SKIP() << "built without the CPU device";
  EXPECT_TRUE(in_child([] {
    setenv("CUCORE_DEVICE", "cpu", 1);
    if (driver_is_loaded()) return false;
    std::vector<const DriverTable*> seen(8);
    std::vector<std::thread> threads;
    for (auto& slot : seen) threads.emplace_back([&slot] { slot = &driver(); });
    for (auto& thread : threads) thread.join();
    for (const auto* table : seen) {
      if (table != seen[0]) return false;
    }
    int count = 0;
    return driver().cuDeviceGetCount(&count) == CUDA_SUCCESS && count >= 1 &&
           driver_info().kind == DeviceKind::cpu && driver_info().version >= 12000 &&
           driver_has("cuLaunchKernel");
  }));
}

int warnings = 0;

// promise: The CPU device is used by choice or with a warning that says so
TEST_F(DriverSelection, FallbackToTheCpuDeviceIsReportedOnce) {
  if (!cpu_device_is_built()) GTEST_SKIP() << "built without the CPU device";
  EXPECT_TRUE(in_child([] {
    unsetenv("CUCORE_DEVICE");
    on_cpu_fallback([](const char* text) {
      ++warnings;
      if (std::string{text}.find("CUCORE_DEVICE=cpu") == std::string::npos) warnings = 100;
    });
    driver();
    driver();
    return warnings == (driver_info().fell_back_to_cpu ? 1 : 0);
  }));
}

}  // namespace
}  // namespace cucore
