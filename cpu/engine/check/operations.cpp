// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/operations.cpp
#include "cpu/engine/check/operations.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <semaphore>
#include <unordered_map>
#include <utility>

#include "cpu/engine/check/history.hpp"
#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu::operations {
namespace {

thread_local std::shared_ptr<const Operation> t_running;
thread_local const void* t_launch = nullptr;

struct Stream {
  Clock clock;
  const void* context = nullptr;
  Legacy legacy = Legacy::none;
  std::map<std::uint64_t, std::shared_ptr<const Clock>> operations;  ///< the last ones, by number
};

/// All that is known. Never destroyed: host threads may outlive static objects.
struct State {
  std::mutex mutex;
  Clock host;
  std::unordered_map<std::uint64_t, Stream> streams;
  std::unordered_map<const void*, Clock> events;
  std::unordered_map<const void*, std::shared_ptr<const Operation>> tasks, launches;
  std::deque<std::shared_ptr<const Operation>> ended;
  std::binary_semaphore turn{1};

  static State& get() {
    static auto* const state = new State;
    return *state;
  }
};

void join(Clock& to, const Clock& from) {
  for (const auto& [stream, number] : from) to[stream] = std::max(to[stream], number);
}

/// Runs `work` with the state if operations are checked; without memory nothing is checked anymore.
template <class Work>
void update(const Work& work) noexcept {
  if (!are_checked()) return;
  try {
    State& state = State::get();
    const std::lock_guard lock{state.mutex};
    work(state);
  } catch (...) {
    disable();
  }
}

/// Whether node `from` comes before node `to`.
bool reaches(const std::vector<std::vector<unsigned>>& graph, unsigned from, unsigned to) {
  std::vector<bool> seen(graph.size());
  std::vector<unsigned> open{to};
  while (!open.empty()) {
    const unsigned node = open.back();
    open.pop_back();
    if (node == from) return true;
    if (node >= graph.size() || seen[node]) continue;
    seen[node] = true;
    open.insert(open.end(), graph[node].begin(), graph[node].end());
  }
  return false;
}

bool is_before(const Operation& a, const Operation& b) {
  if (a.stream == b.stream && a.number == b.number)
    return !a.graph || a.graph != b.graph || reaches(*a.graph, a.node, b.node);
  const auto known = b.clock->find(a.stream);
  return known != b.clock->end() && a.number <= known->second;
}

std::shared_ptr<const Operation> operation(State& state, std::uint64_t stream,
                                           std::uint64_t number) {
  const Stream& queue = state.streams[stream];
  const auto found = queue.operations.find(number);
  if (found == queue.operations.end()) return nullptr;
  auto made = std::make_shared<Operation>();
  made->stream = stream;
  made->number = number;
  made->clock = found->second;
  return made;
}

/// What work that is queued in a stream now comes after.
Clock clock_of(State& state, const StreamView& view) {
  Clock clock = state.streams[view.id].clock;
  join(clock, state.host);
  if (view.legacy != Legacy::none)
    for (const auto& [id, other] : state.streams)
      if (id != view.id && other.context == view.context && other.legacy != Legacy::none &&
          other.legacy != view.legacy)
        join(clock, other.clock);
  return clock;
}

/// The clock of an operation of a stream; all of the stream if the operation is forgotten.
const Clock& clock_at(const Stream& stream, std::uint64_t number) {
  const auto found = stream.operations.find(number);
  return found == stream.operations.end() ? stream.clock : *found->second;
}

/// An operation that is ordered as one of stream `view`, with a number of stream `id`.
void add(State& state, const StreamView& view, std::uint64_t id, std::uint64_t number) {
  constexpr std::size_t kMost = 4096;
  Clock clock = clock_of(state, view);
  Stream& stream = state.streams[id];
  stream.context = view.context;
  stream.legacy = view.legacy;
  stream.clock = std::move(clock);
  stream.clock[id] = number;
  stream.operations[number] = std::make_shared<const Clock>(stream.clock);
  if (stream.operations.size() > kMost) stream.operations.erase(stream.operations.begin());
}

/// The number of the stream of synchronous operations that belong to this one.
constexpr std::uint64_t kSynchronous = std::uint64_t{1} << 63;

}  // namespace

void start() noexcept {
  g_are_checked.store((check::kinds_in_environment() & check::kRace) != 0,
                      std::memory_order_relaxed);
}

void disable() noexcept { g_are_checked.store(false, std::memory_order_relaxed); }

void submitted(const StreamView& stream, std::uint64_t number) noexcept {
  update([&](State& state) { add(state, stream, stream.id, number); });
}

void joins(std::uint64_t stream, std::uint64_t other, std::uint64_t number) noexcept {
  update([&](State& state) {
    const Clock from = clock_at(state.streams[other], number);
    join(state.streams[stream].clock, from);
  });
}

void joins_all(std::uint64_t stream) noexcept {
  update([&](State& state) {
    Clock all;
    for (const auto& [id, other] : state.streams) join(all, other.clock);
    join(state.streams[stream].clock, all);
  });
}

void recorded(const void* event, const StreamView& stream) noexcept {
  update([&](State& state) { state.events[event] = clock_of(state, stream); });
}

void joins_event(std::uint64_t stream, const void* event) noexcept {
  update([&](State& state) {
    if (const auto found = state.events.find(event); found != state.events.end())
      join(state.streams[stream].clock, found->second);
  });
}

void host_joins(const StreamView& stream, std::uint64_t number) noexcept {
  update([&](State& state) {
    join(state.host, stream.legacy == Legacy::is_it ? clock_of(state, stream)
                                                    : clock_at(state.streams[stream.id], number));
  });
}

void host_joins_context(const void* context) noexcept {
  update([&](State& state) {
    for (const auto& [id, stream] : state.streams)
      if (stream.context == context) join(state.host, stream.clock);
  });
}

void host_joins_event(const void* event) noexcept {
  update([&](State& state) {
    if (const auto found = state.events.find(event); found != state.events.end())
      join(state.host, found->second);
  });
}

void host_joins_running() noexcept {
  if (t_running) update([&](State& state) { join(state.host, *t_running->clock); });
}

void runs(const void* task, std::uint64_t stream, std::uint64_t number) noexcept {
  update([&](State& state) { state.tasks[task] = operation(state, stream, number); });
}

void runs_node(const void* task, const void* parent,
               std::shared_ptr<const std::vector<std::vector<unsigned>>> graph,
               unsigned node) noexcept {
  update([&](State& state) {
    const auto found = state.tasks.find(parent);
    std::shared_ptr<const Operation> of_parent;
    if (found != state.tasks.end()) of_parent = found->second;
    if (of_parent && graph && !of_parent->graph) {
      auto made = std::make_shared<Operation>();
      made->stream = of_parent->stream;
      made->number = of_parent->number;
      made->clock = of_parent->clock;
      made->graph = std::move(graph);
      made->node = node;
      of_parent = std::move(made);
    }
    state.tasks[task] = std::move(of_parent);
  });
}

void ends(const void* task) noexcept {
  update([&](State& state) { state.tasks.erase(task); });
}

void Scope::enter(const void* task) noexcept {
  before_ = std::move(t_running);
  t_running = nullptr;
  update([&](State& state) {
    if (const auto found = state.tasks.find(task); found != state.tasks.end())
      t_running = found->second;
  });
}

SynchronousScope::SynchronousScope(const StreamView& stream) noexcept
    : before_{std::move(t_running)} {
  t_running = nullptr;
  update([&](State& state) {
    const std::uint64_t id = stream.id | kSynchronous;
    const std::uint64_t number = state.streams[id].clock[id] + 1;
    add(state, stream, id, number);
    t_running = operation(state, id, number);
  });
}

SynchronousScope::~SynchronousScope() {
  host_joins_running();
  t_running = std::move(before_);
}

void Scope::leave() noexcept { t_running = std::move(before_); }

void starts_launch(const void* launch) noexcept {
  update([&](State& state) { state.launches[launch] = t_running; });
}

void LaunchScope::enter(const void* launch) noexcept { before_ = std::exchange(t_launch, launch); }
void LaunchScope::leave() noexcept { t_launch = before_; }

Turn::Turn() { State::get().turn.acquire(); }
Turn::~Turn() { State::get().turn.release(); }

std::shared_ptr<Operation> of_launch() {
  if (!are_checked()) return nullptr;
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  const auto found = state.launches.find(t_launch);
  if (found == state.launches.end()) return nullptr;
  const std::shared_ptr<const Operation> known = std::move(found->second);
  state.launches.erase(found);
  return known ? std::make_shared<Operation>(*known) : nullptr;
}

std::vector<std::shared_ptr<const Operation>> unordered(const Operation& operation) {
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  std::vector<std::shared_ptr<const Operation>> found;
  for (const auto& earlier : state.ended)
    if (!is_before(*earlier, operation)) found.push_back(earlier);
  return found;
}

void ended(std::shared_ptr<Operation> operation) {
  constexpr std::size_t kMost = 1024;  // earlier ones count as ordered
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  state.ended.push_back(std::move(operation));
  if (state.ended.size() > kMost) state.ended.pop_front();
}

std::string describe(const Operation& operation) {
  return operation.name + " in stream " + std::to_string(operation.stream & ~kSynchronous);
}

namespace {

/// Compares a copy or fill with the histories, and adds it to them.
class Accesses {
 public:
  Accesses(std::shared_ptr<Operation> own) : own_{std::move(own)}, others_{unordered(*own_)} {
    own_->first = own_->last = next_interval();
    used_intervals(own_->first);
    pages_.begin(own_->first);
  }
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;
  ~Accesses() {
    own_->pages = pages_.numbers();
    pages_.end(own_->first);
    ended(own_);
  }

  /// The operation that it races with, or null, and where.
  std::pair<const Operation*, std::uintptr_t> add(std::uintptr_t address, std::size_t bytes,
                                                  bool writes, bool& earlier_writes) {
    using namespace touch;
    const std::uint64_t now = std::uint64_t{own_->first} << kIntervalShift;
    std::pair<const Operation*, std::uintptr_t> race{nullptr, 0};
    const std::uintptr_t end = address + bytes;
    for (std::uintptr_t at = address; at < end;) {
      const HistoryView view = pages_.at(at);
      History& h = *view.history;
      const bool contested = is_contested(at / HistoryPages::kPage);
      constexpr std::size_t kRow = 4 * std::size_t{kRowWords};
      if (!contested && at % kRow == 0 && end - at >= kRow) {
        CheckRow& row = h.rows[view.index / kRowWords];
        (writes ? row.write : row.read) = now;
        (writes ? row.write_site : row.read_site) = 0xffff;
        at += kRow;
        continue;
      }
      const std::size_t i = view.index;
      const auto first = static_cast<unsigned>(at % 4);
      const auto count = static_cast<unsigned>(std::min<std::uintptr_t>(4 - first, end - at));
      const std::uint64_t mask = ((std::uint64_t{1} << count) - 1) << first;
      h.open(i, 1, 0);
      const auto compare = [&](std::uint64_t word, std::uint64_t its_bytes, bool its_writes) {
        if (race.first || (its_bytes & mask) == 0) return;
        if (const Operation* const other = find(interval(word))) {
          race = {other, at};
          earlier_writes = its_writes;
        }
      };
      if (contested) {
        compare(h.write[i], touch::bytes(h.write[i]), true);
        if (writes) {
          for (const std::uint64_t* reads : h.reads)
            compare(reads[i], touch::bytes(reads[i]), false);
          compare(std::uint64_t{h.settled[i]} << kIntervalShift, kBytes, false);
        }
      }
      const std::uint64_t mine = now | mask << kBytesShift;
      if (writes) {
        h.write[i] = mine, h.write_site[i] = 0xffff;
        h.wrote(i, 1, now);
      } else {
        h.reads[1][i] = h.reads[0][i], h.read_sites[1][i] = h.read_sites[0][i];
        h.reads[0][i] = mine, h.read_sites[0][i] = 0xffff;
        h.read_one(i, now);
      }
      at += count;
    }
    return race;
  }

 private:
  [[nodiscard]] bool is_contested(std::uintptr_t page) {
    if (page != page_) {
      page_ = page;
      contested_ = std::any_of(others_.begin(), others_.end(),
                               [&](const auto& other) { return other->pages.contains(page); });
    }
    return contested_;
  }
  [[nodiscard]] const Operation* find(std::uint32_t interval) const {
    for (const auto& other : others_)
      if (interval >= other->first && interval <= other->last) return other.get();
    return nullptr;
  }

  std::shared_ptr<Operation> own_;
  std::vector<std::shared_ptr<const Operation>> others_;
  HistoryPages pages_;
  std::uintptr_t page_ = ~std::uintptr_t{0};
  bool contested_ = false;
};

}  // namespace

std::string check_access(std::uintptr_t address, std::size_t bytes, bool writes,
                         const std::string& name) noexcept try {
  if (!are_checked() || !t_running || bytes == 0 || !hooks().find_allocation) return {};
  if (!hooks().find_allocation(address)) return {};  // memory of the host
  const check::Options options = check::Options::from_environment();
  const Turn turn;
  auto own = std::make_shared<Operation>(*t_running);
  own->name = name;
  bool earlier_writes = false;
  const auto [other, at] = Accesses{own}.add(address, bytes, writes, earlier_writes);
  if (!other || options.suppressed(check::kRace, name, "")) return {};
  char place[64];
  std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(at));
  std::string text = describe(*own) + ": data race: " + (writes ? "write" : "read") + " of " +
                     place + " after a " + (earlier_writes ? "write" : "read") + " by " +
                     describe(*other) + ", and nothing orders the two operations";
  if (hooks().describe_address) text += "; " + hooks().describe_address(at);
  if (!options.continues) return text;
  std::fprintf(stderr, "cucore: check: %s\n", text.c_str());
  return {};
} catch (...) {
  return {};
}

}  // namespace cucpu::operations
