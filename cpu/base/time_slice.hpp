// SPDX-License-Identifier: Apache-2.0
// cpu/base/time_slice.hpp: how long threads of this library run before others of the process may.
#pragma once

namespace cucpu {

/// Asks the scheduler for short and early turns of the calling thread, with the same share of the
/// processor: a worker that wakes up then gets the processor at once, although a thread of the
/// program spins there (those of GNU OpenMP do for milliseconds after a parallel region). Its
/// policy and its nice value stay. Linux 6.12 and later do so; earlier ones ignore the request.
void use_short_time_slice() noexcept;

}  // namespace cucpu
