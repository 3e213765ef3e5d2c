// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/ids.hpp: numbers of API functions and threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {

/// The callback id of a function of the driver or runtime API; 0 if it has none.
std::uint32_t callback_id(bool is_runtime, std::string_view function);
/// Its name; null if there is none.
const char* callback_name(bool is_runtime, std::uint32_t id);
/// The calling thread, as cuptiSetThreadIdType chooses.
std::uint32_t thread_id() noexcept;

}  // namespace cucpu::cupti
