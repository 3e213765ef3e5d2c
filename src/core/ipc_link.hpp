// SPDX-License-Identifier: Apache-2.0
// ipc_link.hpp: a connection to the process that exports memory. The exporter listens on a Unix
// socket; its process answers with the file descriptors of its pools and keeps the memory of
// buffers that this process has opened. Needs neither a common parent nor ptrace rights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cucore/export.hpp"

namespace cucore::detail {

// Every message begins with one of these bytes. exporter.cpp is the other side.
inline constexpr char kAskPool = 'P';       // and the pool's UUID; answered with a file descriptor
inline constexpr char kAskBuffer = 'B';     // and the number of a buffer
inline constexpr char kReturnBuffer = 'R';  // and the number; has no answer
inline constexpr char kYes = '+';           // any other answer says no
inline constexpr char kNo = '-';

class CUCORE_EXPORT IPCLink : public std::enable_shared_from_this<IPCLink> {
 public:
  /// Connects to an exporter of the same user on this machine. `name` is its socket's name in the
  /// abstract namespace. Throws InvalidStateError where no such process answers.
  static std::shared_ptr<IPCLink> open(std::string_view name, std::string_view key);
  /// The same, opened by the first call and kept: its end tells the exporter that this process is
  /// gone.
  static std::shared_ptr<IPCLink> to(std::string_view name, std::string_view key);
  /// After an error: the exporter may have ended.
  static void forget(std::string_view name) noexcept;
  static void forget_all() noexcept;
  ~IPCLink();
  IPCLink(const IPCLink&) = delete;
  IPCLink& operator=(const IPCLink&) = delete;

  /// A file descriptor of the pool with this UUID (16 bytes); the caller closes it. -1 where the
  /// exporter has no such pool any more.
  int pool(std::string_view uuid);
  /// Keeps the memory of the exporter's buffer until the last copy of what is returned is gone,
  /// on whatever thread. Null where the buffer is closed.
  std::shared_ptr<void> lease(std::uint64_t number);

 private:
  explicit IPCLink(int socket) : socket_{socket} {}
  void send(std::string_view message) const;
  /// The answer to a request, and the file descriptor that comes with it, else -1.
  char ask(std::string_view message, int& received);
  void give_back(std::uint64_t number) const noexcept;

  const int socket_;
  std::mutex mutex_;  // one request at a time
};

/// What `ask` gets from the exporter of another process; a link that fails is opened anew next
/// time.
template <class Ask>
auto ask_exporter(std::string_view name, std::string_view key, Ask ask) {
  const std::shared_ptr<IPCLink> link = IPCLink::to(name, key);
  try {
    return ask(*link);
  } catch (...) {
    IPCLink::forget(name);
    throw;
  }
}

/// A lease of a buffer. Throws InvalidStateError where its process has closed it.
CUCORE_EXPORT std::shared_ptr<void> leased(IPCLink& link, std::uint64_t number);

/// The number that the device with this UUID has in this process. Throws InvalidStateError where it
/// is not visible.
CUCORE_EXPORT int visible_device(std::string_view uuid);

}  // namespace cucore::detail
