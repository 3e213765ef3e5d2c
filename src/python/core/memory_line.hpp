// SPDX-License-Identifier: Apache-2.0
// memory_line.hpp: the global state of allocations from a pool and of frees, in one cache line:
// after a driver call every line is a cache miss.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "cucore/abi/driver.h"

namespace cucore::python {

class Loan;

struct alignas(64) MemoryLine {
  std::atomic<decltype(&::cuMemAllocFromPoolAsync)> allocate{nullptr};  ///< set by the first
  std::atomic<decltype(&::cuMemFreeAsync)> free{nullptr};               ///< allocation
  Loan* last_loan = nullptr;        ///< the most recently used loan, or null
  PyObject* first_spare = nullptr;  ///< head of the free list of Buffer objects, or null
  unsigned spares = 0;              ///< length of the free list
  std::int32_t native_at = 0;       ///< offset of the value in a _Native object (usual.hpp)
};
extern constinit MemoryLine memory_line __attribute__((visibility("hidden")));

}  // namespace cucore::python
