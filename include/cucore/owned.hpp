// SPDX-License-Identifier: Apache-2.0
// cucore/owned.hpp: a handle of the driver that is destroyed with its owner.
#pragma once

#include <memory>
#include <type_traits>

namespace cucore {

/// Owns a handle of the driver, or none. Calls `Destroy` with the handle once, at the end.
template <class Handle, class Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

}  // namespace cucore
