// SPDX-License-Identifier: Apache-2.0
// Conditions of conditional nodes.
#include "cpu/graph/condition.hpp"

#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cpu/base/error.hpp"

namespace cucpu::driver {
namespace {

struct Places {
  std::mutex mutex;
  std::deque<Condition> all;  // a deque: addresses stay valid
  std::vector<Condition*> unused;
  std::unordered_map<CUgraphConditionalHandle, std::weak_ptr<Condition>> known;
};

Places& places() {
  static Places& instance = *new Places;  // never destroyed: kernels may run until the process ends
  return instance;
}

Condition* take() {
  Places& p = places();
  const std::lock_guard lock{p.mutex};
  if (p.unused.empty()) {
    p.unused.reserve(p.all.size() + 1);  // so that a release allocates nothing
    return &p.all.emplace_back();
  }
  Condition* const place = p.unused.back();
  p.unused.pop_back();
  return place;
}

void give_back(Condition* condition) noexcept {
  Places& p = places();
  const std::lock_guard lock{p.mutex};
  p.known.erase(handle_of(*condition));
  p.unused.push_back(condition);
}

}  // namespace

CUgraphConditionalHandle handle_of(const Condition& condition) noexcept {
  return reinterpret_cast<CUgraphConditionalHandle>(&condition);
}

std::shared_ptr<Condition> make_condition(unsigned initial, bool assign_initial) {
  std::shared_ptr<Condition> made{take(), give_back};
  made->value.store(initial, std::memory_order_relaxed);
  made->initial = initial;
  made->assign_initial = assign_initial;
  made->has_node = false;
  Places& p = places();
  const std::lock_guard lock{p.mutex};
  p.known.emplace(handle_of(*made), made);
  return made;
}

std::shared_ptr<Condition> condition_of(CUgraphConditionalHandle handle) {
  std::shared_ptr<Condition> found;
  {
    Places& p = places();
    const std::lock_guard lock{p.mutex};
    if (const auto at = p.known.find(handle); at != p.known.end()) found = at->second.lock();
  }
  require(found != nullptr);
  return found;
}

}  // namespace cucpu::driver
