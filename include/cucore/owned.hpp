// SPDX-License-Identifier: Apache-2.0
// cucore/owned.hpp: a move-only owner of a driver handle.
#pragma once

#include <memory>
#include <type_traits>

namespace cucore {

/// Owns a driver handle, or is null. Calls `Destroy` with the handle once, on destruction.
template <class Handle, class Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

}  // namespace cucore
