// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/ready_queue.hpp: the fibers of a host thread that can run, in the order in which
// they became ready.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/engine/run/block.hpp"

namespace cucpu {

/// A queue of fibers whose n-th one can be taken in logarithmic time: slots in the order of push(),
/// and a Fenwick tree that counts the used ones. Random schedules choose among thousands.
class IndexedFiberQueue {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  /// So many fibers find room without an allocation.
  void reserve(std::size_t fibers);
  void push(Fiber*);
  Fiber* take(std::size_t position);  ///< less than size()
  void clear();

 private:
  void add(std::size_t slot, std::uint32_t difference);
  void make_room();  ///< Closes the gaps; twice as many slots if half of them are used.

  std::vector<Fiber*> slots_;        ///< null: taken, or after end_
  std::vector<std::uint32_t> tree_;  ///< tree_[i - 1]: used ones of the i & -i slots up to i
  std::size_t end_ = 0, size_ = 0;
};

/// First in, first out, unless take() is used. Only random schedules need an index, so only they
/// maintain one.
class ReadyQueue {
 public:
  /// Whether take() is used. The queue must be empty.
  void set_indexed(bool is_indexed) {
    if (is_indexed != indexed_.has_value()) {
      indexed_.reset();
      if (is_indexed) indexed_.emplace();
    }
  }
  /// As long as there are no more fibers, push() does not allocate.
  void reserve(std::size_t fibers) {
    if (indexed_) indexed_->reserve(fibers);
  }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return indexed_ ? indexed_->size() : list_.size(); }
  void push(Fiber* fiber) {
    if (indexed_) [[unlikely]]
      return indexed_->push(fiber);
    list_.push(fiber);
  }
  Fiber* pop() {
    if (indexed_) [[unlikely]]
      return indexed_->size() == 0 ? nullptr : indexed_->take(0);
    return list_.pop();
  }
  /// Takes the fiber at this position.
  Fiber* take(std::size_t position) { return indexed_->take(position); }
  void clear() {
    list_.clear();
    if (indexed_) indexed_->clear();
  }

 private:
  FiberQueue list_;
  std::optional<IndexedFiberQueue> indexed_;
};

}  // namespace cucpu
