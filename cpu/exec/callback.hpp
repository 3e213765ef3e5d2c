// SPDX-License-Identifier: Apache-2.0
// cpu/exec/callback.hpp: host functions and stream callbacks may not call CUDA.
#pragma once

namespace cucpu::driver {

/// True while this thread runs a host function or a stream callback. Every call of the API tests
/// it: the initial-exec model and constinit make that one load.
extern constinit thread_local bool t_in_callback __attribute__((tls_model("initial-exec")));

}  // namespace cucpu::driver
