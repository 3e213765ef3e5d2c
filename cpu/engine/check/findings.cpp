// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/findings.cpp
#include "cpu/engine/check/findings.hpp"

#include <time.h>

#include <cstdio>
#include <utility>

#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {

using namespace check;

namespace {

/// Of a clock that is cheap to read: blocks may take less than a microsecond.
std::int64_t seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

}  // namespace

bool compares_accesses() { return CUCORE_PROTECTION("race-check"); }

const char* verb_of(std::uint32_t flags) {
  if ((flags & kFetch) != 0) return "texture fetch";
  return (flags & kWrite) == 0 ? "read" : (flags & kRead) != 0 ? "atomic operation" : "write";
}

const char* read_verb_of(std::uint32_t flags) {
  return (flags & kFetch) != 0 ? "texture fetch" : "read";
}

std::string race_text(std::uint32_t flags, std::uint32_t bytes, const EarlierAccess& earlier) {
  return std::string{verb_of(flags)} + " of " + std::to_string(bytes) + " bytes after a" +
         (earlier.is_strong ? "n atomic or volatile" : "") + (earlier.writes ? " write" : " read") +
         " by " + earlier.thread +
         (earlier.writes && (flags & kFetch) != 0
              ? " of the same grid: a fetch need not see what its grid writes, even after a barrier"
              : ", without synchronization between the two");
}

void Findings::report(Worker& worker, Finding finding) {
  if (worker.current_fault().code != 0) return;  // the first finding ends the thread
  const Code& kernel = worker.code();
  const std::string line = kernel.line_of && finding.pc ? kernel.line_of(finding.pc) : "";
  if (!options_->suppressions.empty() && options_->suppressed(finding.kind, kernel.kernel, line))
    return;
  FiberFault fault;
  fault.code = finding.code;
  fault.name = finding.name;
  fault.pc = finding.pc;
  fault.address = finding.address;
  fault.has_address = finding.address != 0;
  fault.text = std::move(finding.text);
  if (!options_->continues) {
    worker.current_fault() = std::move(fault);  // the caller leaves the fiber
    return;
  }
  constexpr std::size_t kMost = 100;  // different places
  {
    const std::lock_guard lock{mutex_};
    if (told_.size() >= kMost || !told_.insert({finding.kind, finding.pc}).second) return;
  }
  std::fprintf(stderr, "cucore: check: %s\n", worker.describe(fault).c_str());
}

Progress::Progress() : shown_{seconds()} {}

void Progress::blocks_start(Worker& worker, std::uint64_t count, std::uint64_t blocks) {
  constexpr std::int64_t kInterval = 10;
  constexpr std::uint64_t kOften = 64;  // blocks between two looks at the clock
  const std::lock_guard lock{mutex_};
  const std::uint64_t done = std::exchange(begun_, begun_ + count);
  if (done / kOften == begun_ / kOften && blocks > kOften * kOften) return;
  const std::int64_t now = seconds();
  if (now - shown_ < kInterval) return;
  shown_ = now;
  std::fprintf(stderr, "cucore: check: kernel %s: %llu of %llu blocks (%.0f %%)\n",
               worker.grid().code().kernel.c_str(), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(blocks),
               100.0 * static_cast<double>(done) / static_cast<double>(blocks));
}

}  // namespace cucpu
