// SPDX-License-Identifier: Apache-2.0
// cpu/engine/schedule/random_schedule.cpp
#include "cpu/engine/schedule/random_schedule.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

namespace cucpu::schedule {
namespace {

/// The finalizer of SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// What a random number is for. Numbers of the same thread and point must differ.
enum Purpose : std::uint64_t {
  kPreempt = 1,
  kDelay,
  kCommit,
  kCommitEnded,
  kChoose,
  kGrid,
  kOld,
  kChooseOld,
};

constexpr std::size_t kMostRemembered = 256;  ///< stores that loads can miss
constexpr std::size_t kMostRead = 4096;       ///< words of a thread
constexpr std::uintptr_t kWord = 8;           ///< bytes; reads of a thread are noted by word

std::uint64_t next_launch() {
  static std::atomic<std::uint64_t> launches{0};
  return launches.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

RandomSchedule::RandomSchedule(Options options, std::uint64_t clusters, bool cooperative)
    : options_{std::move(options)},
      launch_{next_launch()},
      hash_{mix(mix(options_.seed) ^ launch_)},
      clusters_{clusters} {
  // Bugs differ in how many switches they need: a seed decides how frequent they are.
  static constexpr std::uint32_t kFrequencies[] = {2, 5, 16, 64};
  static constexpr std::uint64_t kResidents[] = {1, 2, 4, 16, 256, ~std::uint64_t{0}};
  constexpr std::uint64_t kMostPermuted = 1u << 31;  // so that products of two fit 64 bits
  const std::uint64_t of_grid = hash_of({0, 0});
  auto pick = [&, n = std::uint64_t{0}](const auto& values) mutable {
    return values[random(of_grid, n++, kGrid) % std::size(values)];
  };
  preempt_one_in_ = pick(kFrequencies);
  delay_one_in_ = pick(kFrequencies);
  commit_one_in_ = pick(kFrequencies);
  most_resident_ = pick(kResidents);
  old_one_in_ = pick(kFrequencies);
  if (cooperative || options_.in_order) {
    most_resident_ = ~std::uint64_t{0};
  } else if (clusters > 1 && clusters <= kMostPermuted && random(of_grid, 10, kGrid) % 2 == 0) {
    // index * factor + offset visits every cluster once if the factor is coprime to their number.
    offset_ = random(of_grid, 11, kGrid) % clusters;
    factor_ = random(of_grid, 12, kGrid) % clusters;
    while (std::gcd(factor_, clusters) != 1) ++factor_;
  }
}

std::uint64_t RandomSchedule::hash_of(ThreadId id) const {
  return mix(mix(hash_ ^ id.block) ^ id.thread);
}

std::uint64_t RandomSchedule::random(std::uint64_t hash, std::uint64_t number,
                                     std::uint64_t purpose) {
  return mix(mix(hash ^ number) ^ purpose);
}

std::uint64_t RandomSchedule::cluster(std::uint64_t index) const {
  return factor_ == 1 && offset_ == 0 ? index : (index * factor_ + offset_) % clusters_;
}

bool RandomSchedule::happens(Event::Kind kind, ThreadId id, const Thread& thread,
                             std::uint64_t point, std::uint32_t one_in, std::uintptr_t pc) {
  if (options_.in_order) return false;
  const Purpose purpose = kind == Event::Kind::preempt ? kPreempt
                          : kind == Event::Kind::delay ? kDelay
                                                       : kOld;
  if (random(thread.hash, point, purpose) % one_in != 0) return false;
  const Event event{kind, launch_, id.block, id.thread, point};
  if (options_.kept && !options_.kept->contains(event)) return false;
  if (!options_.log.empty()) logged_.push_back({event, pc});
  return true;
}

RandomSchedule::Thread& RandomSchedule::thread_of(ThreadId id) {
  if (last_thread_ && last_ == id) return *last_thread_;
  last_ = id;
  auto found = threads_.find(id);
  if (found == threads_.end())
    found = threads_.try_emplace(id, Thread{.hash = hash_of(id), .sees = time_}).first;
  last_thread_ = &found->second;
  return *last_thread_;
}

bool RandomSchedule::preempts(ThreadId id, std::uintptr_t pc) {
  Thread& thread = thread_of(id);
  note_atomic(thread);
  const std::uint64_t point = thread.point++;
  if (!thread.delayed.empty()) commit_random(thread.delayed, random(thread.hash, point, kCommit));
  if (!of_ended_.empty()) commit_random(of_ended_, random(thread.hash, point, kCommitEnded));
  return happens(Event::Kind::preempt, id, thread, point, preempt_one_in_, pc);
}

std::size_t RandomSchedule::choose(ThreadId id, std::size_t count) {
  if (options_.in_order) return 0;
  const auto found = threads_.find(id);
  const std::uint64_t number =
      found == threads_.end() ? ~std::uint64_t{0} : found->second.choices++;
  return static_cast<std::size_t>(random(hash_of(id), number, kChoose) % count);
}

void RandomSchedule::remember(ThreadId writer, const std::byte* address, std::size_t bytes) {
  ++time_;
  for (std::size_t at = 0; at < bytes; at += kHeld) {
    Replaced replaced{writer, time_, address + at, {}, std::min(bytes - at, kHeld)};
    std::memcpy(replaced.value.data(), replaced.address, replaced.bytes);
    replaced_.push_back(replaced);
  }
  while (replaced_.size() > kMostRemembered) {
    forgotten_ = replaced_.front().time;
    replaced_.pop_front();
  }
}

std::size_t RandomSchedule::WordTimes::find(std::uintptr_t word) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t i = static_cast<std::size_t>(mix(word)) & mask;
  while (entries_[i].round == round_ && entries_[i].word != word) i = (i + 1) & mask;
  return i;
}

std::uint64_t RandomSchedule::WordTimes::at(std::uintptr_t word) const {
  if (size_ == 0) return 0;
  const Entry& entry = entries_[find(word)];
  return entry.round == round_ ? entry.time : 0;
}

void RandomSchedule::WordTimes::raise(std::uintptr_t word, std::uint64_t time) {
  if (2 * size_ >= entries_.size()) {  // at most half of them are used
    std::vector<Entry> old(std::max<std::size_t>(8, 2 * entries_.size()));
    std::swap(old, entries_);
    for (const Entry& entry : old)
      if (entry.round == round_) entries_[find(entry.word)] = entry;
  }
  Entry& entry = entries_[find(word)];
  if (entry.round == round_) {
    entry.time = std::max(entry.time, time);
  } else {
    entry = {word, time, round_};
    ++size_;
  }
}

std::uint64_t RandomSchedule::seen(const Thread& thread, const std::byte* address,
                                   std::size_t bytes) {
  std::uint64_t time = thread.sees;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t word = begin / kWord; word <= (begin + bytes - 1) / kWord; ++word)
    time = std::max(time, thread.read.at(word));
  return time;
}

void RandomSchedule::note_read(Thread& thread, const std::byte* address, std::size_t bytes,
                               std::uint64_t time) {
  if (thread.read.size() >= kMostRead) {  // it sees more than it must
    thread.sees = std::max(thread.sees, time);
    thread.read.clear();
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t word = begin / kWord; word <= (begin + bytes - 1) / kWord; ++word)
    thread.read.raise(word, time);
}

void RandomSchedule::see_memory(ThreadId id) {
  Thread& thread = thread_of(id);
  thread.sees = time_;
  thread.read.clear();
}

bool RandomSchedule::load(ThreadId id, const std::byte* address, std::byte* value,
                          std::size_t bytes, std::uintptr_t pc) {
  before_access(id, address, bytes);
  Thread& thread = thread_of(id);
  if (options_.in_order) return false;
  const std::uint64_t point = thread.point - 1;
  if (random(thread.hash, point, kOld) % old_one_in_ != 0) {
    note_read(thread, address, bytes, time_);
    return false;
  }
  // The stores to these bytes that the load may miss, the last one first. It sees its own.
  const std::uint64_t must_see = std::max(seen(thread, address, bytes), forgotten_);
  std::vector<const Replaced*> missed;
  for (auto at = replaced_.rbegin(); at != replaced_.rend() && at->time > must_see; ++at) {
    if (!at->overlaps(address, bytes)) continue;
    if (at->writer == id) break;
    missed.push_back(&*at);
  }
  if (missed.empty()) {
    note_read(thread, address, bytes, time_);
    return false;
  }
  missed.resize(1 + random(thread.hash, point, kChooseOld) % missed.size());
  std::vector<std::byte> old(address, address + bytes);
  for (const Replaced* replaced : missed) {
    const std::byte* const begin = std::max(address, replaced->address);
    const std::byte* const end = std::min(address + bytes, replaced->address + replaced->bytes);
    std::copy(replaced->value.data() + (begin - replaced->address),
              replaced->value.data() + (end - replaced->address), old.data() + (begin - address));
  }
  if (std::equal(old.begin(), old.end(), address) ||
      !happens(Event::Kind::old, id, thread, point, old_one_in_, pc)) {
    note_read(thread, address, bytes, time_);
    return false;
  }
  note_read(thread, address, bytes, missed.back()->time - 1);
  std::memcpy(value, old.data(), bytes);
  return true;
}

void RandomSchedule::commit(const DelayedStore& store) {
  remember(store.writer, store.address,
           store.bytes);  // its thread must see it, whatever it changes
  if (std::memcmp(store.address, store.value.data(), store.bytes) == 0) return;
  std::memcpy(store.address, store.value.data(), store.bytes);
  waits_ = 0;
}

/// In program order: two stores to the same bytes keep their order.
void RandomSchedule::commit_overlapping(std::vector<DelayedStore>& delayed,
                                        const std::byte* address, std::size_t bytes) {
  for (auto at = delayed.begin(); at != delayed.end();) {
    if (at->overlaps(address, bytes)) {
      commit(*at);
      at = delayed.erase(at);
    } else {
      ++at;
    }
  }
}

/// Delayed stores become visible one by one, in an order of their own.
void RandomSchedule::commit_random(std::vector<DelayedStore>& delayed, std::uint64_t random) {
  if (delayed.empty() || random % commit_one_in_ != 0) return;
  const DelayedStore store = delayed[random / commit_one_in_ % delayed.size()];
  commit_overlapping(delayed, store.address, store.bytes);
}

void RandomSchedule::store(ThreadId id, std::byte* address, const std::byte* value,
                           std::size_t bytes, std::uintptr_t pc) {
  Thread& thread = thread_of(id);
  DelayedStore store{id, address, {}, bytes};
  const bool fits = bytes <= store.value.size();
  if (fits) std::memcpy(store.value.data(), value, bytes);
  if (fits && happens(Event::Kind::delay, id, thread, thread.point - 1, delay_one_in_, pc)) {
    // A store to an address that cannot be written faults here, not when it becomes visible.
    volatile std::byte* const first = address;
    *first = *first;
    thread.delayed.push_back(store);
    return;
  }
  commit_overlapping(thread.delayed, address, bytes);
  if (fits) return commit(store);
  remember(id, address, bytes);
  std::memcpy(address, value, bytes);
  waits_ = 0;
}

void RandomSchedule::before_access(ThreadId id, const std::byte* address, std::size_t bytes) {
  Thread& thread = thread_of(id);
  if (!thread.delayed.empty()) commit_overlapping(thread.delayed, address, bytes);
}

void RandomSchedule::before_atomic(ThreadId id, const std::byte* address, std::size_t bytes) {
  before_access(id, address, bytes);
  remember(id, address, bytes);
  Thread& thread = thread_of(id);
  thread.atomic = address;
  thread.atomic_bytes = std::min(bytes, thread.before_atomic.size());
  std::memcpy(thread.before_atomic.data(), address, thread.atomic_bytes);
}

void RandomSchedule::note_atomic(Thread& thread) {
  if (!thread.atomic) return;
  if (std::memcmp(thread.atomic, thread.before_atomic.data(), thread.atomic_bytes) != 0) waits_ = 0;
  thread.atomic = nullptr;
}

void RandomSchedule::make_stores_visible(ThreadId id) {
  const auto found = threads_.find(id);
  if (found == threads_.end()) return;
  Thread& thread = found->second;
  note_atomic(thread);
  for (const DelayedStore& store : thread.delayed) commit(store);
  thread.delayed.clear();
}

void RandomSchedule::end(ThreadId id, std::span<const std::byte> shared) {
  waits_ = 0;
  const auto found = threads_.find(id);
  if (found == threads_.end()) return;
  Thread& thread = found->second;
  note_atomic(thread);
  for (const DelayedStore& store : thread.delayed) {
    // Shared memory may belong to another block soon.
    if (store.overlaps(shared.data(), shared.size()))
      commit(store);
    else
      of_ended_.push_back(store);
  }
  if (last_thread_ == &thread) last_thread_ = nullptr;
  threads_.erase(found);
}

void RandomSchedule::finish() {
  for (const DelayedStore& store : of_ended_) commit(store);
  of_ended_.clear();
}

bool RandomSchedule::is_stalled(std::size_t threads) {
  constexpr auto kLong = std::chrono::milliseconds{200};  // the host may write, too
  const auto now = std::chrono::steady_clock::now();
  if (waits_ < 1000 + 64 * threads) {
    changed_ = now;
    return false;
  }
  return now - changed_ > kLong;
}

void RandomSchedule::write_log(
    const std::string& kernel,
    const std::function<std::string(std::uintptr_t)>& line_of) const noexcept try {
  if (options_.log.empty() || logged_.empty()) return;
  std::FILE* const file = std::fopen(options_.log.c_str(), "ae");
  if (!file) {
    std::fprintf(stderr, "cucore: CUCORE_CPU_SCHEDULE: cannot write the log %s\n",
                 options_.log.c_str());
    return;
  }
  std::unordered_map<std::uintptr_t, std::string> lines;
  for (const Logged& logged : logged_) {
    const auto [at, is_new] = lines.try_emplace(logged.pc);
    if (is_new && line_of) at->second = line_of(logged.pc);
    std::fprintf(file, "%s %s %s\n", logged.event.text().c_str(), kernel.c_str(),
                 at->second.c_str());
  }
  std::fclose(file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "cucore: CUCORE_CPU_SCHEDULE: the log is not complete: %s\n", error.what());
}

}  // namespace cucpu::schedule
