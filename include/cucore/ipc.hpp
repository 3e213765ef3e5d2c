// SPDX-License-Identifier: Apache-2.0
// cucore/ipc.hpp: memory shared between processes (IPC): export and import.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Identifies a buffer of another process. Trivially copyable: send its bytes unchanged. Memory of
/// a pool also needs the pool, which is sent as a file descriptor:
/// MemoryPool::export_file_descriptor().
struct IPCBufferDescriptor {
  /// Origin of the memory.
  enum class Kind : std::uint64_t {
    pool,   ///< a pool created with ipc_enabled
    memory  ///< a plain allocation (cuMemAlloc)
  };
  std::array<std::byte, 64> payload{};  ///< CUmemPoolPtrExportData or CUipcMemHandle
  std::uint64_t size = 0;               ///< size in bytes
  Kind kind = Kind::pool;               ///< origin of the memory

  /// Creates a descriptor from parts that another process sent. Throws std::invalid_argument unless
  /// `payload` has 64 bytes and `kind` is "pool" or "memory".
  [[nodiscard]] CUCORE_EXPORT static IPCBufferDescriptor from_parts(
      std::span<const std::byte> payload, std::uint64_t size, std::string_view kind);
  /// Returns "pool" or "memory".
  [[nodiscard]] CUCORE_EXPORT const char* kind_name() const noexcept;
};

/// Converts bytes that another process sent to an IPC event handle. Throws std::invalid_argument
/// unless they have its size.
[[nodiscard]] CUCORE_EXPORT CUipcEventHandle ipc_event_handle(std::span<const std::byte> bytes);

/// Returns a descriptor of memory for other processes. `pool` is the pool of the memory, or null
/// for a plain allocation. Throws InvalidStateError if the pool was created without ipc_enabled,
/// and for managed memory, which no driver exports.
[[nodiscard]] CUCORE_EXPORT IPCBufferDescriptor export_memory(BufferRef memory,
                                                              const MemoryPool* pool);
/// As export_memory(), with the pool of the buffer's memory resource.
[[nodiscard]] CUCORE_EXPORT IPCBufferDescriptor export_buffer(const Buffer& buffer);

/// Opens memory of another process. `pool` is the pool of the memory, opened with
/// MemoryPool::from_file_descriptor(), or null for a plain allocation. Drivers map an allocation
/// once per process: its buffers share the mapping, which is unmapped in order on the stream on
/// which the last of them is closed. Throws std::invalid_argument if the mapping is smaller than
/// the descriptor's size. `lease`, if not null, makes the exporting process keep the memory. It is
/// released after the unmapping, when the work enqueued on that stream is complete, on a thread of
/// the driver: its deleter must not call the driver.
[[nodiscard]] CUCORE_EXPORT Buffer import_buffer(const std::shared_ptr<MemoryPool>& pool,
                                                 const IPCBufferDescriptor& descriptor,
                                                 const Stream& stream,
                                                 std::shared_ptr<void> lease = nullptr);

}  // namespace cucore
