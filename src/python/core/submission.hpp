// SPDX-License-Identifier: Apache-2.0
// submission.hpp: whether a call that enqueues work may keep the GIL.
//
// Releasing and reacquiring the GIL takes longer than the rest of such a call. The GIL must be
// released if the call may wait for something that needs it: a call that enqueues work blocks if
// the driver's queue is full, or if it must allocate memory for a kernel, and the device may be
// waiting for a host function, or for a flag that another thread sets.
#pragma once

#include "core/backlog.hpp"
#include "core/blocking_calls.hpp"
#include "cucore/stream.hpp"
#include "python/gil.hpp"

namespace cucore::python {

using cucore::detail::Backlog;
using cucore::detail::backlog;
using cucore::detail::host_calls_are_pending;

/// Returns the result of a short query of an object. Releases the GIL if host calls are pending,
/// and then queries a copy, which stays valid if another thread closes the object.
template <class Object, class Question>
auto asked(const Object& object, Question question) {
  if (!host_calls_are_pending()) [[likely]]
    return question(object);
  const Object held = object;
  const WithoutGil release;
  return question(held);
}

/// Counts a call that enqueues work, and returns whether it may be made with the GIL held. If so,
/// no other thread can close an object meanwhile. Always false in free-threaded Python, which has
/// no GIL.
[[gnu::always_inline]] inline bool may_keep_lock([[maybe_unused]] CUstream stream,
                                                 [[maybe_unused]] unsigned weight = 1) noexcept {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return backlog.add(stream, weight) && !host_calls_are_pending() && is_only_thread();
#endif
}

/// Like may_keep_lock(), for a captured call, which enqueues nothing.
[[gnu::always_inline]] inline bool may_keep_lock_in_capture() noexcept {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return !host_calls_are_pending() && is_only_thread();
#endif
}

}  // namespace cucore::python
