// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/operations.hpp: which operations of streams (kernels, copies, fills) are
// ordered, for race checks between them. The driver layer announces what orders them. An order that
// is too large misses races; one that is too small would invent them. So what is not known disables
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace cucpu::operations {

/// By stream: its operations up to this number happened before.
using Clock = std::map<std::uint64_t, std::uint64_t>;

/// One operation that runs: a number of a stream, and for nodes of a graph with branches the node.
struct Operation {
  std::uint64_t stream = 0, number = 0;
  std::shared_ptr<const Clock> clock;
  /// The dependencies of the nodes, by node; null: all nodes of the graph are ordered.
  std::shared_ptr<const std::vector<std::vector<unsigned>>> graph;
  unsigned node = 0;
  // Set when it accesses memory.
  std::string name;                            ///< "kernel k"
  std::uint32_t first = 0, last = 0;           ///< its intervals (check/history.hpp)
  std::unordered_set<std::uintptr_t> pages{};  ///< HistoryPages
};

inline std::atomic<bool> g_are_checked{false};

/// Race checks of CUCORE_CHECK begin.
void start() noexcept;
/// Whether race checks are on, and nothing that is not known orders operations. Hot paths test it
/// before they announce something.
inline bool are_checked() noexcept { return g_are_checked.load(std::memory_order_relaxed); }
/// Something orders operations that is not known here (values in memory, other processes).
void disable() noexcept;

// ---- what orders operations; all of them are called when work is queued, and never throw ----

/// The streams that the legacy default stream waits for, and that wait for it.
enum class Legacy : std::uint8_t { none, waits, is_it };

struct StreamView {
  std::uint64_t id;
  const void* context;
  Legacy legacy;
};

/// A stream gets an operation with this number.
void submitted(const StreamView&, std::uint64_t number) noexcept;
/// What is queued in `stream` from now on comes after operation `number` of `other`.
void joins(std::uint64_t stream, std::uint64_t other, std::uint64_t number) noexcept;
void joins_all(std::uint64_t stream) noexcept;
void recorded(const void* event, const StreamView&) noexcept;
void joins_event(std::uint64_t stream, const void* event) noexcept;
/// All that the program queues from now on comes after operation `number` of the stream.
void host_joins(const StreamView&, std::uint64_t number) noexcept;
void host_joins_context(const void* context) noexcept;
void host_joins_event(const void* event) noexcept;
/// A function of the program runs in stream order: the program may learn of the work before it.
void host_joins_running() noexcept;

// ---- the operation that runs ----

/// `task` runs an operation of a stream.
void runs(const void* task, std::uint64_t stream, std::uint64_t number) noexcept;
/// `task` runs a node of a graph for `parent`.
void runs_node(const void* task, const void* parent,
               std::shared_ptr<const std::vector<std::vector<unsigned>>> graph,
               unsigned node) noexcept;
void ends(const void* task) noexcept;

/// The operation of a task is that of the calling thread.
class Scope {
 public:
  explicit Scope(const void* task) noexcept : is_entered_{are_checked()} {
    if (is_entered_) [[unlikely]]
      enter(task);
  }
  ~Scope() {
    if (is_entered_) [[unlikely]]
      leave();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void enter(const void* task) noexcept;
  void leave() noexcept;
  bool is_entered_;
  std::shared_ptr<const Operation> before_;
};

/// A synchronous operation that the calling thread executes at once, as if it were queued in a
/// stream and waited for.
class SynchronousScope {
 public:
  explicit SynchronousScope(const StreamView&) noexcept;
  ~SynchronousScope();
  SynchronousScope(const SynchronousScope&) = delete;
  SynchronousScope& operator=(const SynchronousScope&) = delete;

 private:
  std::shared_ptr<const Operation> before_;
};

/// The calling thread starts a Launch, which another thread may run.
void starts_launch(const void* launch) noexcept;
/// The calling thread runs blocks of a Launch.
class LaunchScope {
 public:
  explicit LaunchScope(const void* launch) noexcept : is_entered_{are_checked()} {
    if (is_entered_) [[unlikely]]
      enter(launch);
  }
  ~LaunchScope() {
    if (is_entered_) [[unlikely]]
      leave();
  }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  void enter(const void* launch) noexcept;
  void leave() noexcept;
  bool is_entered_;
  const void* before_ = nullptr;
};

// ---- race checks ----

/// One operation at a time accesses the histories: while this exists, others wait.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

/// The operation of the Launch that the calling thread runs; null: unknown, it is compared with no
/// other one.
std::shared_ptr<Operation> of_launch();
/// The operations before this one that nothing orders before it. For the owner of a Turn.
std::vector<std::shared_ptr<const Operation>> unordered(const Operation&);
/// Adds it to those that later ones are compared with. For the owner of a Turn.
void ended(std::shared_ptr<Operation>);

/// "kernel k in stream 3"
std::string describe(const Operation&);

/// A copy or fill that the calling thread executes accesses memory. Returns the report of a race;
/// empty: none, or it was printed. `name`: what it is.
std::string check_access(std::uintptr_t address, std::size_t bytes, bool writes,
                         const std::string& name) noexcept;

}  // namespace cucpu::operations
