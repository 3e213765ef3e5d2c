// What the tests with failing allocations share; injection.cpp replaces operator new.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <iterator>

#include "support.hpp"

extern thread_local long
    t_left;  ///< allocations of this thread until one fails; negative: none will
extern std::atomic<long> g_failures;

class Injection : public DriverTest {
 protected:
  /// Calls `body` again and again, each time with a later allocation failing, until none fails. It
  /// undoes what it does: the device has as much memory afterwards, the process as many files.
  static void each_allocation(const std::function<CUresult()>& body) {
    ASSERT_EQ(CUDA_SUCCESS, body());  // what is made once and kept
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
      // A worker may still hold the last of a grid that is over, also of the one before the first
      // look: what never comes back is a leak.
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

/// Allocations succeed in this scope: for what undoes something, and is not what is tested.
class Enough {
 public:
  Enough() : left_{t_left} { t_left = -1; }
  ~Enough() { t_left = left_; }

 private:
  long left_;
};
