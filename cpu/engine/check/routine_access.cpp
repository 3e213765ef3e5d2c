// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/routine_access.cpp
#include "cpu/engine/check/routine_access.hpp"

#include <utility>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/check/lane_checker.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

namespace {

std::uintptr_t pc_of(const void* return_address) {
  return reinterpret_cast<std::uintptr_t>(return_address) - 1;
}

/// The thread that block code runs a routine for (InstructionEmitter::set_current).
LaneAccess access_of_one(const BlockContext& c) {
  LaneAccess access{};
  access.lanes = 1;
  access.first_thread = c.current_thread;
  access.block_x = c.index[0];
  access.range = kCheckRanges;
  access.site = 0xffff;
  return access;
}

void report(Worker& worker, Finding finding) {
  if (worker.code().thread) {
    static_cast<Checker&>(*worker.grid().observer()).report(worker, std::move(finding));
  } else {
    BlockContext& c = worker.current().block->context;
    static_cast<LaneChecker&>(*worker.grid().observer())
        .report(worker, c, access_of_one(c), 0, std::move(finding));
  }
  if (worker.current_fault().code != 0) worker.abandon();
}

}  // namespace

bool is_checked_grid(unsigned kinds) {
  Worker* const worker = Worker::running();
  if (!worker || !worker->grid().observer()) return false;
  return worker->code().thread
             ? static_cast<Checker&>(*worker->grid().observer()).checks(kinds)
             : static_cast<LaneChecker&>(*worker->grid().observer()).checks(kinds);
}

void check_routine_access(const void* address, std::size_t bytes, unsigned flags, const void* pc) {
  Worker* const worker = Worker::running();
  if (!worker || !worker->grid().observer() || bytes == 0) return;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto size = static_cast<std::uint32_t>(bytes);
  if (worker->code().thread) {
    static_cast<Checker&>(*worker->grid().observer())
        .access(*worker, {at, size, flags, 0, 0, pc_of(pc)});
  } else {
    BlockContext& c = worker->current().block->context;
    auto& checker = static_cast<LaneChecker&>(*worker->grid().observer());
    LaneAccess access = access_of_one(c);
    access.address = at;
    access.bytes = size;
    access.flags = flags;
    access.site = checker.site_of_routine(pc_of(pc));
    checker.access(*worker, c, c.check_ranges, access, pc_of(pc));
  }
  if (worker->current_fault().code != 0) worker->abandon();
}

void report_from_routine(const char* name, std::string text, std::uintptr_t address,
                         const void* pc) {
  report(*Worker::running(), {kMemory, 700, name, std::move(text), pc_of(pc), address});
}

}  // namespace cucpu
