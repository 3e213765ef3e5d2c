// mutex_test.cpp: locks in a forked child.
#include "driver/mutex.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "cucore/driver.hpp"

namespace cucore {
namespace {

TEST(Mutex, AForkedChildDoesNotWaitForAThreadThatOnlyTheParentHas) {
  driver();  // from its loading on children know that they are some
  detail::Mutex mutex;
  std::promise<void> taken;
  std::promise<void> told;
  std::thread holder{[&] {
    const std::lock_guard lock{mutex};
    taken.set_value();
    told.get_future().wait();
  }};
  taken.get_future().wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // else a child that waits would wait for ever
    { const std::lock_guard lock{mutex}; }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  told.set_value();
  holder.join();
  EXPECT_EQ(status, 0);
  const std::lock_guard lock{mutex};  // the parent's is as it was
}

}  // namespace
}  // namespace cucore
