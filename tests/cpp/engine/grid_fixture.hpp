// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/grid_fixture.hpp: runs C++ functions as kernels.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu::test {

struct Outcome {
  int finishers = 0;
  int code = 0;
  std::string report;
};

inline Code thread_code(ThreadFunction* f) {
  Code code;
  code.kernel = "k";
  code.thread = f;
  return code;
}

inline Code block_code(BlockFunction* f) {
  Code code;
  code.kernel = "k";
  code.block = f;
  return code;
}

inline Outcome run(const Code& code, const LaunchShape& shape, const void* params = nullptr,
                   int threads = 1) {
  ensure_fault_handlers();
  Grid grid{std::make_shared<Code>(code), shape, static_cast<const std::byte*>(params)};
  std::atomic<int> finishers{0};
  const auto work = [&] { finishers += grid.work() ? 1 : 0; };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& other : others) other.join();
  Outcome outcome{finishers.load(), 0, {}};
  if (const Fault* fault = grid.fault()) {
    outcome.code = fault->code;
    outcome.report = fault->report;
  }
  return outcome;
}

template <typename T>
T& param(const BlockContext& context) {
  return **reinterpret_cast<T* const*>(context.params);
}

}  // namespace cucpu::test
