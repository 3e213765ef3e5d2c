// SPDX-License-Identifier: Apache-2.0
// cucore/shared_buffer.hpp: buffers that other processes of this user open by plain bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cucore/buffer.hpp"
#include "cucore/export.hpp"
#include "cucore/ipc.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// What another process on this machine opens a buffer by. Plain bytes: send it as it is, by
/// whatever means, to as many processes as wanted. Who has it can use the memory: it holds a key.
struct SharedBuffer {
  std::array<char, 48> exporter{};       ///< where the process that owns the memory listens; a text
  std::array<char, 32> key{};            ///< what it answers to
  std::uint64_t number = 0;              ///< names the buffer there, and no other one ever
  std::array<unsigned char, 16> pool{};  ///< names the pool, where it is of one
  std::array<char, 40> device{};         ///< Device::uuid(), empty for memory of the host
  IPCBufferDescriptor descriptor{};      ///< the memory
};

/// Lets other processes open a buffer of a pool that was made with ipc_enabled, or a plain
/// allocation. From the first call on, a thread of this process answers them. The memory stays
/// while one of them has it open, also when `buffer` is let go of here; close() gives it back at
/// once. A killed process holds nothing. Throws as export_buffer() does.
[[nodiscard]] CUCORE_EXPORT SharedBuffer share_buffer(const std::shared_ptr<Buffer>& buffer);

/// Opens a buffer that another process shares; in its own process a view that keeps it. The memory
/// is let go of in the order of `stream`. Throws InvalidStateError where that process has ended or
/// has closed the buffer, and where this one does not see the device.
[[nodiscard]] CUCORE_EXPORT Buffer open_shared_buffer(const SharedBuffer& shared,
                                                      const Stream& stream);

/// Ends the thread that answers other processes, and what they hold; before the process ends, where
/// that has to happen in order. The next share_buffer() begins anew.
CUCORE_EXPORT void stop_sharing() noexcept;

}  // namespace cucore
