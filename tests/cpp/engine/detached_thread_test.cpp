// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/detached_thread_test.cpp: threads of the library take no signals of the program.
#include "cpu/engine/run/detached_thread.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cucpu::test
