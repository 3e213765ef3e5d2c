// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/activity.cpp: the activity API.
#include "cpu/cupti/activity.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "cpu/cupti/records.hpp"

namespace cucpu::cupti {
namespace {

thread_local bool t_delivers = false;  ///< in a callback of the program

/// Kinds that count events of hardware, which there are none of.
bool needs_hardware(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EVENT:
    case CUPTI_ACTIVITY_KIND_METRIC:
    case CUPTI_ACTIVITY_KIND_EVENT_INSTANCE:
    case CUPTI_ACTIVITY_KIND_METRIC_INSTANCE:
    case CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR:
    case CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS:
    case CUPTI_ACTIVITY_KIND_SHARED_ACCESS:
    case CUPTI_ACTIVITY_KIND_BRANCH:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION:
    case CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING:
    case CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO:
    case CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT:
    case CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT_INSTANCE:
    case CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC:
    case CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC_INSTANCE:
      return true;
    default:
      return false;
  }
}

void require_kind(CUpti_ActivityKind kind) {
  require(kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT,
          CUPTI_ERROR_INVALID_KIND);
  require(!needs_hardware(kind), CUPTI_ERROR_NOT_SUPPORTED);
}

CUpti_ActivityKind kind_of(const std::byte* record) {
  CUpti_ActivityKind kind{};
  std::memcpy(&kind, record, sizeof kind);
  return kind;
}

/// The numbers that programs attach to the API calls of a thread.
using ExternalIds = std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>>;
thread_local ExternalIds t_external;

void require_external(CUpti_ExternalCorrelationKind kind) {
  require(kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID &&
          kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE);
}

}  // namespace

Activities& Activities::instance() {
  static Activities& activities = *new Activities;  // threads of the driver end after exit()
  return activities;
}

void Activities::enable(CUpti_ActivityKind kind, bool on) {
  require_kind(kind);
  if (on) Driver::instance();
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER)
    for (auto& id : driver_ids_) id = on;
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
    for (auto& id : runtime_ids_) id = on;
  const bool was_on = kinds_[kind].exchange(on);
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE && on && !was_on) add_device_records();
  update_observation();
}

void Activities::enable_driver_function(std::uint32_t id, bool on) {
  require(id > 0 && id < kDriverIds);
  Driver::instance();
  driver_ids_[id] = on;
  update_observation();
}

void Activities::enable_runtime_function(std::uint32_t id, bool on) {
  require(id > 0 && id < kRuntimeIds);
  Driver::instance();
  runtime_ids_[id] = on;
  update_observation();
}

bool Activities::is_recorded(bool is_runtime, std::uint32_t id) const noexcept {
  if (is_runtime) return id < kRuntimeIds && runtime_ids_[id].load(std::memory_order_relaxed);
  return id < kDriverIds && driver_ids_[id].load(std::memory_order_relaxed);
}

bool Activities::any_enabled() const noexcept {
  const auto is_on = [](const std::atomic<bool>& on) { return on.load(); };
  return std::ranges::any_of(kinds_, is_on) || std::ranges::any_of(driver_ids_, is_on) ||
         std::ranges::any_of(runtime_ids_, is_on);
}

void Activities::set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete) {
  require(request && complete);
  const std::lock_guard lock{mutex_};
  request_ = request;
  complete_ = complete;
}

void Activities::add_bytes(const void* record, std::size_t bytes) noexcept try {
  const std::lock_guard lock{mutex_};
  if (pending_.size() + bytes > kMostPending) {
    ++dropped_;
    return;
  }
  const auto* const begin = static_cast<const std::byte*>(record);
  pending_.insert(pending_.end(), begin, begin + bytes);
  pending_bytes_.store(pending_.size(), std::memory_order_relaxed);
} catch (...) {  // no memory
  ++dropped_;
}

void Activities::deliver_if_due() {
  const std::size_t bytes = pending_bytes_.load(std::memory_order_relaxed);
  if (bytes == 0 || t_delivers) return;
  const std::chrono::milliseconds period = period_.load();
  if (bytes < kMany) {
    if (period.count() == 0) return;
    const std::lock_guard lock{mutex_};
    if (std::chrono::steady_clock::now() - delivered_ < period) return;
  }
  deliver();
}

void Activities::deliver() {
  if (t_delivers) return;
  std::vector<std::byte> records;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  {
    const std::lock_guard lock{mutex_};
    if (!request_) return;  // the program has not registered its callbacks yet
    records.swap(pending_);
    pending_bytes_.store(0, std::memory_order_relaxed);
    delivered_ = std::chrono::steady_clock::now();
    request = request_;
    complete = complete_;
  }
  t_delivers = true;
  std::size_t at = 0;
  while (at < records.size()) {
    std::uint8_t* buffer = nullptr;
    std::size_t room = 0, most = 0;
    request(&buffer, &room, &most);
    std::size_t filled = 0, count = 0;
    while (buffer && at < records.size() && (most == 0 || count < most)) {
      const std::size_t bytes = record_size(kind_of(&records[at]));
      if (filled + bytes > room) break;
      std::memcpy(buffer + filled, &records[at], bytes);
      filled += bytes, at += bytes, ++count;
    }
    if (buffer) complete(nullptr, 0, buffer, room, filled);
    if (count == 0) {  // no buffer, or one that is too small for a record
      for (; at < records.size(); at += record_size(kind_of(&records[at]))) ++dropped_;
    }
  }
  t_delivers = false;
}

void add_external_correlations(std::uint32_t correlation) {
  Activities& activities = Activities::instance();
  if (!activities.is_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  for (const auto& [kind, ids] : t_external) {
    if (ids.empty()) continue;
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = kind;
    record.externalId = ids.back();
    record.correlationId = correlation;
    activities.add(record);
  }
}

}  // namespace cucpu::cupti

using namespace cucpu::cupti;

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  return guarded([&] { Activities::instance().set_callbacks(request, complete); });
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return guarded([&] { Activities::instance().enable(kind, true); });
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return guarded([&] { Activities::instance().enable(kind, false); });
}

CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  return guarded([&] {
    Activities::instance().enable(kind, true);
    add_existing(kind);
  });
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, std::uint8_t enable) {
  return guarded([&] { Activities::instance().enable_driver_function(id, enable != 0); });
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, std::uint8_t enable) {
  return guarded([&] { Activities::instance().enable_runtime_function(id, enable != 0); });
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  return guarded([&] { Activities::instance().deliver(); });
}

CUptiResult cuptiActivityFlush(CUcontext, std::uint32_t, std::uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}

CUptiResult cuptiActivityFlushPeriod(std::uint32_t milliseconds) {
  return guarded(
      [&] { Activities::instance().set_period(std::chrono::milliseconds{milliseconds}); });
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  return guarded([&] {
    require(dropped != nullptr);
    *dropped = Activities::instance().take_dropped();
  });
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes,
                                       CUpti_Activity** record) {
  return guarded([&] {
    require(buffer && record);
    std::size_t at = 0;
    if (*record) {
      auto* const last = reinterpret_cast<std::uint8_t*>(*record);
      require(last >= buffer && last < buffer + bytes);
      const std::size_t size = record_size((*record)->kind);
      require(size != 0, CUPTI_ERROR_INVALID_KIND);
      at = static_cast<std::size_t>(last - buffer) + size;
    }
    require(at < bytes, CUPTI_ERROR_MAX_LIMIT_REACHED);
    *record = reinterpret_cast<CUpti_Activity*>(buffer + at);
  });
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   std::uint64_t id) {
  return guarded([&] {
    require_external(kind);
    t_external[kind].push_back(id);
  });
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  std::uint64_t* last) {
  return guarded([&] {
    require_external(kind);
    std::vector<std::uint64_t>& ids = t_external[kind];
    require(!ids.empty(), CUPTI_ERROR_QUEUE_EMPTY);
    if (last) *last = ids.back();
    ids.pop_back();
  });
}

}  // extern "C"
