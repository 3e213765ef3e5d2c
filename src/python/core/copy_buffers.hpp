// SPDX-License-Identifier: Apache-2.0
// copy_buffers.hpp: copies of several buffers in one call.
#pragma once

#include "support.hpp"

namespace cucore::python {

/// cuda.core.utils.copy_batch(): sequences of Buffers, and a CopyOptions, a sequence of them or
/// None.
void copy_buffers(nb::handle stream, nb::handle srcs, nb::handle dsts, nb::handle options);

}  // namespace cucore::python
