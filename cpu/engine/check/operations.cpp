// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/operations.cpp
#include "cpu/engine/check/operations.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
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
  std::atomic<std::uint32_t> next_turn{0}, turn{0};

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
bool reaches(const GraphShape& graph, unsigned from, unsigned to) {
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
  if (a.stream == b.stream && a.number == b.number) {
    const auto [x, y] = std::mismatch(
        a.path.begin(), a.path.end(), b.path.begin(), b.path.end(),
        [](const Node& m, const Node& n) { return m.run == n.run && m.node == n.node; });
    // Different runs are one after another.
    return x == a.path.end() || y == b.path.end() || x->run != y->run ||
           reaches(*x->graph, x->node, y->node);
  }
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

void runs_node(const void* task, const void* parent, Node node) noexcept {
  update([&](State& state) {
    const auto found = state.tasks.find(parent);
    std::shared_ptr<const Operation> of_parent;
    if (found != state.tasks.end()) of_parent = found->second;
    if (of_parent && node.graph) {
      auto made = std::make_shared<Operation>(*of_parent);
      made->path.push_back(std::move(node));
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

Turn::Turn() noexcept {
  State& state = State::get();
  const std::uint32_t mine = state.next_turn.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t now = 0; (now = state.turn.load(std::memory_order_acquire)) != mine;)
    state.turn.wait(now, std::memory_order_acquire);
}

Turn::~Turn() {
  State& state = State::get();
  state.turn.fetch_add(1, std::memory_order_release);
  state.turn.notify_all();
}

bool Turn::is_wanted() noexcept {
  const State& state = State::get();
  return state.next_turn.load(std::memory_order_relaxed) -
             state.turn.load(std::memory_order_relaxed) >
         1;
}

std::shared_ptr<Operation> of_launch() {
  if (!are_checked()) return nullptr;
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  const auto found = state.launches.find(t_launch);
  if (found == state.launches.end()) return nullptr;
  const std::shared_ptr<const Operation> known = std::move(found->second);
  state.launches.erase(found);
  if (!known) return nullptr;
  auto made = std::make_shared<Operation>(*known);
  made->is_kernel = true;
  made->is_public = std::make_shared<bool>(false);
  return made;
}

std::vector<std::shared_ptr<const Operation>> unordered(const Operation& operation) {
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  std::vector<std::shared_ptr<const Operation>> found;
  for (const auto& earlier : state.ended)
    if (!*earlier->is_public && !is_before(*earlier, operation)) found.push_back(earlier);
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

std::string describe_race(const Operation& own, const char* verb, std::size_t bytes,
                          const Operation& other, bool other_writes) {
  return std::string{verb} + " of " + std::to_string(bytes) + " bytes by " + describe(own) +
         " after a" + (other_writes ? " write by " : " read by ") + describe(other) +
         ", and nothing orders the two operations";
}

bool is_host_memory(std::uintptr_t address) {
  if (!hooks().find_allocation) return false;
  const auto found = hooks().find_allocation(address);
  return found && !found->tracked;
}

void publish(const Operation& operation) {
  const Turn turn;
  *operation.is_public = true;
}

Accesses::Accesses(std::shared_ptr<Operation> own)
    : own_{std::move(own)}, others_{unordered(*own_)} {
  own_->first = own_->last = next_interval();
  used_intervals(own_->first);
  pages_.begin(own_->first);
}

Accesses::~Accesses() {
  try {
    own_->pages = pages_.numbers();
    ended(own_);
  } catch (...) {
    disable();
  }
  pages_.end(own_->first);
}

Accesses::Race Accesses::add(std::uintptr_t address, std::size_t bytes, bool writes, bool strong) {
  using namespace touch;
  constexpr std::size_t kRow = 4 * std::size_t{kRowWords};
  const std::uint64_t now = std::uint64_t{own_->first} << kIntervalShift;
  Race race;
  const std::uintptr_t end = address + bytes;
  for (std::uintptr_t at = address; at < end;) {
    const HistoryView view = pages_.at(at);
    History& h = *view.history;
    const bool contested = is_contested(at / HistoryPages::kPage);
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
      if ((its_bytes & mask) == 0 || (race.other && !race.strong)) return;
      const Operation* const other = find(interval(word));
      if (!other) return;
      const bool is_strong = (word & kStrong) != 0;
      race = {other, at, its_writes,
              (strong || !own_->is_kernel) && (is_strong || !other->is_kernel) &&
                  (own_->is_kernel || other->is_kernel)};
    };
    if (contested) {
      compare(h.write[i], touch::bytes(h.write[i]), true);
      for (unsigned n = 0; writes && n < 2; ++n)
        compare(h.reads[n][i], touch::bytes(h.reads[n][i]), false);
      if (writes) compare(std::uint64_t{h.settled[i]} << kIntervalShift, kBytes, false);
    }
    const std::uint64_t mine = now | mask << kBytesShift | (strong ? kStrong : 0);
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

bool Accesses::is_contested(std::uintptr_t page) {
  if (page != page_) {
    page_ = page;
    contested_ = std::any_of(others_.begin(), others_.end(),
                             [&](const auto& other) { return other->pages.contains(page); });
  }
  return contested_;
}

const Operation* Accesses::find(std::uint32_t interval) const {
  for (const auto& other : others_)
    if (interval >= other->first && interval <= other->last) return other.get();
  return nullptr;
}

std::string check_access(std::uintptr_t address, std::size_t bytes, bool writes,
                         const std::string& name) noexcept try {
  if (!are_checked() || !t_running || bytes == 0 || !hooks().find_allocation) return {};
  const bool is_allocation = hooks().find_allocation(address).has_value();
  const bool is_array = g_is_device_address && g_is_device_address(address);
  if (!is_allocation && !is_array) return {};  // memory of the host
  const check::Options options = check::Options::from_environment();
  auto own = std::make_shared<Operation>(*t_running);
  own->name = name;
  Accesses accesses{own};
  const Accesses::Race race = accesses.add(address, bytes, writes, false);
  if (!race.other || race.strong || options.suppressed(check::kRace, name, "")) return {};
  char place[64];
  std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(race.address));
  std::string text = describe(*own) + ": data race: " + (writes ? "write" : "read") + " of " +
                     place + " after a " + (race.writes ? "write" : "read") + " by " +
                     describe(*race.other) + ", and nothing orders the two operations";
  if (is_allocation && hooks().describe_address)
    text += "; " + hooks().describe_address(race.address);
  if (!is_allocation) text += "; memory of an array";
  if (!options.continues) return text;
  std::fprintf(stderr, "cucore: check: %s\n", text.c_str());
  return {};
} catch (...) {
  return {};
}

}  // namespace cucpu::operations
