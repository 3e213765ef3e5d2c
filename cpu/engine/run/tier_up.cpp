// cpu/engine/run/tier_up.cpp
#include "cpu/engine/run/tier_up.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "cpu/engine/run/detached_thread.hpp"
#include "cpu/engine/run/grid.hpp"

namespace cucpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Code that has run for less in all is not worth a better one: most kernels of a test suite.
constexpr std::chrono::milliseconds kWhile{20};
/// How long the end of the process waits for work in the background to come to a point where it can
/// stop.
constexpr std::chrono::seconds kPatience{10};

}  // namespace

/// Never destroyed: its thread may outlive main.
struct Successor::Background {
  struct Wish {
    std::shared_ptr<Successor> successor;
    const FirstRun* run;
  };
  std::mutex mutex;
  std::condition_variable changed, stopped;
  std::multimap<Clock::time_point, Wish> wishes;  ///< of runs that go on: when each is long enough
  std::atomic<pid_t> process{0};                  ///< that has the thread; 0: there is none
  bool busy = false, ending = false;

  static Background& get() {
    static auto* const background = new Background;
    return *background;
  }

  void start() {
    // Registered behind LLVM's own variables, so that it comes before they are destroyed.
    std::atexit([] { get().end(); });
    start_thread("cucore-compiler", [this] { loop(); });
    process = getpid();
  }

  void loop() {
    std::unique_lock lock{mutex};
    for (;;) {
      if (wishes.empty() || ending) {
        changed.wait(lock);
        continue;
      }
      const auto first = wishes.begin();
      if (Clock::now() < first->first) {
        changed.wait_until(lock, Clock::time_point{first->first});
        continue;
      }
      const std::shared_ptr<Successor> successor = std::move(first->second.successor);
      wishes.erase(first);
      if (std::exchange(successor->asked_, true)) continue;
      busy = true;
      lock.unlock();
      successor->make();
      lock.lock();
      busy = false;
      stopped.notify_all();
    }
  }

  void end() {
    if (process != getpid())
      return;  // a forked child has no such thread, and may find the lock held
    std::unique_lock lock{mutex};
    ending = true;
    stopped.wait_for(lock, kPatience, [this] { return !busy; });
  }
};

void Successor::make() noexcept {
  try {
    successor_ = make_();
  } catch (...) {  // the first code stays; `make_` has said why
  }
  make_ = nullptr;  // and what it holds
  if (successor_) ready_.store(successor_.get(), std::memory_order_release);
}

void FirstRun::start(const std::shared_ptr<Successor>& successor) noexcept try {
  if (started_.exchange(true)) return;
  auto& background = Successor::Background::get();
  const std::lock_guard lock{background.mutex};
  if (successor->asked_) return;
  began_ = Clock::now();
  const auto due = began_ + std::max<Clock::duration>(kWhile - successor->spent_, {});
  if (background.process == 0) background.start();
  const auto placed = background.wishes.emplace(due, Successor::Background::Wish{successor, this});
  successor_ = successor;
  if (placed == background.wishes.begin()) background.changed.notify_one();
} catch (...) {  // without memory for this it goes on as it is
}

void FirstRun::stop() noexcept {
  if (!started_) return;
  auto& background = Successor::Background::get();
  const std::lock_guard lock{background.mutex};
  if (!successor_) return;
  successor_->spent_ += Clock::now() - began_;
  std::erase_if(background.wishes, [&](const auto& wish) { return wish.second.run == this; });
  successor_.reset();
}

void stop_with_process() noexcept {
  auto& background = Successor::Background::get();
  {
    const std::lock_guard lock{background.mutex};
    if (!background.ending) return;
    background.busy = false;
    background.stopped.notify_all();
  }
  for (;;) pause();
}

}  // namespace cucpu
