// cpu/base/log.hpp: the error log behind cuLogs*: a bounded list of sentences, and callbacks that
// hear each new one.
#pragma once

#include <string_view>

#include "cpu/base/abi.hpp"

namespace cucpu::driver {

/// Never throws, never blocks on user code held by another thread longer than a callback runs.
void log_message(CUlogLevel level, std::string_view text) noexcept;

}  // namespace cucpu::driver
