// cpu/api/pool.hpp: memory pools: stream-ordered allocation.
#pragma once

#include "api/context.hpp"

namespace cucpu::driver {

/// cuMemFree of pool memory: back to its pool, with no work left that could use it.
void free_pool_memory(CUdeviceptr address);

/// The pool an allocation came from, or null.
CUmemoryPool pool_handle(const Allocation& allocation);

}  // namespace cucpu::driver
