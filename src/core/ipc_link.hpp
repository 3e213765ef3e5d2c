// SPDX-License-Identifier: Apache-2.0
// ipc_link.hpp: a connection to the process that exports memory. The exporter listens on a Unix
// socket, sends the file descriptors of its pools, and keeps the memory of buffers alive that this
// process has opened. Needs neither a common parent process nor ptrace permissions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cucore/export.hpp"

namespace cucore::detail {

// The first byte of each message. exporter.cpp implements the other side.
inline constexpr char kAskPool = 'P';       // then the pool's UUID; replied with a file descriptor
inline constexpr char kAskBuffer = 'B';     // then the number of a buffer
inline constexpr char kReturnBuffer = 'R';  // then the number of a buffer; no reply
inline constexpr char kYes = '+';           // success; any other reply is a failure
inline constexpr char kNo = '-';

class CUCORE_EXPORT IPCLink : public std::enable_shared_from_this<IPCLink> {
 public:
  /// Connects to an exporter of the same user on this machine. `name` is the name of its socket in
  /// the abstract namespace. Throws InvalidStateError if no such process replies.
  static std::shared_ptr<IPCLink> open(std::string_view name, std::string_view key);
  /// Returns the cached connection; the first call opens it. It stays open, because its end tells
  /// the exporter that this process has ended.
  static std::shared_ptr<IPCLink> to(std::string_view name, std::string_view key);
  /// Removes a connection from the cache after an error, as the exporter may have ended.
  static void erase(std::string_view name) noexcept;
  static void clear_all() noexcept;
  ~IPCLink();
  IPCLink(const IPCLink&) = delete;
  IPCLink& operator=(const IPCLink&) = delete;

  /// Returns a file descriptor of the pool with this UUID (16 bytes), which the caller must close,
  /// or -1 if the exporter no longer has the pool.
  int pool(std::string_view uuid);
  /// Returns a lease that keeps the memory of the exporter's buffer alive, or null if the buffer is
  /// closed. The last copy may be destroyed on any thread.
  std::shared_ptr<void> lease(std::uint64_t number);

 private:
  explicit IPCLink(int socket) : socket_{socket} {}
  void send(std::string_view message) const;
  /// Sends a request and returns the reply. `received` is the file descriptor in the reply, or -1.
  char ask(std::string_view message, int& received);
  void release(std::uint64_t number) const noexcept;

  const int socket_;
  std::mutex mutex_;  // one request at a time
};

/// Calls `ask` with the connection to another process's exporter. On failure, the connection is
/// reopened by the next call.
template <class Ask>
auto query_exporter(std::string_view name, std::string_view key, Ask ask) {
  const std::shared_ptr<IPCLink> link = IPCLink::to(name, key);
  try {
    return ask(*link);
  } catch (...) {
    IPCLink::erase(name);
    throw;
  }
}

/// Returns a lease of a buffer. Throws InvalidStateError if the exporting process has closed the
/// buffer.
CUCORE_EXPORT std::shared_ptr<void> leased(IPCLink& link, std::uint64_t number);

/// Returns the ordinal, in this process, of the device with this UUID. Throws InvalidStateError if
/// the device is not visible.
CUCORE_EXPORT int visible_device(std::string_view uuid);

}  // namespace cucore::detail
