// SPDX-License-Identifier: Apache-2.0
// allocation_fast_path.hpp: the global state of allocations from a pool and of frees, in one cache
// line: after a driver call every line is a cache miss.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "cucore/abi/driver.h"

namespace cucore::python {

class SharedOwners;

struct alignas(64) AllocationFastPath {
  std::atomic<decltype(&::cuMemAllocFromPoolAsync)> allocate{nullptr};  ///< set by the first
  std::atomic<decltype(&::cuMemFreeAsync)> free{nullptr};               ///< allocation
  SharedOwners* last_owners = nullptr;  ///< the most recently used owners, or null
  PyObject* first_free = nullptr;       ///< head of the free list of Buffer objects, or null
  unsigned free_count = 0;              ///< length of the free list
  std::int32_t native_at = 0;  ///< offset of the value in a _Native object (fast_path_types.hpp)
};
extern constinit AllocationFastPath allocation_fast_path __attribute__((visibility("hidden")));

}  // namespace cucore::python
