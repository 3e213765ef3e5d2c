// SPDX-License-Identifier: Apache-2.0
// cpu/base/log.hpp: the error log of cuLogs*: a bounded list of messages, and callbacks that
// receive each new one.
#pragma once

#include <string>
#include <string_view>

#include "cpu/base/abi.hpp"

namespace cucpu::driver {

/// Stores a message and calls the callbacks. Never throws.
void log_message(CUlogLevel level, std::string_view text) noexcept;

/// The lines after the iterator (null: all that are kept); moves the iterator to the end.
std::string log_text_since(CUlogIterator* iterator);
/// The position after the newest line.
CUlogIterator log_end();

CUlogsCallbackHandle register_log_callback(CUlogsCallback callback, void* data);
/// False for a handle that is not registered.
bool unregister_log_callback(CUlogsCallbackHandle callback) noexcept;

}  // namespace cucpu::driver
