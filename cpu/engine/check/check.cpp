// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/check.cpp: the memory of an access, out-of-bounds accesses, and reports.
#include "cpu/engine/check/check.hpp"

#include <algorithm>
#include <cstdio>

#include "cpu/engine/check/memory.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

using namespace check;

namespace {

std::string format(const char* text, auto... values) {
  char buffer[320];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

}  // namespace

std::size_t shared_end(const BlockContext& context) {
  const std::size_t fixed = context.shared_bytes - context.dynamic_shared_bytes;
  return context.dynamic_shared_bytes == 0
             ? fixed
             : (fixed + 127) / 128 * 128 + context.dynamic_shared_bytes;
}

bool (*g_device_heap_contains)(std::uintptr_t) = nullptr;

void Checker::block_starts(Worker& worker, Block& block) {
  const BlockContext& c = block.context;
  progress_.blocks_start(worker, 1, std::uint64_t{c.grid[0]} * c.grid[1] * c.grid[2]);
  CheckedBlock& checked = blocks_[&block];
  checked = CheckedBlock{};
  checked.number = block_number(c);
  checked.threads.resize(c.block_threads);
  const std::size_t bytes = c.reserved_shared_offset + kReservedSharedBytes;
  if (checks(kRace)) checked.shared.resize(bytes / 4 + 2);
  if (checks(kRace) && !std::exchange(has_started_, true)) {
    operation_ = operations::of_launch();
    if (operation_) operation_->name = "kernel " + worker.grid().code().kernel;
  }
  if (checks(kInit)) checked.written = std::make_unique<InitializedBytes>(bytes + 16);
}

Checker::Where Checker::locate(Worker& worker, std::uintptr_t address, std::uint32_t flags) {
  Block& block = *worker.current().block;
  Where where;
  const auto inside = [&](const Block& owner) {
    const BlockContext& c = owner.context;
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(c.shared);
    if (offset >= c.reserved_shared_offset + kReservedSharedBytes) return false;
    where = {Where::kShared, &of(owner), offset, shared_end(c)};
    return true;
  };
  if ((flags & (kLocalSpace | kGlobalSpace)) == 0) {
    if (inside(block)) return where;
    for (const Block* other : block.cluster->blocks)
      if (inside(*other)) return where;
    if ((flags & kSharedSpace) != 0)
      return {Where::kShared, nullptr,
              address - reinterpret_cast<std::uintptr_t>(block.context.shared),
              shared_end(block.context)};
  }
  const Stack& stack = worker.current().stack;
  if ((flags & kLocalSpace) != 0 ||
      address - reinterpret_cast<std::uintptr_t>(stack.base) < stack.size)
    where.kind = Where::kLocal;
  return where;
}

void Checker::access(Worker& worker, const CheckedAccess& access) {
  ++now_;
  const Where where = locate(worker, access.address, access.flags);
  const bool image = (access.flags & kImage) != 0;
  if (image && is_outside_surface(access.address)) return;
  if (checks(kMemory) && !image) check_memory(worker, access, where);
  if (checks(kInit)) check_init(worker, access, where);
  if (checks(kRace) && where.kind != Where::kLocal) check_race(worker, access, where);
}

std::optional<std::pair<const char*, std::string>> check_shared(const BlockContext& c,
                                                                std::size_t offset,
                                                                std::size_t bytes) {
  const bool reserved = offset >= c.reserved_shared_offset &&
                        offset < c.reserved_shared_offset + kReservedSharedBytes;
  if (reserved || (offset < shared_end(c) && offset + bytes <= shared_end(c))) return std::nullopt;
  return std::pair{"out-of-bounds access",
                   format("at offset %zu of shared memory, where the block has %u bytes", offset,
                          c.shared_bytes)};
}

std::optional<std::pair<const char*, std::string>> check_variable(std::uint64_t offset,
                                                                  std::size_t bytes,
                                                                  std::uint64_t variable_offset,
                                                                  std::uint64_t variable_bytes) {
  const std::uint64_t from = offset - variable_offset;
  if (from < variable_bytes && bytes <= variable_bytes - from) return std::nullopt;
  const auto distance = static_cast<long long>(from);
  return std::pair{"out-of-bounds access",
                   format("at byte %lld of a shared variable of %llu bytes (offset %llu of shared "
                          "memory)",
                          distance, static_cast<unsigned long long>(variable_bytes),
                          static_cast<unsigned long long>(offset))};
}

std::optional<std::pair<const char*, std::string>> check_global(const BlockContext& c,
                                                                std::uintptr_t address,
                                                                std::size_t bytes,
                                                                std::uint64_t root) {
  const auto own = [&](const void* base, std::size_t size) {
    return address - reinterpret_cast<std::uintptr_t>(base) < size;
  };
  if (own(c.params, 32768) || own(c.grid_workspace, 64) || !hooks().find_allocation)
    return std::nullopt;
  const auto found = hooks().find_allocation(address);
  if (!found) {
    if (g_device_heap_contains && g_device_heap_contains(address)) return std::nullopt;
    std::string nearest = hooks().describe_address ? hooks().describe_address(address) : "";
    const bool freed = nearest.find("freed") != std::string::npos;
    return std::pair{freed ? "use after free" : "out-of-bounds access", std::move(nearest)};
  }
  if (address + bytes > found->base + found->size)
    return std::pair{"out-of-bounds access",
                     format("that begins inside and ends past the %zu-byte allocation at 0x%llx",
                            found->size, static_cast<unsigned long long>(found->base))};
  if (root == 0 || root - found->base < found->size) return std::nullopt;
  const auto meant = hooks().find_allocation(root);
  // A pointer to one past the end may also be the start of another allocation: then nothing follows
  // from it.
  if (!meant || meant->id == found->id || (root == meant->base && address < root))
    return std::nullopt;
  return std::pair{
      "out-of-bounds access",
      format("in the %zu-byte allocation at 0x%llx, but counted from a parameter that points into "
             "the %zu-byte allocation at 0x%llx",
             found->size, static_cast<unsigned long long>(found->base), meant->size,
             static_cast<unsigned long long>(meant->base))};
}

void Checker::variable(Worker& worker, const CheckedAccess& access, std::uint64_t offset,
                       std::uint64_t size) {
  const auto shared = reinterpret_cast<std::uintptr_t>(worker.current().block->context.shared);
  if (const auto found = check_variable(access.address - shared, access.bytes, offset, size))
    report(worker, kMemory, 700, found->first,
           format("%u-byte %s ", access.bytes, verb_of(access.flags)) + found->second, access.pc,
           access.address);
}

void Checker::check_memory(Worker& worker, const CheckedAccess& access, const Where& where) {
  const auto tell = [&](const char* name, const std::string& text) {
    report(worker, kMemory, 700, name,
           format("%u-byte %s ", access.bytes, verb_of(access.flags)) + text, access.pc,
           access.address);
  };
  const BlockContext& c = worker.current().block->context;
  if (where.kind == Where::kLocal) {
    auto at = locals_.upper_bound(access.address);
    if (at == locals_.begin()) return;
    --at;
    const std::size_t offset = access.address - at->first;
    if (offset < at->second.bytes && offset + access.bytes > at->second.bytes)
      tell("out-of-bounds access",
           format("past the end of a local array of %zu bytes", at->second.bytes));
    else if (offset >= at->second.bytes && (access.flags & kLocalSpace) != 0)
      tell("out-of-bounds access", format("%zu bytes after a local array of %zu bytes",
                                          offset - at->second.bytes, at->second.bytes));
    return;
  }
  const auto found = where.kind == Where::kShared
                         ? check_shared(c, where.offset, access.bytes)
                         : check_global(c, access.address, access.bytes, access.root);
  if (found) tell(found->first, found->second);
}

std::string name_of_thread(Worker& worker, std::uint64_t b, std::uint32_t t, std::uintptr_t pc) {
  const BlockContext& c = worker.current().block->context;
  std::string text = format("thread (%u, %u, %u)", t % c.block[0], t / c.block[0] % c.block[1],
                            t / (c.block[0] * c.block[1]));
  text += format(" of block (%llu, %llu, %llu)", static_cast<unsigned long long>(b % c.grid[0]),
                 static_cast<unsigned long long>(b / c.grid[0] % c.grid[1]),
                 static_cast<unsigned long long>(b / (std::uint64_t{c.grid[0]} * c.grid[1])));
  const Code& code = worker.code();
  const std::string line = code.line_of ? code.line_of(pc) : "";
  return line.empty() ? text : text + " at " + line;
}

std::uint64_t block_number(const BlockContext& c) {
  return c.index[0] +
         std::uint64_t{c.grid[0]} * (c.index[1] + std::uint64_t{c.grid[1]} * c.index[2]);
}

void Checker::report(Worker& worker, Kind kind, int code, const char* name, std::string text,
                     std::uintptr_t pc, std::uintptr_t address) {
  findings_.report(worker, {kind, code, name, std::move(text), pc, address});
}

void Checker::local(std::uintptr_t address, std::size_t bytes) {
  // Earlier variables at these addresses have ended.
  auto at = locals_.lower_bound(address);
  if (at != locals_.begin())
    if (auto before = std::prev(at); before->first + before->second.bytes > address) at = before;
  while (at != locals_.end() && at->first < address + bytes) at = locals_.erase(at);
  locals_[address] = {bytes, checks(kInit) ? std::make_unique<InitializedBytes>(bytes) : nullptr};
}

}  // namespace cucpu

// ---- routines that instrumented code calls ----

using namespace cucpu;

/// The checker of the running grid; null if it runs without check mode. No other class observes
/// grids.
static Checker* checker_of(Worker& worker) {
  return static_cast<Checker*>(worker.grid().observer());
}

extern "C" {

void cucpu_rt_check(std::uint64_t address, std::uint32_t bytes, std::uint32_t flags,
                    std::uint64_t value, std::uint64_t root) {
  Worker& worker = *Worker::running();
  Checker* const checker = checker_of(worker);
  if (!checker || bytes == 0) return;
  checker->access(worker, {address, bytes, flags, value, root,
                           reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1});
  if (worker.current_fault().code != 0) worker.abandon();
}

void cucpu_rt_check_variable(std::uint64_t address, std::uint32_t bytes, std::uint32_t flags,
                             std::uint64_t offset, std::uint64_t size) {
  Worker& worker = *Worker::running();
  Checker* const checker = checker_of(worker);
  if (!checker || !checker->checks(kMemory) || bytes == 0) return;
  checker->variable(worker,
                    {address, bytes, flags, 0, 0,
                     reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1},
                    offset, size);
  if (worker.current_fault().code != 0) worker.abandon();
}

void cucpu_rt_check_local(std::uint64_t address, std::uint64_t bytes) {
  if (Checker* const checker = checker_of(*Worker::running())) checker->local(address, bytes);
}

void cucpu_rt_check_copy(std::uint64_t address, std::uint32_t bytes) {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker))
    checker->copy_starts(worker, address, bytes,
                         reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1);
}

void cucpu_rt_check_copy_commit() {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker)) checker->copies_commit(worker);
}

void cucpu_rt_check_copy_wait(std::uint32_t groups) {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker)) checker->copies_wait(worker, groups);
}

void cucpu_rt_check_fence() {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker)) checker->fence(worker);
}

void cucpu_rt_check_sync(std::uint64_t address) {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker)) checker->synchronizes(worker, address);
}

void cucpu_rt_check_writes(std::uint64_t address, std::uint64_t bytes) {
  Worker& worker = *Worker::running();
  if (Checker* const checker = checker_of(worker)) checker->writes(worker, address, bytes);
}

}  // extern "C"
