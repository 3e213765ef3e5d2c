// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/detached_thread_test.cpp: threads of the library take no signals of the program.
#include "cpu/engine/run/detached_thread.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>

namespace cucpu::test {
namespace {

TEST(DetachedThread, BlocksAllSignalsButFaultsAndHasItsName) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::promise<std::pair<sigset_t, std::string>> started;
  start_detached_thread("cucore-test", [&started] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    started.set_value({mask, name});
  });
  const auto [mask, name] = started.get_future().get();
  EXPECT_EQ(name, "cucore-test");
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1})
    EXPECT_EQ(sigismember(&mask, signal), 1) << signal;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
    EXPECT_EQ(sigismember(&mask, signal), 0) << signal;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
}

rlim_t address_space_in_use() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(file, "%lu", &pages) != 1) std::abort();
  std::fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// Exits with 5 after a thread has thrown in an address space with room for its stack only.
[[noreturn]] void throw_without_room_for_a_heap() {
  pthread_attr_t attributes;
  std::size_t stack = 0;
  pthread_getattr_default_np(&attributes);
  pthread_attr_getstacksize(&attributes, &stack);
  // A heap of glibc needs 64 MiB.
  const rlimit limit{address_space_in_use() + stack + (8 << 20), RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  std::promise<int> caught;
  start_detached_thread("cucore-test", [&caught] {
    try {
      throw 5;
    } catch (int thrown) {
      caught.set_value(thrown);
    }
  });
  std::_Exit(caught.get_future().get());
}

TEST(DetachedThreadDeathTest, StartsWithoutRoomForAHeapOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer maps more for a thread than its stack";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(throw_without_room_for_a_heap(), testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace cucpu::test
