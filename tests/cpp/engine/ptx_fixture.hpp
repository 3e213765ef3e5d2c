// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/ptx_fixture.hpp: PTX text through the whole engine.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "cpu/engine/engine.hpp"

namespace cucpu::test {

/// Host memory for module variables; counts what is not given back.
struct TestMemory final : VariableMemory {
  Place allocate(std::size_t size, std::size_t align, bool) override {
    const std::size_t a = std::max<std::size_t>(align, 64);
    void* memory = std::aligned_alloc(a, (size + a - 1) / a * a);
    std::memset(memory, 0, size);
    live.insert(memory);
    return {memory, false};
  }
  void free(void* address) noexcept override {
    live.erase(address);
    std::free(address);
  }
  ~TestMemory() override { EXPECT_TRUE(live.empty()); }
  std::set<void*> live;
};

/// Sets an environment variable for the length of a scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_{name} {
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

inline std::unique_ptr<Module> load(const std::string& body, VariableMemory& memory) {
  const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n" + body;
  const std::string_view views[] = {text};
  return Module::load(views, {}, memory);
}

struct Ended {
  int code = 0;
  std::string report;
};

inline Ended finish(Launch& launch, int threads = 2) {
  std::atomic<int> last{0};
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&] { last += launch.work() ? 1 : 0; });
  last += launch.work() ? 1 : 0;
  for (auto& other : others) other.join();
  EXPECT_EQ(last, 1);
  if (const Fault* fault = launch.fault()) return {fault->code, fault->report};
  return {};
}

inline LaunchShape shape_of(Dim3 grid, Dim3 block) {
  LaunchShape shape;
  shape.grid = grid;
  shape.block = block;
  return shape;
}

template <typename... T>
Ended launch(const Module& module, const char* name, const LaunchShape& shape, T... values) {
  const Kernel* kernel = module.find_kernel(name);
  if (!kernel) throw std::runtime_error{std::string{"no kernel "} + name};
  std::vector<std::byte> params(kernel->info().param_bytes);
  [[maybe_unused]] std::size_t i = 0;
  [[maybe_unused]] const auto put = [&](auto value) {
    const Param& param = kernel->info().params.at(i++);
    ASSERT_EQ(param.size, sizeof value);
    std::memcpy(params.data() + param.offset, &value, sizeof value);
  };
  (put(values), ...);
  return finish(*Launch::make(*kernel, shape, params.data()));
}

}  // namespace cucpu::test
