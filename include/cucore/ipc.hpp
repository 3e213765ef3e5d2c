// SPDX-License-Identifier: Apache-2.0
// cucore/ipc.hpp: memory that another process made, used in place.
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

/// Names a buffer of another process. Plain bytes: send it as it is. Memory of a pool needs the
/// pool too, which is sent as a file descriptor: MemoryPool::export_file_descriptor().
struct IPCBufferDescriptor {
  /// What the memory is of.
  enum class Kind : std::uint64_t {
    pool,   ///< of a pool that was made with ipc_enabled
    memory  ///< of a plain allocation (cuMemAlloc)
  };
  std::array<std::byte, 64> payload{};  ///< the driver's name of it
  std::uint64_t size = 0;               ///< in bytes
  Kind kind = Kind::pool;               ///< what is needed to open it

  /// A descriptor from its parts, as they came from another process. Throws std::invalid_argument
  /// for a payload of another length, and for a kind that is neither "pool" nor "memory".
  [[nodiscard]] CUCORE_EXPORT static IPCBufferDescriptor from_parts(
      std::span<const std::byte> payload, std::uint64_t size, std::string_view kind);
  /// "pool" or "memory"
  [[nodiscard]] CUCORE_EXPORT const char* kind_name() const noexcept;
};

/// The driver's name of an event of another process, from its bytes. Throws std::invalid_argument
/// where they are not as many as it has.
[[nodiscard]] CUCORE_EXPORT CUipcEventHandle ipc_event_handle(std::span<const std::byte> bytes);

/// A descriptor of memory for other processes. `pool` is where it comes from, null for a plain
/// allocation. Throws InvalidStateError for a pool that was made without ipc_enabled, and for
/// managed memory, which no driver exports.
[[nodiscard]] CUCORE_EXPORT IPCBufferDescriptor export_memory(BufferRef memory,
                                                              const MemoryPool* pool);
/// The same for a buffer, whose memory resource says what it is of.
[[nodiscard]] CUCORE_EXPORT IPCBufferDescriptor export_buffer(const Buffer& buffer);

/// Opens memory of another process. `pool` is the pool it is of, opened with
/// MemoryPool::from_file_descriptor(), null for a plain allocation. Drivers map it once in a
/// process: buffers share the mapping, which is unmapped in the order of the stream on which the
/// last of them is closed. Throws std::invalid_argument where it has less bytes than the descriptor
/// says. `lease` is what makes the exporting process keep the memory, if anything does: it is
/// released after the unmapping, when the work queued on that stream is done, by a thread of the
/// driver: its deleter must not call the driver.
[[nodiscard]] CUCORE_EXPORT Buffer import_buffer(const std::shared_ptr<MemoryPool>& pool,
                                                 const IPCBufferDescriptor& descriptor,
                                                 const Stream& stream,
                                                 std::shared_ptr<void> lease = nullptr);

}  // namespace cucore
