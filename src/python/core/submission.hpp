// SPDX-License-Identifier: Apache-2.0
// submission.hpp: whether a call that queues work may keep the interpreter's lock.
//
// Giving the lock up and taking it again takes longer than all the rest of such a call. It must be
// given up where the call may wait for something that needs it: a call that queues work waits for
// the device when the driver's queue is full, or when it has to make room for a kernel, and the
// device may be waiting for a host function, or for a flag that another thread will set.
#pragma once

#include "core/backlog.hpp"
#include "core/waiting.hpp"
#include "cucore/stream.hpp"
#include "python/gil.hpp"

namespace cucore::python {

using cucore::detail::Backlog;
using cucore::detail::backlog;
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

/// Counts a call that queues work, and returns whether it may be made with the GIL held. No other
/// thread can close an object then either. Free-threaded Python has no such lock, and nothing to
/// save.
[[gnu::always_inline]] inline bool may_keep_lock([[maybe_unused]] CUstream stream,
                                                 [[maybe_unused]] unsigned weight = 1) noexcept {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return backlog.add(stream, weight) && !host_calls_are_pending() && is_only_thread();
#endif
}

/// The same for a call that is captured, which queues nothing.
[[gnu::always_inline]] inline bool may_keep_lock_in_capture() noexcept {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return !host_calls_are_pending() && is_only_thread();
#endif
}

}  // namespace cucore::python
