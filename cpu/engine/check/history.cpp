// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/history.cpp
#include "cpu/engine/check/history.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace cucpu {
namespace {

static_assert(sizeof(CheckRow) % touch::kRowWords == 0);
constexpr std::size_t kBytesPerWord = 3 * sizeof(std::uint64_t) +
                                      sizeof(CheckRow) / touch::kRowWords + sizeof(std::uint32_t) +
                                      3 * sizeof(std::uint16_t);

/// Pages that no grid uses, and the last interval in them.
struct Unused {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::pair<std::unique_ptr<History>, std::uint32_t>> pages;
  std::uint32_t next = 1;

  static Unused& get() {
    static auto* const unused = new Unused;
    return *unused;
  }
};

}  // namespace

History::History(std::size_t words)
    : words_{(words + touch::kRowWords - 1) / touch::kRowWords * touch::kRowWords} {
  words = words_;
  void* const memory = mmap(nullptr, words * kBytesPerWord, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc{};
  memory_ = static_cast<std::byte*>(memory);
  auto* numbers = static_cast<std::uint64_t*>(memory);
  for (std::uint64_t** one : {&write, &reads[0], &reads[1]})
    *one = std::exchange(numbers, numbers + words);
  rows = reinterpret_cast<CheckRow*>(numbers);
  settled = reinterpret_cast<std::uint32_t*>(rows + words / touch::kRowWords);
  auto* sites = reinterpret_cast<std::uint16_t*>(settled + words);
  for (std::uint16_t** one : {&write_site, &read_sites[0], &read_sites[1]})
    *one = std::exchange(sites, sites + words);
}

History::~History() { munmap(memory_, words_ * kBytesPerWord); }

void History::open_row(std::size_t r, std::uint64_t empty) {
  using namespace touch;
  CheckRow& row = rows[r];
  const std::size_t first = r * kRowWords;
  const auto detailed = [](std::uint64_t word) {
    return (word >> kIntervalShift) << kIntervalShift | kDetailed;
  };
  if (is_closed(row.write)) {
    for (unsigned n = 0; n < kRowWords; ++n)
      write[first + n] = in_row(row.write, n), write_site[first + n] = row.write_site;
    row.write = detailed(row.write);
  }
  if (!is_closed(row.read)) return;
  for (unsigned n = 0; n < kRowWords; ++n) {
    const std::size_t i = first + n;
    if (is_uniform(row.read)) {  // by two threads at least; generated code stored the site
      if ((row.uniform >> n & 1) == 0) continue;
      const std::uint64_t word = (row.read & ~kUniform) | kBytes << kBytesShift;
      reads[1][i] = word, read_sites[1][i] = read_sites[0][i];
      reads[0][i] = word + (std::uint64_t{row.uniform} >> 8 << kThreadShift);
      settled[i] = interval(word);
      continue;
    }
    const std::uint64_t word = in_row(row.read, n);
    if ((row.read & kSettled) != 0) settled[i] = interval(word);
    if (row.other_read >= empty && row.other_read != 0)
      reads[1][i] = in_row(row.other_read, n), read_sites[1][i] = row.other_read_site;
    else if (reads[0][i] >= empty && ((reads[0][i] ^ word) & kThreadMask) != 0)
      reads[1][i] = reads[0][i], read_sites[1][i] = read_sites[0][i];
    reads[0][i] = word, read_sites[0][i] = row.read_site;
  }
  row.read = detailed(row.read) | (row.read & kSettled);
  row.other_read = 0;
}

void History::has_read(std::size_t word, std::size_t words, std::uint64_t now) {
  using namespace touch;
  for (std::size_t r = word / kRowWords; r <= (word + words - 1) / kRowWords; ++r) {
    const std::uint32_t* const tags = settled + r * kRowWords;
    bool all = true;
    for (unsigned n = 0; n < kRowWords; ++n) all &= tags[n] == interval(now);
    rows[r].read = now | kDetailed | (all ? kSettled : 0);
  }
}

void History::clear() { madvise(memory_, words_ * kBytesPerWord, MADV_DONTNEED); }

HistoryView HistoryPages::at(std::uintptr_t address) {
  const std::uintptr_t number = address / kPage;
  if (number != number_) {
    std::unique_ptr<History>& page = pages_[number];
    if (!page) {
      Unused& unused = Unused::get();
      const std::lock_guard lock{unused.mutex};
      if (auto found = unused.pages.extract(number)) {
        page = std::move(found.mapped().first);
        if (found.mapped().second >= first_) page->clear();
      } else {
        page = std::make_unique<History>(kPage / 4);
      }
    }
    number_ = number;
    page_ = page.get();
  }
  const std::size_t index = address % kPage / 4;
  return {page_, index, kPage / 4 - index};
}

std::unordered_set<std::uintptr_t> HistoryPages::numbers() const {
  std::unordered_set<std::uintptr_t> all;
  for (const auto& [number, page] : pages_) all.insert(number);
  return all;
}

void HistoryPages::end(std::uint32_t last) noexcept try {
  constexpr std::size_t kMost = 4096;  // pages that are kept
  Unused& unused = Unused::get();
  const std::lock_guard lock{unused.mutex};
  for (auto& [number, page] : pages_)
    if (unused.pages.size() < kMost) unused.pages.try_emplace(number, std::move(page), last);
  pages_.clear();
  number_ = ~std::uintptr_t{0};
} catch (...) {
  pages_.clear();
}

std::uint32_t next_interval() {
  constexpr std::uint32_t kLast = 0xe0000000;
  Unused& unused = Unused::get();
  const std::lock_guard lock{unused.mutex};
  if (unused.next > kLast) {  // pages of before then hold intervals after those of the grid
    unused.next = 1;
    for (auto& [number, page] : unused.pages) page.second = ~std::uint32_t{0};
  }
  return unused.next;
}

void used_intervals(std::uint32_t last) {
  Unused& unused = Unused::get();
  const std::lock_guard lock{unused.mutex};
  unused.next = std::max(unused.next, last + 1);
}

}  // namespace cucpu
