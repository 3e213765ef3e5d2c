// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/ready_queue.cpp
#include "cpu/engine/run/ready_queue.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace cucpu {

void IndexedFiberQueue::add(std::size_t slot, std::uint32_t difference) {
  for (std::size_t i = slot + 1; i <= slots_.size(); i += i & (~i + 1)) tree_[i - 1] += difference;
}

void IndexedFiberQueue::make_room() {
  constexpr std::size_t kFewest = 64;
  if (2 * size_ >= slots_.size()) slots_.resize(std::max(kFewest, 2 * slots_.size()));
  const auto end = std::remove(slots_.begin(), slots_.end(), nullptr);
  std::fill(end, slots_.end(), nullptr);
  end_ = size_;
  tree_.assign(slots_.size(), 0);
  for (std::size_t i = 1; i <= slots_.size(); ++i) {
    tree_[i - 1] += slots_[i - 1] ? 1 : 0;
    if (const std::size_t next = i + (i & (~i + 1)); next <= slots_.size())
      tree_[next - 1] += tree_[i - 1];
  }
}

void IndexedFiberQueue::reserve(std::size_t fibers) {
  if (2 * fibers < slots_.size()) return;
  slots_.resize(std::bit_ceil(2 * fibers + 1));
  make_room();
}

void IndexedFiberQueue::push(Fiber* fiber) {
  if (end_ == slots_.size()) make_room();
  slots_[end_] = fiber;
  add(end_++, 1);
  ++size_;
}

Fiber* IndexedFiberQueue::take(std::size_t position) {
  std::size_t before = 0;  // slots that are known to be before the one looked for
  for (std::size_t step = slots_.size(); step != 0; step /= 2) {
    if (before + step > slots_.size() || tree_[before + step - 1] > position) continue;
    before += step;
    position -= tree_[before - 1];
  }
  add(before, ~std::uint32_t{0});  // minus one
  --size_;
  return std::exchange(slots_[before], nullptr);
}

void IndexedFiberQueue::clear() {
  std::fill(slots_.begin(), slots_.end(), nullptr);
  std::fill(tree_.begin(), tree_.end(), 0);
  end_ = size_ = 0;
}

}  // namespace cucpu
