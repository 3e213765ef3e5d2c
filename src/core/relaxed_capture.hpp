// SPDX-License-Identifier: Apache-2.0
// relaxed_capture.hpp: a scope for calls allowed only in relaxed capture mode, such as frees and
// queries.
#pragma once

#include "cucore/driver.hpp"

namespace cucore::detail {

/// Sets the thread's capture mode to relaxed for a scope. In a stricter mode, a call that may block
/// invalidates a stream capture of its own thread or of any thread. Destructors run wherever
/// Python's garbage collector or the last owner runs, and an event loop polls while another task
/// captures.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope() noexcept { swap(); }
  ~RelaxedCaptureScope() { swap(); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  void swap() noexcept { (void)driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace cucore::detail
