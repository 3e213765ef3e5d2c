// SPDX-License-Identifier: Apache-2.0
// cucore/shared_buffer.hpp: buffers shared between processes of one user through a descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cucore/buffer.hpp"
#include "cucore/export.hpp"
#include "cucore/ipc.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// A descriptor with which other processes on this machine open a buffer. Trivially copyable: send
/// its bytes, by any means, to any number of processes. It contains a key that authorizes access to
/// the memory.
struct SharedBuffer {
  std::array<char, 48> exporter{};       ///< socket name of the exporter, null-terminated
  std::array<char, 32> key{};            ///< key that the exporter requires
  std::uint64_t number = 0;              ///< identifier of the buffer in the exporter, never reused
  std::array<unsigned char, 16> pool{};  ///< identifier of the pool; zero for a plain allocation
  std::array<char, 40> device{};         ///< Device::uuid() of a device pool, otherwise empty
  IPCBufferDescriptor descriptor{};      ///< IPC descriptor of the memory
};

/// Shares a buffer with other processes: one from a pool with ipc_enabled, or a plain allocation.
/// The first call starts a thread that serves them. The memory stays allocated while another
/// process holds a lease on it, even if `buffer` is destroyed here; Buffer::close() frees it
/// immediately. The leases of a process end with it. Throws InvalidStateError if the buffer is
/// closed or belongs to another process, otherwise as export_buffer() does.
[[nodiscard]] CUCORE_EXPORT SharedBuffer share_buffer(const std::shared_ptr<Buffer>& buffer);

/// Opens a buffer that another process shares. In the exporting process, returns a view that keeps
/// the buffer alive. The memory is released in order on `stream`. Throws InvalidStateError if the
/// exporter has ended or has closed the buffer, or if the device is not visible in this process.
[[nodiscard]] CUCORE_EXPORT Buffer open_shared_buffer(const SharedBuffer& shared,
                                                      const Stream& stream);

/// Stops the thread that serves other processes and ends their leases. Call it before the process
/// ends if the order of the shutdown matters. The next share_buffer() starts a new thread.
CUCORE_EXPORT void stop_sharing() noexcept;

}  // namespace cucore
