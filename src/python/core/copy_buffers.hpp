// SPDX-License-Identifier: Apache-2.0
// copy_buffers.hpp: batched copies of buffers.
#pragma once

#include "support.hpp"

namespace cucore::python {

/// Implements cuda.core.utils.copy_batch(). Takes sequences of Buffers, and a CopyOptions, a
/// sequence of them or None.
void copy_buffers(nb::handle stream, nb::handle srcs, nb::handle dsts, nb::handle options);

}  // namespace cucore::python
