// SPDX-License-Identifier: Apache-2.0
// Settings from environment variables, each case in its own process.
#include "cpu/base/environment.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support.hpp"

namespace {

/// The exit status of `body` in a fresh process with the given variable set.
int in_process(const char* name, const char* value, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv(name, value, 1);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int init_result() { return static_cast<int>(cuInit(0)); }
int count_after_init() {
  int count = -1;
  return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 200;
}

TEST(Environment, InvalidValuesFailInit) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_DEVICES", "many", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_THREADS", "0", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_MEMORY", "lots", init_result));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_process("CUCORE_CPU_TIMEOUT", "soon", init_result));
}

TEST(Environment, VisibleDevicesAreSelected) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(4, in_process("CUCORE_CPU_DEVICES", "4", count_after_init));
  EXPECT_EQ(2, in_process("CUCORE_CPU_DEVICES", "4", [] {
              setenv("CUDA_VISIBLE_DEVICES", "3,1,9,0",
                     1);  // the first invalid entry ends the list
              return count_after_init();
            }));
  EXPECT_EQ(CUDA_ERROR_NO_DEVICE, in_process("CUDA_VISIBLE_DEVICES", "-1", init_result));
}

TEST(Environment, MemoryLimitIsEnforced) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(0, in_process("CUCORE_CPU_MEMORY", "64M", [] {
              CUcontext context = nullptr;
              CUdeviceptr p = 0;
              std::size_t total = 0;
              if (cuInit(0) || cuCtxCreate(&context, nullptr, 0, 0) || cuDeviceTotalMem(&total, 0))
                return 1;
              if (total != 64u << 20) return 2;
              if (cuMemAlloc(&p, 65 << 20) != CUDA_ERROR_OUT_OF_MEMORY) return 3;
              return cuMemAlloc(&p, 63 << 20) == CUDA_SUCCESS ? 0 : 4;
            }));
}

TEST(Environment, PeerAccessBetweenFourDevicesIsReported) {
  NEEDS_FRESH_PROCESS();
  EXPECT_EQ(0, in_process("CUCORE_CPU_DEVICES", "4", [] {
              CUcontext contexts[4];
              CUdeviceptr p[4];
              if (cuInit(0)) return 1;
              for (int i = 0; i < 4; ++i) {
                int can = 0;
                if (cuCtxCreate(&contexts[i], nullptr, 0, i) || cuMemAlloc(&p[i], 64) ||
                    cuMemsetD32(p[i], 10u + i, 16))
                  return 2;
                if (i > 0 && (cuDeviceCanAccessPeer(&can, i, 0) || !can ||
                              cuCtxEnablePeerAccess(contexts[0], 0)))
                  return 3;
                if (i > 0 &&
                    cuCtxEnablePeerAccess(contexts[0], 0) != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
                  return 4;
              }
              for (int i = 1; i < 4; ++i)
                if (cuMemcpyPeer(p[i], contexts[i], p[i - 1], contexts[i - 1], 64)) return 5;
              int value = 0, ordinal = -1;
              if (cuMemcpyDtoH(&value, p[3], 4) || value != 10) return 6;
              if (cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[2]) ||
                  ordinal != 2)
                return 7;
              return 0;
            }));
}

/// Sets variables for a scope and restores them.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> list) {
    for (const auto& [name, value] : list) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before ? std::optional<std::string>{before} : std::nullopt);
      if (value)
        setenv(name, value, 1);
      else
        unsetenv(name);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_)
      if (value)
        setenv(name, value->c_str(), 1);
      else
        unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST(EnvironmentReader, EmptyVariableCountsAsUnset) {
  const Variables variables{{"CUCORE_TEST", ""}};
  EXPECT_EQ(std::nullopt, cucpu::environment::text("CUCORE_TEST"));
  EXPECT_TRUE(cucpu::environment::flag("CUCORE_TEST", true));
  EXPECT_EQ(7, cucpu::environment::integer("CUCORE_TEST", 7, 1, 9, "a digit"));
}

TEST(EnvironmentReader, InvalidValueThrowsWithNameValueAndExpectation) {
  for (const char* value : {"many", "-1", "1e10", "5 s", "nan"}) {
    const Variables variables{{"CUCORE_CPU_TIMEOUT", value}};
    try {
      cucpu::environment::timeout_seconds();
      ADD_FAILURE() << value << " was accepted";
    } catch (const cucpu::environment::Invalid& error) {
      EXPECT_EQ("CUCORE_CPU_TIMEOUT", error.name);
      EXPECT_EQ(value, error.value);
      EXPECT_NE(std::string::npos, std::string{error.what()}.find("expected seconds"));
    }
  }
  const Variables variables{{"CUCORE_CPU_TIMEOUT", "0.5"}};
  EXPECT_EQ(0.5, cucpu::environment::timeout_seconds());
}

TEST(EnvironmentReader, CacheFolderComesFromItsVariableThenXdgThenHome) {
  const Variables all{
      {"CUCORE_CACHE_DIR", "mine"}, {"XDG_CACHE_HOME", "/xdg"}, {"HOME", "/home/user"}};
  EXPECT_EQ("mine", cucpu::environment::cache_folder());
  const Variables no_folder{{"CUCORE_CACHE_DIR", nullptr}};
  EXPECT_EQ("/xdg/cucore", cucpu::environment::cache_folder());
  const Variables relative{{"XDG_CACHE_HOME", "xdg"}};
  EXPECT_EQ("/home/user/.cache/cucore", cucpu::environment::cache_folder());
  const Variables no_home{{"HOME", nullptr}};
  EXPECT_EQ("", cucpu::environment::cache_folder());
}

}  // namespace
