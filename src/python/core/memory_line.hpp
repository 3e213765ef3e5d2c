// SPDX-License-Identifier: Apache-2.0
// memory_line.hpp: what allocating from a pool and freeing look at besides the objects themselves:
// one line of memory, since each comes back from the outer caches after the driver's work.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "cucore/abi/driver.h"

namespace cucore::python {

class Loan;

struct alignas(64) MemoryLine {
  std::atomic<decltype(&::cuMemAllocFromPoolAsync)> allocate{nullptr};  ///< from the first
  std::atomic<decltype(&::cuMemFreeAsync)> free{nullptr};               ///< allocation on
  Loan* last_loan = nullptr;        ///< the one that was taken last, or null
  PyObject* first_spare = nullptr;  ///< of the Buffer objects to be used again, or null
  unsigned spares = 0;              ///< how many there are
  std::int32_t native_at = 0;       ///< where the value of a _Native lies (usual.hpp)
};
extern constinit MemoryLine memory_line __attribute__((visibility("hidden")));

}  // namespace cucore::python
