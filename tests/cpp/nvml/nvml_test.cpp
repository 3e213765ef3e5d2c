// SPDX-License-Identifier: Apache-2.0
// nvml_test.cpp: every exported function of the CPU device's NVML with valid and invalid arguments,
// and unloading of the library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define CUCORE_ABI_ALL_VERSIONS
#include "cucore/abi/nvml.h"

namespace {

/// The library, loaded for one test.
class Nvml : public testing::Test {
 protected:
  void SetUp() override {
    setenv("CUCORE_CPU_DEVICES", "2", 1);
    setenv("CUCORE_CPU_MEMORY", "64M", 1);
    library_ = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(nullptr, library_) << dlerror();
  }
  void TearDown() override {
#if defined(__SANITIZE_ADDRESS__)
    return;  // memory of an unloaded library's C++ runtime is reported as a leak without symbols
#endif
    EXPECT_EQ(0, dlclose(library_));
    EXPECT_EQ(nullptr, dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_NOLOAD))
        << "the library is still loaded";
  }
  template <class F>
  F* find(const char* name) {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
};

#define CALL(name, ...) find<decltype(name)>(#name)(__VA_ARGS__)

class InitializedNvml : public Nvml {
 protected:
  void SetUp() override {
    Nvml::SetUp();
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlInit_v2));
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetHandleByIndex_v2, 0, &device_));
  }
  void TearDown() override {
    EXPECT_EQ(NVML_SUCCESS, CALL(nvmlShutdown));
    Nvml::TearDown();
  }
  nvmlDevice_t device_ = nullptr;
};

/// Names of all functions in the facts.
std::set<std::string> functions() {
  std::ifstream file{NVML_FACTS};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::size_t begin = text.find("\"functions\""), end = text.find("\"structs\"");
  EXPECT_NE(std::string::npos, begin);
  const std::string part = text.substr(begin, end - begin);
  static const std::regex name{R"re("(nvml[A-Z]\w*)"\s*:\s*\{)re"};
  std::set<std::string> names;
  for (std::sregex_iterator at{part.begin(), part.end(), name}, none; at != none; ++at)
    names.insert((*at)[1]);
  return names;
}

using Any = nvmlReturn_t(void*, void*, void*, void*, void*, void*, void*, void*);

bool needs_no_initialization(const std::string& name) {
  return name.starts_with("nvmlInit") || name == "nvmlErrorString" || name == "nvmlShutdown";
}

TEST_F(Nvml, EveryFunctionIsExportedAndFailsBeforeInit) {
  const std::set<std::string> names = functions();
  EXPECT_GT(names.size(), 300u);
  for (const std::string& name : names) {
    Any* const function = find<Any>(name.c_str());
    ASSERT_NE(nullptr, function) << name;
    if (needs_no_initialization(name)) continue;
    EXPECT_EQ(NVML_ERROR_UNINITIALIZED,
              function(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr))
        << name;
  }
  EXPECT_EQ(NVML_ERROR_UNINITIALIZED, CALL(nvmlShutdown));
}

TEST_F(InitializedNvml, NullArgumentsReturnInvalidArgumentOrNotSupported) {
  for (const std::string& name : functions()) {
    if (needs_no_initialization(name)) continue;
    const nvmlReturn_t code = find<Any>(name.c_str())(nullptr, nullptr, nullptr, nullptr, nullptr,
                                                      nullptr, nullptr, nullptr);
    EXPECT_TRUE(code == NVML_ERROR_INVALID_ARGUMENT || code == NVML_ERROR_NOT_SUPPORTED)
        << name << ": " << code;
  }
}

TEST_F(InitializedNvml, InvalidDeviceHandleReturnsAnError) {
  int nothing[64] = {};
  for (const std::string& name : functions()) {
    if (!name.starts_with("nvmlDevice") || name.find("GetHandle") != std::string::npos ||
        name.find("Count") != std::string::npos)
      continue;
    const nvmlReturn_t code = find<Any>(name.c_str())(nothing, nothing, nothing, nothing, nothing,
                                                      nothing, nothing, nothing);
    EXPECT_TRUE(code == NVML_ERROR_INVALID_ARGUMENT || code == NVML_ERROR_NOT_SUPPORTED ||
                code == NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        << name << ": " << code;
  }
}

TEST_F(InitializedNvml, NullOutputPointersReturnAnError) {
  static const std::set<std::string> without_output{
      "nvmlDeviceSetCpuAffinity", "nvmlDeviceClearCpuAffinity", "nvmlDeviceSetComputeMode",
      "nvmlDeviceSetPersistenceMode"};
  for (const std::string& name : functions()) {
    if (!name.starts_with("nvmlDevice") || name == "nvmlDeviceGetCount" ||
        without_output.contains(name))
      continue;
    const nvmlReturn_t code = find<Any>(name.c_str())(device_, nullptr, nullptr, nullptr, nullptr,
                                                      nullptr, nullptr, nullptr);
    EXPECT_TRUE(code == NVML_ERROR_INVALID_ARGUMENT || code == NVML_ERROR_NOT_SUPPORTED)
        << name << ": " << code;
  }
}

TEST_F(InitializedNvml, DevicesAreFoundByIndexUuidAndPciAddress) {
  unsigned count = 0;
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetCount_v2, &count));
  ASSERT_EQ(2u, count);
  std::set<std::string> uuids;
  for (unsigned i = 0; i < count; ++i) {
    nvmlDevice_t device = nullptr, same = nullptr;
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetHandleByIndex_v2, i, &device));
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "", name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetUUID, device, uuid, sizeof uuid));
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetName, device, name, sizeof name));
    EXPECT_NE(nullptr, std::strstr(name, "CPU device"));
    EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, CALL(nvmlDeviceGetUUID, device, uuid, 4));
    uuids.insert(uuid);
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetHandleByUUID, uuid, &same));
    EXPECT_EQ(device, same);
    nvmlPciInfo_t pci{};
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetPciInfo_v3, device, &pci));
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetHandleByPciBusId_v2, pci.busId, &same));
    EXPECT_EQ(device, same);
    unsigned index = 99;
    ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetIndex, device, &index));
    EXPECT_EQ(i, index);
  }
  EXPECT_EQ(2u, uuids.size());
  nvmlDevice_t none = nullptr;
  EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, CALL(nvmlDeviceGetHandleByIndex_v2, 2, &none));
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, CALL(nvmlDeviceGetHandleByUUID, "GPU-none", &none));
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, CALL(nvmlDeviceGetHandleByPciBusId_v2, "0000:FF:1F.0", &none));
}

TEST_F(InitializedNvml, MemoryTotalIsTheLimitAndStructVersionIsChecked) {
  nvmlMemory_t memory{};
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetMemoryInfo, device_, &memory));
  EXPECT_EQ(64ull << 20, memory.total);
  EXPECT_EQ(memory.total, memory.used + memory.free);
  nvmlMemory_v2_t second{};
  EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            CALL(nvmlDeviceGetMemoryInfo_v2, device_, &second));
  second.version = static_cast<unsigned>(sizeof second) | 2u << 24;
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetMemoryInfo_v2, device_, &second));
  EXPECT_EQ(memory.total, second.total);
}

TEST_F(InitializedNvml, SensorValuesAreInRangeOrNotSupported) {
  nvmlUtilization_t use{};
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetUtilizationRates, device_, &use));
  EXPECT_LE(use.gpu, 100u);
  unsigned degrees = 0, mhz = 0;
  const nvmlReturn_t code = CALL(nvmlDeviceGetTemperature, device_, NVML_TEMPERATURE_GPU, &degrees);
  EXPECT_TRUE(code == NVML_ERROR_NOT_SUPPORTED || (code == NVML_SUCCESS && degrees < 150));
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetClockInfo, device_, NVML_CLOCK_SM, &mhz));
  EXPECT_GT(mhz, 0u);
  EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
            CALL(nvmlDeviceGetClockInfo, device_, static_cast<nvmlClockType_t>(99), &mhz));
  int major = 0, minor = 0;
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetCudaComputeCapability, device_, &major, &minor));
  EXPECT_EQ(9, major);
}

TEST_F(InitializedNvml, ListQueryReturnsTheRequiredCount) {
  unsigned count = 0;
  const nvmlReturn_t code = CALL(nvmlDeviceGetComputeRunningProcesses_v3, device_, &count, nullptr);
  EXPECT_TRUE(code == NVML_SUCCESS || code == NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(code == NVML_SUCCESS, count == 0);
  char name[256];
  ASSERT_EQ(NVML_SUCCESS,
            CALL(nvmlSystemGetProcessName, static_cast<unsigned>(getpid()), name, sizeof name));
  EXPECT_NE(nullptr, std::strstr(name, "nvml_tests"));
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, CALL(nvmlSystemGetProcessName, 0x7ffffff0u, name, sizeof name));
}

TEST_F(InitializedNvml, InitIsReferenceCountedAndQueriesAreThreadSafe) {
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlInitWithFlags, 0));
  EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, CALL(nvmlInitWithFlags, 0x80));
  ASSERT_EQ(NVML_SUCCESS, CALL(nvmlShutdown));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([this] {
      for (int j = 0; j < 3; ++j) {
        nvmlMemory_t memory{};
        nvmlUtilization_t use{};
        EXPECT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetMemoryInfo, device_, &memory));
        EXPECT_EQ(NVML_SUCCESS, CALL(nvmlDeviceGetUtilizationRates, device_, &use));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Nvml, EveryResultHasADescription) {
  for (int code = 0; code < 40; ++code)
    EXPECT_NE(nullptr, CALL(nvmlErrorString, static_cast<nvmlReturn_t>(code)));
}

}  // namespace
