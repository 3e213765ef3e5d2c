// SPDX-License-Identifier: Apache-2.0
// exporter.hpp: the exporting side of memory that processes share; IPCLink is the importing side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/memory_resource.hpp"

namespace cucore::detail {

/// Identifies a pool in messages.
using PoolName = std::array<unsigned char, 16>;

/// Fills memory with cryptographically random bytes, at most 256. Throws std::system_error.
void fill_randomly(void* to, std::size_t size);

/// Exports this process's pools and buffers to other processes. A thread listens on a Unix socket
/// in the abstract namespace, which disappears with the process. It sends the file descriptors of
/// pools and keeps the memory of a buffer alive while another process has it open. It serves only
/// processes of the same user that present the key.
class CUCORE_EXPORT Exporter {
 public:
  /// Returns an owner that keeps a buffer's memory alive, or null if the buffer is closed. Called
  /// on any thread.
  using Hold = std::function<std::shared_ptr<void>()>;

  /// Returns the exporter of this process; the first call starts it. A forked child gets its own.
  static std::shared_ptr<Exporter> mine();
  /// Returns the exporter of this process if it has this name, else null.
  static std::shared_ptr<Exporter> named(std::string_view name) noexcept;
  /// Stops the exporter of this process and joins its thread, which may call Hold functions and
  /// destroy their results. Does not affect an exporter inherited from a parent process.
  static void end() noexcept;
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string_view key() const noexcept { return {key_.data(), key_.size()}; }

  /// Exports a buffer. Returns its number, which is never reused.
  std::uint64_t offer(Hold hold);
  void withdraw(std::uint64_t number) noexcept;
  /// Returns an owner that keeps an exported buffer's memory alive, or null if the buffer is closed
  /// or withdrawn.
  std::shared_ptr<void> hold(std::uint64_t number);
  /// Exports a pool under a name for the lifetime of the pool.
  void offer_pool(const PoolName& name, const std::shared_ptr<MemoryPool>& pool);

 private:
  struct Link;  // a connection to an importing process
  Exporter();
  void serve() noexcept;
  void accept_one(std::vector<std::unique_ptr<Link>>& links) const;
  /// Handles one message. Returns false if the connection has ended or the message is malformed.
  bool answer(Link& link);
  bool answer_pool(const Link& link, std::string_view name);
  void stop() noexcept;

  std::string name_;
  std::array<char, 32> key_{};
  int process_ = -1;
  int listener_ = -1;
  int wake_ = -1;  // becomes readable when the thread is to stop
  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Hold> offered_;
  std::map<PoolName, std::weak_ptr<MemoryPool>> pools_;
  std::thread thread_;
};

}  // namespace cucore::detail
