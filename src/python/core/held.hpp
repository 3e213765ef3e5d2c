// SPDX-License-Identifier: Apache-2.0
// held.hpp: a share in an object of C++, for Python objects that keep it alive.
#pragma once

#include <memory>

namespace cucore::python {

/// Python's `_Held`.
struct Held {
  std::shared_ptr<const void> object;
};

}  // namespace cucore::python
