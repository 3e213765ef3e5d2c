// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/mbarrier.cpp: mbarrier objects (64 bits of shared memory) and copies with zero
// fill. Layout: pending arrivals in bits 0-19 (counting down), expected arrivals in 20-39, bytes
// still to come in 40-61 (signed), layout in 62, phase in 63.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

struct State {
  std::uint32_t pending, expected;
  std::int32_t bytes;
  bool phase, second;  ///< second: .layout::v1
};

State unpack(std::uint64_t v) {
  return {static_cast<std::uint32_t>(v & 0xfffff), static_cast<std::uint32_t>(v >> 20 & 0xfffff),
          static_cast<std::int32_t>(static_cast<std::int64_t>(v << 2) >> 42), (v >> 63) != 0,
          (v >> 62 & 1) != 0};
}

std::uint64_t pack(const State& s) {
  return (s.pending & 0xfffff) | std::uint64_t{s.expected & 0xfffff} << 20 |
         (static_cast<std::uint64_t>(s.bytes) & 0x3fffff) << 40 | std::uint64_t{s.second} << 62 |
         std::uint64_t{s.phase} << 63;
}

/// Changes the object; completes the phase if nothing is pending. Returns the value before the
/// change.
template <typename Change>
std::uint64_t update(void* address, Change change) {
  std::atomic_ref<std::uint64_t> cell{*static_cast<std::uint64_t*>(address)};
  std::uint64_t old = cell.load(std::memory_order_relaxed), fresh = 0;
  do {
    State s = unpack(old);
    change(s);
    if (s.pending == 0 && s.bytes == 0) {
      s.phase = !s.phase;
      s.pending = s.expected;
    }
    fresh = pack(s);
  } while (!cell.compare_exchange_weak(old, fresh, std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
  return old;
}

}  // namespace

extern "C" {

void cucpu_rt_mbarrier_init(void* address, std::uint32_t count, std::uint32_t layout) {
  std::atomic_ref<std::uint64_t>{*static_cast<std::uint64_t*>(address)}.store(
      pack({count, count, 0, false, layout != 0}), std::memory_order_release);
}

std::uint32_t cucpu_rt_mbarrier_layout(void* address) {
  const std::atomic_ref<std::uint64_t> cell{*static_cast<std::uint64_t*>(address)};
  return unpack(cell.load(std::memory_order_relaxed)).second ? 1 : 0;
}

std::uint64_t cucpu_rt_mbarrier_arrive(void* address, std::uint32_t count, std::uint32_t bytes) {
  return update(address, [=](State& s) {
    s.bytes += static_cast<std::int32_t>(bytes);
    s.pending -= std::min(s.pending, count);
  });
}

std::uint64_t cucpu_rt_mbarrier_arrive_drop(void* address, std::uint32_t count,
                                            std::uint32_t bytes) {
  return update(address, [=](State& s) {
    s.bytes += static_cast<std::int32_t>(bytes);
    s.expected -= std::min(s.expected, count);
    s.pending -= std::min(s.pending, count);
  });
}

void cucpu_rt_mbarrier_expect_tx(void* address, std::uint32_t bytes) {
  std::atomic_ref<std::uint64_t> cell{*static_cast<std::uint64_t*>(address)};
  std::uint64_t old = cell.load(std::memory_order_relaxed), fresh = 0;
  do {
    State s = unpack(old);
    s.bytes += static_cast<std::int32_t>(bytes);
    fresh = pack(s);
  } while (!cell.compare_exchange_weak(old, fresh, std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
}

void cucpu_rt_mbarrier_complete_tx(void* address, std::uint32_t bytes) {
  (void)update(address, [=](State& s) { s.bytes -= static_cast<std::int32_t>(bytes); });
}

/// Whether the phase of `state` is complete.
bool cucpu_rt_mbarrier_test(void* address, std::uint64_t state) {
  const std::atomic_ref<std::uint64_t> cell{*static_cast<std::uint64_t*>(address)};
  return unpack(cell.load(std::memory_order_acquire)).phase != unpack(state).phase;
}

/// Whether the phase with this parity is complete.
bool cucpu_rt_mbarrier_test_parity(void* address, std::uint32_t parity) {
  const std::atomic_ref<std::uint64_t> cell{*static_cast<std::uint64_t*>(address)};
  return unpack(cell.load(std::memory_order_acquire)).phase != ((parity & 1) != 0);
}

std::uint32_t cucpu_rt_mbarrier_pending(std::uint64_t state) { return unpack(state).pending; }

/// Copies `given` bytes and fills the rest of `size` bytes with zeros.
void cucpu_rt_copy_fill(void* to, const void* from, std::uint32_t size, std::uint32_t given) {
  const std::uint32_t n = std::min(size, given);
  std::memcpy(to, from, n);
  std::memset(static_cast<char*>(to) + n, 0, size - n);
}

/// Copies the bytes of every 16 whose bit is set in `mask`.
void cucpu_rt_copy_masked(std::byte* to, const std::byte* from, std::uint32_t bytes,
                          std::uint32_t mask) {
  for (std::uint32_t at = 0; at < bytes; ++at)
    if ((mask >> at % 16 & 1) != 0) to[at] = from[at];
}

}  // extern "C"
