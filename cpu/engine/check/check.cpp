// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/check.cpp: the memory of an access, out-of-bounds accesses, and reports.
#include "cpu/engine/check/check.hpp"

#include <algorithm>
#include <chrono>
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

const char* verb(std::uint32_t flags) {
  return (flags & kWrite) == 0 ? "read" : (flags & kRead) != 0 ? "atomic operation" : "write";
}

/// The end of the block's shared memory: dynamic memory starts at a rounded-up offset.
std::size_t shared_end(const BlockContext& context) {
  const std::size_t fixed = context.shared_bytes - context.dynamic_shared_bytes;
  return context.dynamic_shared_bytes == 0
             ? fixed
             : (fixed + 127) / 128 * 128 + context.dynamic_shared_bytes;
}

constexpr std::size_t kReservedBytes = 1024;

}  // namespace

bool (*g_device_heap_contains)(std::uintptr_t) = nullptr;

/// Checked kernels run on one thread and may take minutes: every ten seconds a line says how far
/// one is.
void Checker::show_progress(Worker& worker, const BlockContext& c) {
  constexpr std::chrono::seconds kInterval{10};
  const auto now = std::chrono::steady_clock::now();
  ++begun_;
  if (now - shown_ < kInterval) return;
  shown_ = now;
  const std::uint64_t all = std::uint64_t{c.grid[0]} * c.grid[1] * c.grid[2];
  std::fprintf(stderr, "cucore: check: kernel %s: %llu of %llu blocks (%.0f %%)\n",
               worker.grid().code().kernel.c_str(), static_cast<unsigned long long>(begun_ - 1),
               static_cast<unsigned long long>(all),
               100.0 * static_cast<double>(begun_ - 1) / static_cast<double>(all));
}

void Checker::block_starts(Worker& worker, Block& block) {
  show_progress(worker, block.context);
  CheckedBlock& checked = blocks_[&block];
  checked = CheckedBlock{};
  const BlockContext& c = block.context;
  checked.number =
      c.index[0] + std::uint64_t{c.grid[0]} * (c.index[1] + std::uint64_t{c.grid[1]} * c.index[2]);
  checked.threads.resize(c.block_threads);
  const std::size_t bytes = c.reserved_shared_offset + kReservedBytes;
  if (checks(kRace)) checked.shared.resize(bytes / 4 + 2);
  if (checks(kInit)) checked.written.resize(bytes + 16);
}

Checker::Where Checker::locate(Worker& worker, std::uintptr_t address, std::uint32_t flags) {
  Block& block = *worker.current().block;
  Where where;
  const auto inside = [&](const Block& owner) {
    const BlockContext& c = owner.context;
    const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(c.shared);
    if (offset >= c.reserved_shared_offset + kReservedBytes) return false;
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
  if (checks(kMemory)) check_memory(worker, access, where);
  if (checks(kInit)) check_init(worker, access, where);
  if (checks(kRace) && where.kind != Where::kLocal) check_race(worker, access, where);
}

void Checker::check_memory(Worker& worker, const CheckedAccess& access, const Where& where) {
  const auto tell = [&](const char* name, const std::string& text) {
    report(worker, kMemory, 700, name,
           format("%u-byte %s ", access.bytes, verb(access.flags)) + text, access.pc,
           access.address);
  };
  if (where.kind == Where::kShared) {
    const std::size_t end = where.offset + access.bytes;
    const BlockContext& c = worker.current().block->context;
    const bool reserved = where.offset >= c.reserved_shared_offset && where.owner;
    if ((!where.owner || end > where.size) && !reserved)
      tell("out-of-bounds access",
           format("at offset %zu of shared memory, where the block has %u bytes", where.offset,
                  c.shared_bytes));
    return;
  }
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
  const BlockContext& c = worker.current().block->context;
  const auto own = [&](const void* base, std::size_t bytes) {
    return access.address - reinterpret_cast<std::uintptr_t>(base) < bytes;
  };
  if (own(c.params, 32768) || own(c.grid_workspace, 64) || !hooks().find_allocation) return;
  const auto found = hooks().find_allocation(access.address);
  if (!found) {
    if (g_device_heap_contains && g_device_heap_contains(access.address)) return;
    const std::string nearest =
        hooks().describe_address ? hooks().describe_address(access.address) : "";
    const bool freed = nearest.find("freed") != std::string::npos;
    return tell(freed ? "use after free" : "out-of-bounds access", nearest);
  }
  if (access.address + access.bytes > found->base + found->size)
    return tell("out-of-bounds access",
                format("that begins inside and ends past the %zu-byte allocation at 0x%llx",
                       found->size, static_cast<unsigned long long>(found->base)));
  if (access.root == 0 || access.root - found->base < found->size) return;
  const auto meant = hooks().find_allocation(access.root);
  // A pointer to one past the end may also be the start of another allocation: then nothing follows
  // from it.
  if (!meant || meant->id == found->id ||
      (access.root == meant->base && access.address < access.root))
    return;
  tell("out-of-bounds access", format("in the %zu-byte allocation at 0x%llx, but counted from a "
                                      "parameter that points into the %zu-byte allocation "
                                      "at 0x%llx",
                                      found->size, static_cast<unsigned long long>(found->base),
                                      meant->size, static_cast<unsigned long long>(meant->base)));
}

std::string Checker::name_of(Worker& worker, const Touch& touch) const {
  const BlockContext& c = worker.current().block->context;
  const std::uint32_t t = touch.thread;
  const std::uint64_t b = touch.block;
  std::string text = format("thread (%u, %u, %u)", t % c.block[0], t / c.block[0] % c.block[1],
                            t / (c.block[0] * c.block[1]));
  text += format(" of block (%llu, %llu, %llu)", static_cast<unsigned long long>(b % c.grid[0]),
                 static_cast<unsigned long long>(b / c.grid[0] % c.grid[1]),
                 static_cast<unsigned long long>(b / (std::uint64_t{c.grid[0]} * c.grid[1])));
  const Code& code = worker.code();
  const std::string line = code.line_of ? code.line_of(touch.pc) : "";
  return line.empty() ? text : text + " at " + line;
}

void Checker::report(Worker& worker, Kind kind, int code, const char* name, std::string text,
                     std::uintptr_t pc, std::uintptr_t address) {
  if (worker.current_fault().code != 0) return;  // the first finding ends the thread
  const Code& kernel = worker.code();
  const std::string line = kernel.line_of && pc ? kernel.line_of(pc) : "";
  if (!options_->suppressions.empty() && options_->suppressed(kind, kernel.kernel, line)) return;
  FiberFault fault;
  fault.code = code;
  fault.name = name;
  fault.pc = pc;
  fault.address = address;
  fault.has_address = address != 0;
  fault.text = std::move(text);
  if (!options_->continues) {
    worker.current_fault() = std::move(fault);  // the caller leaves the fiber
    return;
  }
  constexpr std::size_t kMost = 100;  // different locations
  if (told_.size() >= kMost || !told_.insert({kind, pc, 0}).second) return;
  std::fprintf(stderr, "cucore: check: %s\n", worker.describe(fault).c_str());
}

void Checker::local(std::uintptr_t address, std::size_t bytes) {
  // Earlier variables at these addresses have ended.
  auto at = locals_.lower_bound(address);
  if (at != locals_.begin())
    if (auto before = std::prev(at); before->first + before->second.bytes > address) at = before;
  while (at != locals_.end() && at->first < address + bytes) at = locals_.erase(at);
  locals_[address] = {bytes, std::vector<bool>(checks(kInit) ? bytes : 0)};
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
  if (!checker) return;
  checker->access(worker, {address, bytes, flags, value, root,
                           reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1});
  if (worker.current_fault().code != 0) worker.abandon();
}

void cucpu_rt_check_local(std::uint64_t address, std::uint64_t bytes) {
  if (Checker* const checker = checker_of(*Worker::running())) checker->local(address, bytes);
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
