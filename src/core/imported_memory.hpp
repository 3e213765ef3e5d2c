// imported_memory.hpp: allocations of other processes, mapped once for all who open them here.
#pragma once

#include "cucore/buffer.hpp"

namespace cucore::detail {

/// Opens an allocation of the process that `pool` came from. Drivers map it once in a process, so
/// that buffers share the mapping; it goes in the order of the stream that the last of them is
/// closed on. Throws std::invalid_argument when it has less than `size` bytes.
CUCORE_EXPORT Buffer open_imported(const std::shared_ptr<MemoryPool>& pool,
                                   const CUmemPoolPtrExportData& data, std::size_t size,
                                   const Stream& stream);
/// The same for an allocation that is of no pool.
CUCORE_EXPORT Buffer open_imported(const CUipcMemHandle& handle, std::size_t size,
                                   const Stream& stream);

}  // namespace cucore::detail
