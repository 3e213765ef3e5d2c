// SPDX-License-Identifier: Apache-2.0
// mutex_test.cpp: a mutex that another thread held at a fork.
#include "driver/mutex.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "cucore/driver.hpp"

namespace cucore {
namespace {

TEST(Mutex, LockHeldByAThreadOfTheParentDoesNotBlockAForkedChild) {
  driver();  // loading it installs the fork handler
  detail::Mutex mutex;
  std::promise<void> taken;
  std::promise<void> child_ended;
  std::thread holder{[&] {
    const std::lock_guard lock{mutex};
    taken.set_value();
    child_ended.get_future().wait();
  }};
  taken.get_future().wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that blocks
    { const std::lock_guard lock{mutex}; }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  child_ended.set_value();
  holder.join();
  EXPECT_EQ(status, 0);
  const std::lock_guard lock{mutex};  // still works in the parent
}

}  // namespace
}  // namespace cucore
