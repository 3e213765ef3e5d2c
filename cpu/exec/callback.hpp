// SPDX-License-Identifier: Apache-2.0
// cpu/exec/callback.hpp: host functions and stream callbacks may not call CUDA.
#pragma once

namespace cucpu::driver {

/// True while this thread runs a host function or a stream callback.
extern thread_local bool t_in_callback;

}  // namespace cucpu::driver
