// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/init.cpp: reads of uninitialized memory.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/check/routine_access.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

namespace {

constexpr std::size_t kWord = 64;

/// Calls `visit(word, bits)` for the words of a range of bits, as long as it returns true.
template <typename Visit>
bool for_words(std::size_t offset, std::size_t bytes, Visit visit) {
  for (const std::size_t end = offset + bytes; offset < end;) {
    const std::size_t first = offset % kWord, count = std::min(kWord - first, end - offset);
    const std::uint64_t bits =
        (count == kWord ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << first;
    if (!visit(offset / kWord, bits)) return false;
    offset += count;
  }
  return true;
}

/// By allocation, added at its first access; allocation numbers are unique.
struct Initialized {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::unique_ptr<InitializedBytes>> bytes;

  static Initialized& get() {
    static auto* const initialized = new Initialized;
    return *initialized;
  }
};

}  // namespace

void InitializedBytes::Free::operator()(void* memory) const noexcept { std::free(memory); }

// calloc: the pages of a large allocation are not touched. Two words more: see bits().
InitializedBytes::InitializedBytes(std::size_t bytes)
    : bytes_{bytes},
      words_{static_cast<std::uint64_t*>(std::calloc(bytes / kWord + 2, sizeof(std::uint64_t)))} {
  if (!words_) throw std::bad_alloc{};
}

bool InitializedBytes::all(std::size_t offset, std::size_t bytes) const {
  return for_words(
      offset, std::min(bytes, bytes_ - std::min(offset, bytes_)),
      [&](std::size_t word, std::uint64_t bits) {
        return (std::atomic_ref{words_[word]}.load(std::memory_order_relaxed) & bits) == bits;
      });
}

bool InitializedBytes::none(std::size_t offset, std::size_t bytes) const {
  bytes = std::min(bytes, bytes_ - std::min(offset, bytes_));
  return bytes != 0 && for_words(offset, bytes, [&](std::size_t word, std::uint64_t bits) {
           return (std::atomic_ref{words_[word]}.load(std::memory_order_relaxed) & bits) == 0;
         });
}

void InitializedBytes::set(std::size_t offset, std::size_t bytes) {
  for_words(offset, std::min(bytes, bytes_ - std::min(offset, bytes_)),
            [&](std::size_t word, std::uint64_t bits) {
              std::atomic_ref{words_[word]}.fetch_or(bits, std::memory_order_relaxed);
              return true;
            });
}

void InitializedBytes::clear(std::size_t offset, std::size_t bytes) {
  for_words(offset, std::min(bytes, bytes_ - std::min(offset, bytes_)),
            [&](std::size_t word, std::uint64_t bits) {
              std::atomic_ref{words_[word]}.fetch_and(~bits, std::memory_order_relaxed);
              return true;
            });
}

std::size_t InitializedBytes::prefix(std::size_t offset, std::size_t bytes) const {
  bytes = std::min(bytes, bytes_ - std::min(offset, bytes_));
  std::size_t end = offset + bytes;
  for_words(offset, bytes, [&](std::size_t word, std::uint64_t bits) {
    const std::uint64_t absent =
        ~std::atomic_ref{words_[word]}.load(std::memory_order_relaxed) & bits;
    if (absent != 0) end = word * kWord + static_cast<unsigned>(std::countr_zero(absent));
    return absent == 0;
  });
  return end - offset;
}

void InitializedBytes::clear(std::size_t bytes) {
  std::fill_n(words_.get(), std::min(bytes, bytes_) / kWord + 1, 0);
}

InitializedBytes& initialized_bytes(const AllocationView& a) {
  Initialized& known = Initialized::get();
  const std::lock_guard lock{known.mutex};
  std::unique_ptr<InitializedBytes>& found = known.bytes[a.id];
  if (!found) found = std::make_unique<InitializedBytes>(a.size);
  return *found;
}

std::optional<FoundMemory> find_memory(std::uintptr_t address) {
  if (!hooks().find_allocation) return std::nullopt;
  if (const auto found = hooks().find_allocation(address)) return FoundMemory{*found, false};
  if (!g_find_array) return std::nullopt;
  const auto found = g_find_array(address);
  return found ? std::optional{FoundMemory{*found, true}} : std::nullopt;
}

void check_host_write(std::uintptr_t address, std::size_t bytes) noexcept try {
  if ((kinds_in_environment() & kInit) == 0) return;
  const auto found = find_memory(address);
  if (found && found->tracked) initialized_bytes(*found).set(address - found->base, bytes);
} catch (...) {
}  // without memory for its state a check misses findings

void check_host_clear(std::uintptr_t address, std::size_t bytes) noexcept try {
  if ((kinds_in_environment() & kInit) == 0) return;
  const auto found = find_memory(address);
  if (found && found->tracked) initialized_bytes(*found).clear(address - found->base, bytes);
} catch (...) {
}

std::size_t check_host_read(std::uintptr_t address, std::size_t bytes) noexcept try {
  if ((kinds_in_environment() & kInit) == 0) return bytes;
  const auto found = find_memory(address);
  if (!found || !found->tracked) return bytes;
  InitializedBytes& initialized = initialized_bytes(*found);
  const std::size_t offset = address - found->base;
  std::size_t done = 0;
  while ((done += initialized.prefix(offset + done, bytes - done)) < bytes &&
         !is_uninitialized(initialized, address + done, offset + done, 1)) {
  }
  return done;
} catch (...) {
  return bytes;
}

std::string report_host_read(std::uintptr_t address, const std::string& name) noexcept try {
  const Options options = Options::from_environment();
  if (options.suppressed(kInit, name, "")) return {};
  char place[64];
  std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
  std::string text = name + ": uninitialized read of device memory at " + place;
  if (hooks().describe_address) text += "; " + hooks().describe_address(address);
  if (!options.continues) return text;
  std::fprintf(stderr, "cucore: check: %s\n", text.c_str());
  return {};
} catch (...) {
  return {};
}

bool is_uninitialized(InitializedBytes& initialized, std::uintptr_t address, std::size_t offset,
                      std::size_t bytes) {
  if (!initialized.none(offset, bytes)) return false;
  if (!g_may_hold_data || !g_may_hold_data(address, bytes)) return true;
  initialized.set(offset, bytes);
  return false;
}

// A read is a finding only when none of its bytes is initialized: copies of structures read padding
// too.
void Checker::check_init(Worker& worker, const CheckedAccess& access, const Where& where) {
  const auto tell = [&](const char* what) {
    char text[96];
    std::snprintf(text, sizeof text, "%u-byte %s of uninitialized %s", access.bytes,
                  read_verb_of(access.flags), what);
    report(worker, kInit, 719, "uninitialized read", text, access.pc, access.address);
  };
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  if (where.kind == Where::kShared) {
    // The memory after the block's bytes is reserved for the system and initialized.
    if (!where.owner || where.offset >= where.size) return;
    InitializedBytes& written = *where.owner->written;
    if (reads && written.none(where.offset, access.bytes)) tell("shared memory");
    if (writes) written.set(where.offset, access.bytes);
    return;
  }
  if (where.kind == Where::kLocal) {
    auto at = locals_.upper_bound(access.address);
    if (at == locals_.begin()) return;
    --at;
    const std::size_t offset = access.address - at->first;
    if (!at->second.written) return;
    if (reads && at->second.written->none(offset, access.bytes)) tell("local memory");
    if (writes) at->second.written->set(offset, access.bytes);
    return;
  }
  const auto found = find_memory(access.address);
  if (!found || !found->tracked) return;
  InitializedBytes& written = initialized_bytes(*found);
  const std::size_t offset = access.address - found->base;
  if (reads && is_uninitialized(written, access.address, offset, access.bytes))
    tell(found->is_array ? "memory of an array" : "device memory");
  if (writes) written.set(offset, access.bytes);
}

void Checker::writes(Worker& worker, std::uintptr_t address, std::size_t bytes) {
  if (!checks(kInit)) return;
  if (bytes == 0) {  // a routine with its own pattern of writes to shared memory
    InitializedBytes& written = *of(*worker.current().block).written;
    return written.set(0, written.size());
  }
  const Where where = locate(worker, address, 0);
  if (where.kind == Where::kShared && where.owner)
    return where.owner->written->set(where.offset, bytes);
  if (where.kind == Where::kGlobal) check_host_write(address, bytes);
}

}  // namespace cucpu
