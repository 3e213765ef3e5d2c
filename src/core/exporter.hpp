// SPDX-License-Identifier: Apache-2.0
// exporter.hpp: the exporting side of memory that processes share; IPCLink is the other side.
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

/// Names a pool in messages.
using PoolName = std::array<unsigned char, 16>;

/// Bytes that no other process can guess, at most 256. Throws std::system_error.
void fill_randomly(void* to, std::size_t size);

/// What this process offers to others. A thread listens on a Unix socket in the abstract namespace,
/// which vanishes with the process. It hands out the file descriptors of pools, and holds the
/// memory of a buffer while another process has it open. Only processes of the same user that know
/// the key are answered.
class CUCORE_EXPORT Exporter {
 public:
  /// What keeps a buffer's memory; null when it is closed. Called on any thread.
  using Hold = std::function<std::shared_ptr<void>()>;

  /// This process's, started by the first call. A forked child has one of its own.
  static std::shared_ptr<Exporter> mine();
  /// The same if that is its name, else null.
  static std::shared_ptr<Exporter> named(std::string_view name) noexcept;
  /// Ends it and waits for its thread, which may call what other processes hold. Leaves that of a
  /// parent alone.
  static void end() noexcept;
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string_view key() const noexcept { return {key_.data(), key_.size()}; }

  /// Offers a buffer; no other one ever gets the number that is returned.
  std::uint64_t offer(Hold hold);
  void withdraw(std::uint64_t number) noexcept;
  /// Keeps an offered buffer's memory; null when it is closed or withdrawn.
  std::shared_ptr<void> hold(std::uint64_t number);
  /// Offers a pool under a name, as long as it lives.
  void offer_pool(const PoolName& name, const std::shared_ptr<MemoryPool>& pool);

 private:
  struct Link;  // another process
  Exporter();
  void serve() noexcept;
  void accept_one(std::vector<std::unique_ptr<Link>>& links) const;
  /// False when the connection has ended, or says what is no message.
  bool answer(Link& link);
  bool answer_pool(const Link& link, std::string_view name);
  void stop() noexcept;

  std::string name_;
  std::array<char, 32> key_{};
  int process_ = -1;
  int listener_ = -1;
  int wake_ = -1;  // becomes readable at the end
  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Hold> offered_;
  std::map<PoolName, std::weak_ptr<MemoryPool>> pools_;
  std::thread thread_;
};

}  // namespace cucore::detail
