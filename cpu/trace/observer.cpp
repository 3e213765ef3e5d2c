// SPDX-License-Identifier: Apache-2.0
// cpu/trace/observer.cpp: which call has queued which work.
#include "cpu/trace/observer.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "cpu/trace/trace.hpp"

namespace cucpu::trace {
namespace {

std::atomic<const Observer*> g_observer{nullptr};
std::atomic<std::uint32_t> g_correlations{0};
thread_local const ApiCall* t_call = nullptr;  ///< the outermost call

struct Correlations {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::uint32_t> queued;  ///< by number
  std::unordered_map<std::uint64_t, std::uint32_t> graphs;  ///< that run, by stream
};

Correlations& correlations() {
  static Correlations& all = *new Correlations;  // host threads end after static destructors
  return all;
}

}  // namespace

bool observe(const Observer* observer) noexcept {
  if (observer && observer->size != sizeof(Observer)) return false;
  const Observer* expected = nullptr;
  if (!observer) {
    g_uses.fetch_and(~static_cast<unsigned>(kObserver));
    g_observer.store(nullptr);
    const std::lock_guard lock{correlations().mutex};
    correlations().queued.clear();
    return true;
  }
  if (!g_observer.compare_exchange_strong(expected, observer) && expected != observer) return false;
  g_uses.fetch_or(kObserver);
  return true;
}

bool begin_call(ApiCall& call) noexcept {
  const Observer* const observer = g_observer.load();
  if (!observer || t_call) return false;
  call.correlation = ++g_correlations;
  t_call = &call;
  observer->call_begins(call);
  return true;
}

void end_call(ApiCall& call) noexcept {
  if (const Observer* const observer = g_observer.load()) observer->call_ended(call);
  t_call = nullptr;
}

void note_queued(std::uint64_t number) noexcept try {
  if (!has(kObserver) || !t_call) return;
  const std::lock_guard lock{correlations().mutex};
  correlations().queued[number] = t_call->correlation;
} catch (...) {  // no memory: the work has no correlation
}

std::uint32_t start_work(std::uint64_t number, std::uint64_t stream, bool is_graph) noexcept try {
  if (!has(kObserver)) return 0;
  Correlations& all = correlations();
  const std::lock_guard lock{all.mutex};
  std::uint32_t correlation = 0;
  if (const auto queued = all.queued.find(number); number != 0 && queued != all.queued.end()) {
    correlation = queued->second;
    all.queued.erase(queued);
  } else if (const auto graph = all.graphs.find(stream); graph != all.graphs.end()) {
    correlation = graph->second;
  } else if (t_call) {
    correlation = t_call->correlation;
  }
  if (is_graph) all.graphs.try_emplace(stream, correlation);
  return correlation;
} catch (...) {
  return 0;
}

void end_work(const Work& work) noexcept {
  if (work.kind == Work::Kind::graph && !work.in_graph) {
    const std::lock_guard lock{correlations().mutex};
    correlations().graphs.erase(work.stream);
  }
  if (const Observer* const observer = g_observer.load()) observer->work_ended(work);
}

bool is_in_graph(std::uint64_t stream) noexcept {
  const std::lock_guard lock{correlations().mutex};
  return correlations().graphs.contains(stream);
}

}  // namespace cucpu::trace

extern "C" {

/// For cpu/cupti: `observer` is a cucpu::trace::Observer. 0: somebody else observes.
__attribute__((visibility("default"))) int cucoreObserve(const void* observer) {
  return cucpu::trace::observe(static_cast<const cucpu::trace::Observer*>(observer)) ? 1 : 0;
}

}  // extern "C"
