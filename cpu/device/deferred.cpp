// SPDX-License-Identifier: Apache-2.0
// Objects that are released after the work queued before.
#include "cpu/device/deferred.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/device/context.hpp"

namespace cucpu::driver {
namespace {

/// The work queued in all streams at one point in time.
class QueuedWork {
 public:
  static QueuedWork now() {
    QueuedWork work;
    for (const Ref<Context>& context : live_contexts())
      for (Ref<Stream>& stream : context->streams()) {
        const std::uint64_t number = stream->submitted();
        if (stream->completed() < number) work.parts_.emplace_back(std::move(stream), number);
      }
    return work;
  }
  [[nodiscard]] bool is_over() const noexcept {
    return std::ranges::all_of(
        parts_, [](const auto& part) { return part.first->completed() >= part.second; });
  }

 private:
  std::vector<std::pair<Ref<Stream>, std::uint64_t>> parts_;
};

struct Deferred {
  QueuedWork work;
  std::shared_ptr<void> thing;
};

struct Waiting {
  std::mutex mutex;
  std::list<Deferred> list;
  std::atomic<bool> any{false};  // false: the list is empty, no lock is needed
};
Waiting& waiting() {
  static Waiting& w = *new Waiting;
  return w;
}

}  // namespace

void release_after_queued_work(std::shared_ptr<void> thing) {
  release_deferred();
  std::list<Deferred> fresh;
  fresh.push_back({QueuedWork::now(), nullptr});  // the last statement that may throw
  if (fresh.front().work.is_over()) return;
  fresh.front().thing = std::move(thing);
  Waiting& w = waiting();
  const std::lock_guard lock{w.mutex};
  w.list.splice(w.list.end(), fresh);
  w.any.store(true, std::memory_order_relaxed);
}

void release_deferred() noexcept {
  Waiting& w = waiting();
  if (!w.any.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::list<Deferred>
      removed;  // destroyed after the lock is released: a destructor may defer another object
  const std::lock_guard lock{w.mutex};
  for (auto at = w.list.begin(); at != w.list.end();) {
    const auto here = at++;
    if (here->work.is_over()) removed.splice(removed.end(), w.list, here);
  }
  w.any.store(!w.list.empty(), std::memory_order_relaxed);
}

}  // namespace cucpu::driver
