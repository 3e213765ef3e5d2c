// SPDX-License-Identifier: Apache-2.0
// cpu/exec/stream_order.hpp: a stream as race checks between operations see it.
#pragma once

#include "cpu/engine/check/operations.hpp"
#include "cpu/exec/stream.hpp"

namespace cucpu::driver {

operations::StreamView view_of(const Stream& stream) noexcept;

}  // namespace cucpu::driver
