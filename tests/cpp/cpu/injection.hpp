// SPDX-License-Identifier: Apache-2.0
// Fixtures of tests with failing allocations; injection.cpp replaces operator new.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <iterator>

#include "support.hpp"

extern thread_local long
    t_left;  ///< allocations of this thread before the one that fails; negative: none fails
extern std::atomic<long> g_failures;

class Injection : public DriverTest {
 protected:
  /// Calls `body` repeatedly, each time with a later failing allocation, until none fails. `body`
  /// undoes its effects: device memory and open files are the same afterwards.
  static void each_allocation(const std::function<CUresult()>& body) {
    ASSERT_EQ(CUDA_SUCCESS, body());  // creates objects that are made once
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
    Left before;
    long k = 0;
    for (;; ++k) {
      ASSERT_LT(k, 10000) << "there is no end to the allocations";
      const long failures = g_failures.load();
      t_left = k;
      const CUresult code = body();
      t_left = -1;
      ASSERT_TRUE(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY)
          << "allocation " << k << ": " << code;
      ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize()) << "allocation " << k;
      // A worker may still release the last references of an ended grid; only a permanent
      // difference is a leak.
      Left after;
      for (int look = 0; look < 2000 && after.is_less_than(before); ++look) {
        usleep(1000);
        after = Left{};
      }
      ASSERT_GE(after.bytes, before.bytes) << "allocation " << k;
      ASSERT_LE(after.files, before.files) << "allocation " << k;
      before = after;
      if (g_failures.load() != failures) continue;
      ASSERT_EQ(CUDA_SUCCESS, code);
      break;
    }
    ASSERT_GT(k, 0) << "nothing was allocated: the test tests nothing";
  }

 private:
  struct Left {
    std::size_t bytes = 0;
    std::ptrdiff_t files = 0;
    [[nodiscard]] bool is_less_than(const Left& other) const {
      return bytes < other.bytes || files > other.files;
    }
    Left() {
      std::size_t total = 0;
      EXPECT_OK(cuMemGetInfo(&bytes, &total));
      using Entries = std::filesystem::directory_iterator;
      files = std::distance(Entries{"/proc/self/fd"}, Entries{});
    }
  };
};

#define TRY(call) \
  if (const CUresult code_of_call = (call); code_of_call != 0) return code_of_call

/// Allocations succeed in this scope: for cleanup, which is not tested.
class Enough {
 public:
  Enough() : left_{t_left} { t_left = -1; }
  ~Enough() { t_left = left_; }

 private:
  long left_;
};
