// SPDX-License-Identifier: Apache-2.0
// held.hpp: shared ownership of a C++ object by a Python object.
#pragma once

#include <memory>

namespace cucore::python {

/// Python's `_Held`.
struct Held {
  std::shared_ptr<const void> object;
};

}  // namespace cucore::python
