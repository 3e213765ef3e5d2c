// SPDX-License-Identifier: Apache-2.0
// relaxed.hpp: calls that free or ask, made wherever an object ends or an event loop gets round to
// it.
#pragma once

#include "cucore/driver.hpp"

namespace cucore::detail {

/// A stricter stream capture forbids calls that might wait, in its own thread or in all, and is
/// lost when one is made. Objects end where Python's collector or the last user happens to run, and
/// an event loop looks after its waits while some other task captures: for this scope the thread's
/// captures are left out.
class Relaxed {
 public:
  Relaxed() noexcept { swap(); }
  ~Relaxed() { swap(); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  void swap() noexcept { (void)driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace cucore::detail
