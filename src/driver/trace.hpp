// SPDX-License-Identifier: Apache-2.0
// trace.hpp: spans of the timeline that the CPU device records (CUCORE_TRACE).
#pragma once

#include <string>

#include "cucore/export.hpp"

namespace cucore::detail {

/// Records a span from construction to destruction on this thread. No-op unless the CPU device is
/// in use and recording is enabled.
class CUCORE_EXPORT TraceScope {
 public:
  /// `category` must be a string literal.
  TraceScope(const char* category, const std::string& name);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const char* category_;
  std::string name_;
  long long begin_ = 0;
};

}  // namespace cucore::detail
