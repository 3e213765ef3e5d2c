// SPDX-License-Identifier: Apache-2.0
// Operations of streams and graph nodes.
#include "cpu/exec/ops.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/check/operations.hpp"
#include "cpu/engine/engine.hpp"
#include "cpu/exec/callback.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/polling_run.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "cpu/mem/allocation.hpp"
#include "protection.hpp"

namespace cucpu::driver {

constinit thread_local bool t_in_callback = false;

namespace {

/// While a worker runs a function of the program: another worker takes its place, and CUDA calls
/// fail.
class CallbackScope {
 public:
  CallbackScope() {
    ThreadPool::instance().enter_blocking();
    t_in_callback = CUCORE_PROTECTION("callback-may-not-call-driver");
  }
  ~CallbackScope() {
    t_in_callback = false;
    ThreadPool::instance().leave_blocking();
  }
};

std::string text_of(const char* format, auto... values) {
  char buffer[192];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// "64 bytes", "3 rows of 64 bytes", "2 slices of 3 rows of 64 bytes".
std::string extent_text(std::size_t width, std::size_t height, std::size_t depth) {
  std::string text = text_of("%zu bytes", width);
  if (height > 1 || depth > 1) text = text_of("%zu rows of ", height) + text;
  if (depth > 1) text = text_of("%zu slices of ", depth) + text;
  return text;
}

/// Race checks with operations of other streams. Throws if there is one.
void check_order(const char* first, std::size_t pitch, std::size_t row, std::size_t height,
                 bool writes, const std::string& name) {
  if (pitch == row && height > 1) row *= std::exchange(height, 1);
  for (std::size_t y = 0; y < height; ++y) {
    std::string report = operations::check_access(
        reinterpret_cast<std::uintptr_t>(first) + y * pitch, row, writes, name);
    if (!report.empty()) throw IllegalAddress{{CUDA_ERROR_LAUNCH_FAILED}, std::move(report)};
  }
}

struct Extent {
  std::size_t width, height, depth;  ///< width in bytes
};

/// Init checks: these rows are initialized.
void note_written(const char* first, Extent box, std::size_t pitch, std::size_t slice) {
  if ((check::kinds_in_environment() & check::kInit) == 0) return;
  if (pitch == box.width) box.width *= std::exchange(box.height, 1);
  if (box.height == 1 && slice == box.width) box.width *= std::exchange(box.depth, 1);
  for (std::size_t z = 0; z < box.depth; ++z)
    for (std::size_t y = 0; y < box.height; ++y)
      check_host_write(reinterpret_cast<std::uintptr_t>(first) + z * slice + y * pitch, box.width);
}

template <class T>
void fill_row(char* row, T value, std::size_t count) {
  std::fill_n(reinterpret_cast<T*>(row), count, value);
}

/// A load before the atomic access: the thread sanitizer performs atomic accesses while it holds a
/// lock, which a fault would leave locked, so unmapped memory must fault earlier.
template <class T>
__attribute__((no_sanitize("thread"))) std::atomic_ref<T> word(CUdeviceptr address) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(*reinterpret_cast<const volatile T*>(address));
#endif
  return std::atomic_ref<T>{*reinterpret_cast<T*>(address)};
}

template <class T>
bool satisfied(T now, T wanted, unsigned flags) {
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(now - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & wanted) != 0;
    default:
      return static_cast<T>(~(now | wanted)) != 0;  // NOR
  }
}

bool is_satisfied(const CUstreamBatchMemOpParams& op) {
  const auto& wait = op.waitValue;
  bool result = false;
  access_memory(
      [&] {
        result = op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64
                     ? satisfied<std::uint64_t>(word<std::uint64_t>(wait.address).load(),
                                                wait.value64, wait.flags)
                     : satisfied<std::uint32_t>(word<std::uint32_t>(wait.address).load(),
                                                wait.value, wait.flags);
      },
      [&] { return text_of("a stream's wait for a value at 0x%llx", wait.address); });
  return result;
}

template <class T>
void reduce(CUdeviceptr address, T value, CUstreamAtomicReductionOpType op) {
  switch (op) {
    case CU_STREAM_ATOMIC_REDUCTION_OP_OR:
      word<T>(address).fetch_or(value);
      break;
    case CU_STREAM_ATOMIC_REDUCTION_OP_AND:
      word<T>(address).fetch_and(value);
      break;
    default:
      word<T>(address).fetch_add(value);
      break;
  }
}

void write(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      word<std::uint32_t>(op.writeValue.address).store(op.writeValue.value);
      break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      word<std::uint64_t>(op.writeValue.address).store(op.writeValue.value64);
      break;
    case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
      if (op.atomicReduction.dataType == CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64)
        reduce<std::uint64_t>(op.atomicReduction.address, op.atomicReduction.value,
                              op.atomicReduction.reductionOp);
      else
        reduce<std::uint32_t>(op.atomicReduction.address,
                              static_cast<std::uint32_t>(op.atomicReduction.value),
                              op.atomicReduction.reductionOp);
      break;
    default:
      std::atomic_thread_fence(std::memory_order_seq_cst);
      break;
  }
}

void perform(const CUstreamBatchMemOpParams& op) {
  if (check::kinds_in_environment() != 0) [[unlikely]]
    check_host_write(op.writeValue.address, 8);
  access_memory([&] { write(op); },
                [&] { return text_of("a stream's write to 0x%llx", op.writeValue.address); });
}

/// The execution of one list of memory operations.
class MemoryOpsRun final : public PollingRun {
 public:
  MemoryOpsRun(Ref<MemoryOpsOp> op, Task& parent)
      : PollingRun{op->list.size(), parent}, op_{std::move(op)} {}

 private:
  std::function<bool()> step(std::size_t at) override {
    const auto& op = op_->list[at];
    if (op.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
        op.operation != CU_STREAM_MEM_OP_WAIT_VALUE_64) {
      perform(op);
      return {};
    }
    if (is_satisfied(op)) return {};
    return [&op] { return is_satisfied(op); };
  }

  Ref<MemoryOpsOp> op_;
};

/// Where the end of a copy is, in words.
using Place = trace::Work::Place;

Place place_of(CUmemorytype kind, const void* address) {
  if (kind == CU_MEMORYTYPE_ARRAY) return Place::array;
  const AllocationRef found = MemoryMap::instance().find(reinterpret_cast<std::uintptr_t>(address));
  const bool on_host =
      !found || found->kind == MemoryKind::host || found->kind == MemoryKind::registered;
  if (kind == CU_MEMORYTYPE_HOST || (on_host && kind != CU_MEMORYTYPE_DEVICE))
    return found && on_host ? Place::pinned : Place::pageable;
  if (kind == CU_MEMORYTYPE_DEVICE) return Place::device;
  return found->kind == MemoryKind::managed ? Place::managed : Place::device;
}

const char* name_of(Place place) {
  switch (place) {
    case Place::device:
      return "device";
    case Place::array:
      return "array";
    case Place::managed:
      return "managed";
    default:
      return "host";
  }
}

}  // namespace

trace::Label CopyOp::label() const {
  trace::Label label{"copy", "copy "};
  trace::Work& work = label.work;
  work.kind = trace::Work::Kind::copy;
  work.source = staged.empty() ? place_of(params.srcMemoryType, box.src) : Place::pageable;
  work.destination = place_of(params.dstMemoryType, box.dst);
  work.bytes = std::uint64_t{box.width} * box.height * box.depth;
  label.name.append(name_of(work.source)).append(" to ").append(name_of(work.destination));
  label.arguments.add("bytes", work.bytes);
  return label;
}

trace::Label FillOp::label() const {
  trace::Label label{"copy", "fill"};
  trace::Work& work = label.work;
  work.kind = trace::Work::Kind::fill;
  work.bytes = std::uint64_t{params.width} * params.elementSize * params.height;
  work.value = params.value;
  work.destination = place_of(CU_MEMORYTYPE_UNIFIED, reinterpret_cast<const void*>(params.dst));
  label.arguments.add("bytes", work.bytes);
  return label;
}

void BoxCopy::move() const {
  const bool rows_touch = (dst_pitch == width && src_pitch == width) || height == 1;
  const bool slices_touch =
      rows_touch && ((dst_slice == width * height && src_slice == width * height) || depth == 1);
  if (slices_touch) {
    std::memmove(dst, src, width * height * depth);
    return;
  }
  for (std::size_t z = 0; z < depth; ++z) {
    char* to = dst + z * dst_slice;
    const char* from = src + z * src_slice;
    if (rows_touch) {
      std::memmove(to, from, width * height);
      continue;
    }
    for (std::size_t y = 0; y < height; ++y)
      std::memmove(to + y * dst_pitch, from + y * src_pitch, width);
  }
}

void BoxCopy::execute() const {
  if (width == 0 || height == 0 || depth == 0) return;
  if (check::kinds_in_environment() != 0) [[unlikely]] {
    note_written(dst, {width, height, depth}, dst_pitch, dst_slice);
    const std::string name = "copy of " + extent_text(width, height, depth);
    for (std::size_t z = 0; operations::are_checked() && z < depth; ++z) {
      check_order(src + z * src_slice, src_pitch, width, height, false, name);
      check_order(dst + z * dst_slice, dst_pitch, width, height, true, name);
    }
  }
  access_memory([this] { move(); },
                [this] {
                  return "copy of " + extent_text(width, height, depth) +
                         text_of(" from 0x%llx to 0x%llx", reinterpret_cast<CUdeviceptr>(src),
                                 reinterpret_cast<CUdeviceptr>(dst));
                });
}

void FillOp::write() const {
  for (std::size_t y = 0; y < params.height; ++y) {
    char* row = reinterpret_cast<char*>(params.dst) + y * params.pitch;
    switch (params.elementSize) {
      case 1:
        std::memset(row, static_cast<int>(params.value & 0xff), params.width);
        break;
      case 2:
        fill_row(row, static_cast<std::uint16_t>(params.value), params.width);
        break;
      default:
        fill_row(row, static_cast<std::uint32_t>(params.value), params.width);
        break;
    }
  }
}

void FillOp::execute() const {
  if (params.width == 0) return;  // zero bytes; the address may be null
  const std::size_t row = params.width * params.elementSize;
  if (check::kinds_in_environment() != 0 && params.height > 0) [[unlikely]] {
    note_written(reinterpret_cast<const char*>(params.dst), {row, params.height, 1}, params.pitch,
                 0);
    check_order(reinterpret_cast<const char*>(params.dst), params.pitch, row, params.height, true,
                "fill of " + extent_text(row, params.height, 1));
  }
  access_memory([this] { write(); },
                [&] {
                  return "fill of " + extent_text(row, params.height, 1) +
                         text_of(" at 0x%llx", params.dst);
                });
}

Progress HostOp::run(Task&) {
  operations::host_joins_running();
  const CallbackScope scope;
  params.fn(params.userData);
  return Progress::done;
}

Progress CallbackOp::run(Task& task) {
  operations::host_joins_running();
  const CallbackScope scope;
  function_(stream_, task.context().error(), data_);
  return Progress::done;
}

Progress MemoryOpsOp::run(Task& task) {
  operations::disable();  // values in memory order operations of streams
  const auto run = make_object<MemoryOpsRun>(Ref<MemoryOpsOp>{this}, task);
  return run->advance() ? Progress::done : Progress::pending;
}

}  // namespace cucpu::driver
