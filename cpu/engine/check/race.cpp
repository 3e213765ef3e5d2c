// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/race.cpp: data races (accesses to the same bytes without synchronization between
// them), and barriers that threads of a warp reach at different places.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

namespace {

constexpr std::uintptr_t kPage = 4096;

bool same_thread(const Touch& a, const Touch& b) {
  return a.block == b.block && a.thread == b.thread;
}

/// A store of the value that memory already holds is harmless.
bool changes_nothing(const CheckedAccess& access) {
  return (access.flags & kHasValue) != 0 &&
         std::memcmp(reinterpret_cast<const void*>(access.address), &access.value, access.bytes) ==
             0;
}

}  // namespace

bool Checker::ordered(const Touch& earlier, const CheckedBlock& block, std::uint32_t thread) const {
  if (earlier.time == 0) return true;
  if (earlier.block == block.number) {
    if (earlier.thread == thread) return true;
    const CheckedBlock::Thread& self = block.threads[thread];
    if (earlier.time <= self.block_floor) return true;
    if (earlier.thread / 32U == thread / 32U && earlier.time <= self.warp_floor) return true;
  }
  const auto known = block.known.find(earlier.block);
  return known != block.known.end() && earlier.time <= known->second;
}

Cell& Checker::cell(const Where& where, std::uintptr_t address) {
  if (where.kind == Where::kShared) return where.owner->shared[where.offset / 4];
  std::vector<Cell>& page = global_[address / kPage];
  if (page.empty()) page.resize(kPage / 4);
  return page[address % kPage / 4];
}

void Checker::race(Worker& worker, const CheckedAccess& access, const Touch& earlier,
                   bool earlier_writes) {
  const std::string text =
      race_text(access.flags, access.bytes,
                {earlier.strong, earlier_writes,
                 name_of_thread(worker, earlier.block, earlier.thread, earlier.pc)});
  report(worker, kRace, 719, "data race", text, access.pc, access.address);
}

void Checker::check_race(Worker& worker, const CheckedAccess& access, const Where& where) {
  if (!compares_accesses() || (where.kind == Where::kShared && !where.owner)) return;
  // malloc and free pass memory from thread to thread.
  if (where.kind == Where::kGlobal && g_device_heap_contains &&
      g_device_heap_contains(access.address))
    return;
  if (where.kind == Where::kShared && !where.owner->copies.empty())
    check_copies(worker, access, where);
  CheckedBlock& block = of(*worker.current().block);
  const std::uint32_t thread = worker.current().thread.linear;
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  const bool strong = (access.flags & kStrong) != 0, fetches = (access.flags & kFetch) != 0;
  if (strong && reads) {  // acquires what others released there
    if (const auto found = released_.find(access.address); found != released_.end())
      for (const auto& [other, time] : found->second)
        block.known[other] = std::max(block.known[other], time);
  }
  for (std::uint32_t done = 0; done < access.bytes;) {
    const std::uintptr_t at = access.address + done;
    const auto first = static_cast<std::uint32_t>(at % 4);
    const std::uint32_t count = std::min(4 - first, access.bytes - done);
    const auto bytes = static_cast<std::uint8_t>(((1U << count) - 1) << first);
    Where word = where;
    word.offset += done;
    Cell& c = cell(word, at);
    const auto conflicts = [&](const Touch& earlier) {
      return (earlier.bytes & bytes) != 0 && !(strong && earlier.strong) &&
             (!ordered(earlier, block, thread) || (fetches && earlier.time != 0));
    };
    // A copy: reporting may change the cell.
    if (conflicts(c.write) && !(writes && !reads && changes_nothing(access)))
      race(worker, access, Touch{c.write}, true);
    // Uninitialized memory has no value that a store could leave unchanged.
    if (writes && !(c.write.time != 0 && changes_nothing(access)))
      for (const Touch& earlier : c.reads)
        if (conflicts(earlier)) race(worker, access, Touch{earlier}, false);
    Touch now{now_,
              access.pc,
              static_cast<std::uint32_t>(block.number),
              static_cast<std::uint16_t>(thread),
              bytes,
              strong};
    // The word keeps one access of this thread: with all bytes since the thread last synchronized.
    const Touch& last = writes ? c.write : c.reads[0];
    const CheckedBlock::Thread& self = block.threads[thread];
    if (same_thread(last, now) && last.strong == strong &&
        last.time > std::max({self.block_floor, self.warp_floor, self.released}))
      now.bytes |= last.bytes;
    if (writes) {
      c.write = now;
    } else if (same_thread(c.reads[0], now) || c.reads[0].time == 0) {
      c.reads[0] = now;
    } else {
      c.reads[1] = c.reads[0];
      c.reads[0] = now;
    }
    done += count;
  }
  const bool releases =
      strong && writes && ((access.flags & kRelease) != 0 || block.threads[thread].fenced);
  if (operation_ && where.kind == Where::kGlobal) check_operations(worker, access, releases);
  if (releases) {
    auto& released = released_[access.address];
    for (const auto& [other, time] : block.known) released[other] = std::max(released[other], time);
    released[block.number] = now_;
    block.threads[thread].released = now_;
  }
}

// The kernel may wait for other operations, so those get their turns in between.
void Checker::check_operations(Worker& worker, const CheckedAccess& access, bool releases) {
  const bool reads = (access.flags & kRead) != 0, writes = (access.flags & kWrite) != 0;
  const bool strong = (access.flags & kStrong) != 0;
  const auto stop = [&] {
    accesses_ = nullptr;
    operation_ = nullptr;
  };
  if (releases && operations::is_host_memory(access.address)) {
    accesses_ = nullptr;
    operations::publish(*operation_);
    return stop();
  }
  if (accesses_ && operations::Turn::is_wanted()) accesses_ = nullptr;
  if (!accesses_)
    accesses_ = std::make_unique<operations::Accesses>(
        std::make_shared<operations::Operation>(*operation_));
  const auto race = accesses_->add(access.address, access.bytes, writes, strong);
  if (!race.other) return;
  if (strong && reads && race.writes) return stop();  // it may have waited for the other operation
  if (race.strong || (writes && changes_nothing(access))) return;
  report(worker, kRace, 719, "data race",
         operations::describe_race(*operation_, verb_of(access.flags), access.bytes, *race.other,
                                   race.writes),
         access.pc, access.address);
}

/// Whether a copy that nothing has waited for conflicts with the access.
void Checker::check_copies(Worker& worker, const CheckedAccess& access, const Where& where) {
  for (const CheckedBlock::Copy& copy : where.owner->copies) {
    if (access.address - copy.address >= copy.bytes &&
        copy.address - access.address >= access.bytes)
      continue;
    return report(
        worker, kRace, 719, "data race",
        std::string{verb_of(access.flags)} + " of " + std::to_string(access.bytes) +
            " bytes that an asynchronous copy may not have written yet, issued by " +
            name_of_thread(worker, where.owner->number, copy.thread, copy.pc) +
            ": that thread has not waited for it (cp.async.wait_group, cp.async.wait_all)",
        access.pc, access.address);
  }
}

void Checker::copy_starts(Worker& worker, std::uintptr_t address, std::uint32_t bytes,
                          std::uintptr_t pc) {
  if (!checks(kRace)) return;
  const std::uint32_t thread = worker.current().thread.linear;
  CheckedBlock& block = of(*worker.current().block);
  block.copies.push_back({address, bytes, thread, block.threads[thread].copy_groups, pc});
}

void Checker::copies_commit(Worker& worker) {
  ++of(*worker.current().block).threads[worker.current().thread.linear].copy_groups;
}

void Checker::copies_wait(Worker& worker, std::uint32_t groups) {
  const std::uint32_t thread = worker.current().thread.linear;
  CheckedBlock& block = of(*worker.current().block);
  const std::uint64_t committed = block.threads[thread].copy_groups;
  std::erase_if(block.copies, [&](const CheckedBlock::Copy& copy) {
    return copy.thread == thread &&
           (groups == kAllCopies || std::uint64_t{copy.group} + groups < committed);
  });
}

void Checker::fence(Worker& worker) {
  of(*worker.current().block).threads[worker.current().thread.linear].fenced = true;
}

void Checker::synchronizes(Worker& worker, std::uintptr_t address) {
  CheckedBlock& block = of(*worker.current().block);
  auto& released = released_[address];
  for (const auto& [other, time] : released)
    block.known[other] = std::max(block.known[other], time);
  for (const auto& [other, time] : block.known) released[other] = std::max(released[other], time);
  released[block.number] = ++now_;
  block.threads[worker.current().thread.linear].released = now_;
}

// ---- synchronization of threads ----

void Checker::barrier_arrives(Worker& worker, const void* pc) {
  of(*worker.current().block).threads[worker.current().thread.linear].barrier = pc;
}

void Checker::barrier_completes(Worker& worker, Block& block, const std::vector<Fiber*>& waiters,
                                bool whole_block) {
  CheckedBlock& checked = of(block);
  ++now_;
  for (const Fiber* fiber : waiters) checked.threads[fiber->thread.linear].block_floor = now_;
  if (!checks(kSync) || !whole_block) return;
  const auto pc_of = [&](const Fiber* fiber) {
    return checked.threads[fiber->thread.linear].barrier;
  };
  const auto line = [&](const void* pc) {
    const Code& code = worker.code();
    return code.line_of && pc ? code.line_of(reinterpret_cast<std::uintptr_t>(pc) - 1)
                              : std::string{};
  };
  std::vector<const Fiber*> first((block.context.block_threads + 31) / 32);
  for (const Fiber* fiber : waiters) {
    const Fiber*& of_warp = first[fiber->thread.linear / 32];
    if (!of_warp) of_warp = fiber;
    if (pc_of(of_warp) == pc_of(fiber)) continue;
    const std::string here = line(pc_of(fiber)), there = line(pc_of(of_warp));
    if (here.empty() || here == there) continue;  // one barrier of the source may be compiled twice
    char text[200];
    std::snprintf(text, sizeof text,
                  "threads %u and %u of one warp wait for each other at different barriers%s%s%s%s",
                  of_warp->thread.linear, fiber->thread.linear, here.empty() ? "" : ": ",
                  there.c_str(), here.empty() ? "" : " and ", here.c_str());
    return report(worker, kSync, 719, "divergent barrier", text,
                  reinterpret_cast<std::uintptr_t>(pc_of(fiber)) - 1);
  }
  if (waiters.size() < block.context.block_threads && !waiters.empty()) {
    std::uint32_t gone = 0;
    std::vector<bool> here(block.context.block_threads);
    for (const Fiber* fiber : waiters) here[fiber->thread.linear] = true;
    while (here[gone]) ++gone;
    char text[160];
    std::snprintf(
        text, sizeof text,
        "a barrier of the whole block was reached by %zu of %u threads; thread %u had exited",
        waiters.size(), block.context.block_threads, gone);
    report(worker, kSync, 719, "barrier without exited threads", text,
           reinterpret_cast<std::uintptr_t>(pc_of(waiters.front())) - 1);
  }
}

void Checker::warp_arrives(Worker& worker, std::uint32_t mask, const void* pc) {
  if (!checks(kSync)) return;
  const Fiber& self = worker.current();
  const std::uint32_t lane = self.thread.linear % 32, w = self.thread.linear / 32;
  char text[160];
  if ((mask >> lane & 1) == 0) {
    std::snprintf(text, sizeof text,
                  "lane %u takes part in a warp operation whose mask 0x%08x does not name it", lane,
                  mask);
    return report(worker, kSync, 719, "wrong warp mask", text,
                  reinterpret_cast<std::uintptr_t>(pc) - 1);
  }
  std::uint32_t exited = 0;
  const std::uint32_t threads = self.block->context.block_threads;
  for (std::uint32_t l = 0; l < 32 && w * 32 + l < threads; ++l)
    if (self.block->fibers[w * 32 + l].wait == Wait::kDone) exited |= 1U << l;
  if ((mask & exited) == 0) return;
  std::snprintf(text, sizeof text,
                "the mask 0x%08x of a warp operation names lanes that have exited: 0x%08x", mask,
                mask & exited);
  report(worker, kSync, 719, "wrong warp mask", text, reinterpret_cast<std::uintptr_t>(pc) - 1);
}

void Checker::warp_completes(Block& block, std::uint32_t warp, std::uint32_t lanes) {
  CheckedBlock& checked = of(block);
  ++now_;
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1) != 0) checked.threads[warp * 32 + lane].warp_floor = now_;
}

void Checker::cluster_barrier_completes(Cluster& cluster) {
  ++now_;
  for (const Block* block : cluster.blocks) {
    CheckedBlock& checked = of(*block);
    for (CheckedBlock::Thread& thread : checked.threads) thread.block_floor = now_;
    for (const Block* other : cluster.blocks) checked.known[of(*other).number] = now_;
  }
}

}  // namespace cucpu
