// submission.hpp: whether a call that queues work may keep the interpreter's lock.
//
// Giving the lock up and taking it again takes longer than all the rest of such a call. It must be
// given up where the call may wait for something that needs it: a call that queues work waits for
// the device when the driver's queue is full, or when it has to make room for a kernel, and the
// device may be waiting for a host function, or for a flag that another thread will set.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/waiting.hpp"
#include "cucore/stream.hpp"
#include "python/gil.hpp"

namespace cucore::python {

/// How much has been queued through this package since waits proved that it was done. Only touched
/// with the interpreter's lock.
class Backlog {
 public:
  /// Half of what NVIDIA's driver queues before a call waits (1,020 on an H200).
  static constexpr unsigned kMost = 512;

  /// Counts a call; false when so much is queued that it may have to wait.
  bool add(CUstream stream, unsigned weight) noexcept {
    Part* part = &parts_[last_];
    if (part->stream != stream) [[unlikely]] {
      part = find(stream);
      if (part == nullptr) return false;
      last_ = static_cast<std::size_t>(part - parts_);
    }
    if (total_ >= kMost) return false;
    part->queued += weight;
    total_ += weight;
    return true;
  }
  /// Asked before a wait for a stream, and given back when that is over: other threads may add
  /// meanwhile.
  [[nodiscard]] unsigned on(CUstream stream) const noexcept {
    for (const Part& part : parts_) {
      if (part.stream == stream) return part.queued;
    }
    return 0;
  }
  void drained(CUstream stream, unsigned queued) noexcept {
    if (queued == 0) return;
    for (Part& part : parts_) {
      if (part.stream != stream) continue;
      const unsigned done = std::min(queued, part.queued);
      part.queued -= done;
      total_ -= done;
    }
  }
  /// After a wait for everything; `before` is what there was when it began.
  void drained(const Backlog& before) noexcept {
    for (const Part& part : before.parts_) drained(part.stream, part.queued);
  }

 private:
  struct Part {
    CUstream stream = nullptr;
    unsigned queued = 0;
  };
  /// The part of a stream, else one that is free; null when there is none.
  Part* find(CUstream stream) noexcept {
    Part* found = nullptr;
    for (Part& part : parts_) {
      if (part.stream == stream) return &part;
      if (part.queued == 0) found = &part;
    }
    if (found != nullptr) found->stream = stream;
    return found;
  }

  static constexpr std::size_t kStreams = 8;
  Part parts_[kStreams];
  std::size_t last_ = 0;
  unsigned total_ = 0;
};
inline constinit Backlog backlog;

using cucore::detail::host_calls_are_pending;

/// What an object answers to a short question, asked without the lock while that must be: of a copy
/// then, which stays when another thread closes the object.
template <class Object, class Question>
auto asked(const Object& object, Question question) {
  if (!host_calls_are_pending()) [[likely]]
    return question(object);
  const Object held = object;
  const WithoutGil release;
  return question(held);
}

/// True when no thread but this one runs Python or wants to.
inline bool is_only_thread() noexcept {
  PyInterpreterState* const interpreter = PyInterpreterState_Head();  // the newest
  return interpreter == PyInterpreterState_Main() &&
         PyThreadState_Next(PyInterpreterState_ThreadHead(interpreter)) == nullptr;
}

/// Counts a call that queues work, and says whether it may be made with the lock. Nobody else can
/// close an object then either. Free-threaded Python has no such lock, and nothing to save.
inline bool may_keep_lock([[maybe_unused]] CUstream stream,
                          [[maybe_unused]] unsigned weight = 1) noexcept {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return backlog.add(stream, weight) && !host_calls_are_pending() && is_only_thread();
#endif
}

}  // namespace cucore::python
