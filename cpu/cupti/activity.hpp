// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/activity.hpp: which kinds are enabled, and the records that wait for delivery.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {

/// The size of the records of a kind; 0 for kinds that have none here.
std::size_t record_size(CUpti_ActivityKind kind) noexcept;

/// Records are collected where work ends, which may be any thread of the driver. Buffers are
/// requested from the program and given back only on a host thread that calls CUPTI or leaves an
/// API function: a callback of a Python program must not make work wait for the interpreter.
class Activities {
 public:
  static Activities& instance();

  void enable(CUpti_ActivityKind kind, bool on);
  void enable_driver_function(std::uint32_t id, bool on);
  void enable_runtime_function(std::uint32_t id, bool on);
  [[nodiscard]] bool is_enabled(CUpti_ActivityKind kind) const noexcept {
    return kinds_[kind].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_recorded(bool is_runtime, std::uint32_t id) const noexcept;
  [[nodiscard]] bool any_enabled() const noexcept;

  void set_callbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
  void set_period(std::chrono::milliseconds period) { period_ = period; }

  /// `record` begins with its kind. It is dropped if there is no memory for it.
  template <class Record>
  void add(const Record& record) noexcept {
    add_bytes(&record, sizeof record);
  }
  /// Gives all records to the program.
  void deliver();
  /// The same, if there are many or if the period is over.
  void deliver_if_due();
  [[nodiscard]] std::size_t take_dropped() noexcept { return dropped_.exchange(0); }

 private:
  void add_bytes(const void* record, std::size_t bytes) noexcept;
  static constexpr std::size_t kMostPending = std::size_t{256} << 20;  ///< bytes
  static constexpr std::size_t kMany = std::size_t{1} << 20;
  static constexpr std::size_t kDriverIds = CUPTI_DRIVER_TRACE_CBID_SIZE;
  static constexpr std::size_t kRuntimeIds = CUPTI_RUNTIME_TRACE_CBID_SIZE;

  std::array<std::atomic<bool>, CUPTI_ACTIVITY_KIND_COUNT> kinds_{};
  std::array<std::atomic<bool>, kDriverIds> driver_ids_{};
  std::array<std::atomic<bool>, kRuntimeIds> runtime_ids_{};
  std::atomic<std::size_t> dropped_{0};
  std::atomic<std::chrono::milliseconds> period_{};  ///< 0: none
  std::mutex mutex_;                                 ///< of all below
  std::vector<std::byte> pending_;
  std::atomic<std::size_t> pending_bytes_{0};
  std::chrono::steady_clock::time_point delivered_ = std::chrono::steady_clock::now();
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
};

}  // namespace cucpu::cupti
