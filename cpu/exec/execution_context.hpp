// SPDX-License-Identifier: Apache-2.0
// cpu/exec/execution_context.hpp: the part of a context that queues and host threads use: its
// sticky error, its running grids, its share of the host's cores, and the streams that the legacy
// default stream waits for. cpu/device/context.hpp derives the whole context from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/base/object.hpp"

namespace cucpu::driver {

class GridRun;
class Stream;

class ExecutionContext : public Object {
 public:
  // -- errors
  [[nodiscard]] bool is_broken() const noexcept {
    return error_.load(std::memory_order_acquire) != CUDA_SUCCESS;
  }
  [[nodiscard]] CUresult error() const noexcept { return error_.load(std::memory_order_acquire); }
  /// Sets the sticky error. The first one stays until the context ends.
  void break_with(CUresult code, std::string report) noexcept;
  /// The same with the exception in flight, and its report if it has one. Call only inside a catch
  /// block.
  void break_with_current_exception() noexcept;

  // -- running grids
  void add_running(GridRun& run);
  void end_running(GridRun& run) noexcept;  ///< removes an ended grid and keeps its fault

  /// A green context's share of the host threads; 0: all of them.
  unsigned cores = 0;
  /// Host threads that run its grids now; counted only where `cores` is a limit.
  std::atomic<unsigned> workers{0};

  // -- what observers call it
  [[nodiscard]] virtual std::uint64_t number() const noexcept = 0;
  [[nodiscard]] virtual int ordinal() const noexcept = 0;  ///< of its device

  // -- implicit waits of the legacy default stream
  [[nodiscard]] virtual Stream& legacy_stream() const noexcept = 0;
  [[nodiscard]] virtual std::vector<Ref<Stream>> blocking_streams_with_work() const = 0;

 protected:
  void clear_error() noexcept { error_ = CUDA_SUCCESS; }
  void cancel_running(CUresult code) noexcept;

 private:
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  // On its own cache line: threads that run kernels write here, threads that launch them do not.
  alignas(64) std::mutex running_mutex_;
  std::vector<GridRun*> running_;
};

/// The report of the process's last kernel fault; empty when there was none.
std::string last_fault_report();

}  // namespace cucpu::driver
