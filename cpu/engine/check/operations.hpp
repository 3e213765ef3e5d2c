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

#include "cpu/engine/check/history.hpp"

namespace cucpu::operations {

/// By stream: its operations up to this number happened before.
using Clock = std::map<std::uint64_t, std::uint64_t>;

/// The dependencies of the nodes of a graph, by node.
using GraphShape = std::vector<std::vector<unsigned>>;

/// A node of a graph with branches that runs.
struct Node {
  std::shared_ptr<const GraphShape> graph;
  unsigned node;
  std::uint64_t run;  ///< next_run(): bodies of loops run several times, one after another
};

/// One operation that runs: a number of a stream, and for nodes of a graph with branches the node,
/// after those of the graphs that contain it.
struct Operation {
  std::uint64_t stream = 0, number = 0;
  std::shared_ptr<const Clock> clock;
  std::vector<Node> path;
  // Set when it accesses memory.
  bool is_kernel = false;
  /// The program may have learned in memory that it is done: it counts as ordered. Guarded by Turn.
  std::shared_ptr<bool> is_public = std::make_shared<bool>(false);
  std::string name;                            ///< "kernel k"
  std::uint32_t first = 0, last = 0;           ///< its intervals (check/history.hpp)
  std::unordered_set<std::uintptr_t> pages{};  ///< HistoryPages
};

inline std::atomic<bool> g_are_checked{false};
/// Whether an address is one of device memory or of an array; set by the driver layer.
inline bool (*g_is_device_address)(std::uintptr_t) = nullptr;

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
/// The number of a run of a graph.
inline std::uint64_t next_run() noexcept {
  static std::atomic<std::uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}
/// `task` runs a node of a graph for `parent`; without a graph, its nodes one after another.
void runs_node(const void* task, const void* parent, Node node) noexcept;
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

/// One operation at a time accesses the histories: while this exists, others wait, and get their
/// turns in the order in which they asked.
class Turn {
 public:
  Turn() noexcept;
  ~Turn();
  static bool is_wanted() noexcept;  ///< whether another one waits
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

/// Compares accesses of an operation with the histories, and adds them. Has a Turn while it exists:
/// an operation that others may wait for accesses memory through one after another.
class Accesses {
 public:
  explicit Accesses(std::shared_ptr<Operation>);
  ~Accesses();
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;

  struct Race {
    const Operation* other = nullptr;  ///< null: none
    std::uintptr_t address = 0;
    bool writes = false;  ///< the other one
    bool strong = false;  ///< both accesses, or one, if the other one is a copy: no data race
  };
  /// `strong`: atomic or volatile.
  Race add(std::uintptr_t address, std::size_t bytes, bool writes, bool strong);

 private:
  [[nodiscard]] bool is_contested(std::uintptr_t page);
  [[nodiscard]] const Operation* find(std::uint32_t interval) const;

  Turn turn_;
  std::shared_ptr<Operation> own_;
  std::vector<std::shared_ptr<const Operation>> others_;
  HistoryPages pages_;
  std::uintptr_t page_ = ~std::uintptr_t{0};
  bool contested_ = false;
};

/// The operation stored to memory that the host can read. For one that has no Turn.
void publish(const Operation&);

/// Whether the host can read the memory while kernels run.
bool is_host_memory(std::uintptr_t address);

/// "kernel k in stream 3"
std::string describe(const Operation&);
/// For an access of a kernel.
std::string describe_race(const Operation& own, const char* verb, std::size_t bytes,
                          const Operation& other, bool other_writes);

/// A copy or fill that the calling thread executes accesses memory. Returns the report of a race;
/// empty: none, or it was printed. `name`: what it is.
std::string check_access(std::uintptr_t address, std::size_t bytes, bool writes,
                         const std::string& name) noexcept;

}  // namespace cucpu::operations
