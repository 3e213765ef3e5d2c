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
    : options_{std::move(options)}, launch_{next_launch()}, clusters_{clusters} {
  // Bugs differ in how many switches they need: a seed decides how frequent they are.
  static constexpr std::uint32_t kFrequencies[] = {2, 5, 16, 64};
  static constexpr std::uint64_t kResidents[] = {1, 2, 4, 16, 256, ~std::uint64_t{0}};
  constexpr std::uint64_t kMostPermuted = 1u << 31;  // so that products of two fit 64 bits
  auto pick = [&, n = std::uint64_t{0}](const auto& values) mutable {
    return values[random({0, 0}, n++, kGrid) % std::size(values)];
  };
  preempt_one_in_ = pick(kFrequencies);
  delay_one_in_ = pick(kFrequencies);
  commit_one_in_ = pick(kFrequencies);
  most_resident_ = pick(kResidents);
  old_one_in_ = pick(kFrequencies);
  if (cooperative || options_.in_order) {
    most_resident_ = ~std::uint64_t{0};
  } else if (clusters > 1 && clusters <= kMostPermuted && random({0, 0}, 10, kGrid) % 2 == 0) {
    // index * factor + offset visits every cluster once if the factor is coprime to their number.
    offset_ = random({0, 0}, 11, kGrid) % clusters;
    factor_ = random({0, 0}, 12, kGrid) % clusters;
    while (std::gcd(factor_, clusters) != 1) ++factor_;
  }
}

std::uint64_t RandomSchedule::random(ThreadId id, std::uint64_t number,
                                     std::uint64_t purpose) const {
  std::uint64_t hash = mix(options_.seed);
  for (const std::uint64_t part : {launch_, id.block, std::uint64_t{id.thread}, number, purpose})
    hash = mix(hash ^ part);
  return hash;
}

std::uint64_t RandomSchedule::cluster(std::uint64_t index) const {
  return factor_ == 1 && offset_ == 0 ? index : (index * factor_ + offset_) % clusters_;
}

bool RandomSchedule::happens(Event::Kind kind, ThreadId id, std::uint64_t point,
                             std::uint32_t one_in, std::uintptr_t pc) {
  if (options_.in_order) return false;
  const Purpose purpose = kind == Event::Kind::preempt ? kPreempt
                          : kind == Event::Kind::delay ? kDelay
                                                       : kOld;
  if (random(id, point, purpose) % one_in != 0) return false;
  const Event event{kind, launch_, id.block, id.thread, point};
  if (options_.kept && !options_.kept->contains(event)) return false;
  if (!options_.log.empty()) logged_.push_back({event, pc});
  return true;
}

RandomSchedule::Thread& RandomSchedule::thread_of(ThreadId id) {
  return threads_.try_emplace(id, Thread{.sees = time_}).first->second;
}

bool RandomSchedule::preempts(ThreadId id, std::uintptr_t pc) {
  Thread& thread = thread_of(id);
  note_atomic(thread);
  const std::uint64_t point = thread.point++;
  commit_random(thread.delayed, random(id, point, kCommit));
  commit_random(of_ended_, random(id, point, kCommitEnded));
  return happens(Event::Kind::preempt, id, point, preempt_one_in_, pc);
}

std::size_t RandomSchedule::choose(ThreadId id, std::size_t count) {
  if (options_.in_order) return 0;
  const auto found = threads_.find(id);
  const std::uint64_t number =
      found == threads_.end() ? ~std::uint64_t{0} : found->second.choices++;
  return static_cast<std::size_t>(random(id, number, kChoose) % count);
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

std::uint64_t RandomSchedule::seen(const Thread& thread, const std::byte* address,
                                   std::size_t bytes) {
  std::uint64_t time = thread.sees;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t word = begin / kWord; word <= (begin + bytes - 1) / kWord; ++word)
    if (const auto found = thread.read.find(word); found != thread.read.end())
      time = std::max(time, found->second);
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
  for (std::uintptr_t word = begin / kWord; word <= (begin + bytes - 1) / kWord; ++word) {
    std::uint64_t& last = thread.read[word];
    last = std::max(last, time);
  }
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
  // The stores to these bytes that the load may miss, the last one first. It sees its own.
  const std::uint64_t must_see = std::max(seen(thread, address, bytes), forgotten_);
  std::vector<const Replaced*> missed;
  for (auto at = replaced_.rbegin(); at != replaced_.rend() && at->time > must_see; ++at) {
    if (!at->overlaps(address, bytes)) continue;
    if (at->writer == id) break;
    missed.push_back(&*at);
  }
  const std::uint64_t point = thread.point - 1;
  if (missed.empty() || random(id, point, kOld) % old_one_in_ != 0) {
    note_read(thread, address, bytes, time_);
    return false;
  }
  missed.resize(1 + random(id, point, kChooseOld) % missed.size());
  std::vector<std::byte> old(address, address + bytes);
  for (const Replaced* replaced : missed) {
    const std::byte* const begin = std::max(address, replaced->address);
    const std::byte* const end = std::min(address + bytes, replaced->address + replaced->bytes);
    std::copy(replaced->value.data() + (begin - replaced->address),
              replaced->value.data() + (end - replaced->address), old.data() + (begin - address));
  }
  if (std::equal(old.begin(), old.end(), address) ||
      !happens(Event::Kind::old, id, point, old_one_in_, pc)) {
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
void RandomSchedule::commit_overlapping(std::deque<DelayedStore>& delayed, const std::byte* address,
                                        std::size_t bytes) {
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
void RandomSchedule::commit_random(std::deque<DelayedStore>& delayed, std::uint64_t random) {
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
  if (fits && happens(Event::Kind::delay, id, thread.point - 1, delay_one_in_, pc)) {
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
