// SPDX-License-Identifier: Apache-2.0
// timing.hpp: measures a call: many calls per sample, many samples. Prints nanoseconds per call as
// JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>
#ifdef CUCORE_BENCH_CALLGRIND
#include <valgrind/callgrind.h>
#endif

namespace bench {

/// Numbers of arguments of the kernels k<n> (pointer, float, int, double, repeated), as in
/// bench/python/ptx.py.
inline constexpr int kCounts[]{0, 3, 8, 16, 256};
inline constexpr float kFloat = 1;
inline constexpr int kInt = 2;
inline constexpr double kDouble = 3;

inline std::string ptx() {
  static constexpr const char* kKinds[]{".u64", ".f32", ".u32", ".f64"};
  std::string text = ".version 7.5\n.target sm_75\n.address_size 64\n";
  for (const int count : kCounts) {
    text += ".visible .entry k" + std::to_string(count) + "(";
    for (int i = 0; i < count; ++i)
      text += std::string(i ? ", " : "") + ".param " + kKinds[i % 4] + " p" + std::to_string(i);
    text += ") { ret; }\n";
  }
  return text;
}

/// The source to compile, and the path of NVRTC's library (set by bench/run.py); null: skips those
/// rows.
inline constexpr const char* kSource =
    "extern \"C\" __global__ void scale(float* p, float f, int n) { int i = threadIdx.x; if (i < "
    "n) "
    "p[i] *= f; }";
inline const char* nvrtc_library() { return std::getenv("CUCORE_BENCH_NVRTC"); }

/// Four additions in each of `chains` chains, `turns` times. An addition depends only on the
/// previous one of its chain: it takes one cycle, and the processor runs several chains in
/// parallel.
template <int chains>
inline void add(int turns) {
  std::uint64_t a[4]{1, 2, 3, 4};
  std::uint64_t step = 3;  // in a register: processors fold additions of constants
  asm volatile("" : "+r"(step));
  for (int i = 0; i < turns; ++i) {
    for (int step = 0; step < 4; ++step) {
      for (int c = 0; c < chains; ++c) {
        a[c] += step;
        asm volatile("" : "+r"(a[c]));
      }
    }
  }
}

class Suite;
/// If set, serve() calls this instead of measuring: least.cpp passes the calls to Python.
inline void (*hand_over)(Suite&) = nullptr;

/// Keeps the workers of the CPU device asleep (held_workers.cpp).
struct WorkerHold {
  void (*begin)();
  bool (*is_effective)();  ///< a worker would have been woken
  void (*end)();
};
inline const WorkerHold* worker_hold = nullptr;

/// A call that serve() passes on. A call that creates an object for another call has two parts; a
/// sequence has a third one, `call`, between them.
struct Row {
  std::string name;
  std::function<void()> call;
  std::function<std::uint64_t()> make;
  std::function<void(std::uint64_t)> take;
  std::function<void()> drain;
  int batch = 1;
  bool is_sequence = false;
};

/// Benchmarks by name; serve() measures one short batch per request of bench/run.py.
class Suite {
 public:
  /// `drain` (for example a sync) is not timed. Objects that the calls use must outlive serve().
  template <typename Call, typename Drain>
  void run(const std::string& name, Call call, Drain drain, int batch = 1000) {
    if (const char* names = std::getenv("CUCORE_BENCH_ROWS")) {
      count(name, names, call, drain);
      return;
    }
    for (int i = 0; i < std::min(batch, 50); ++i) call();
    drain();
    if (hand_over != nullptr) {
      rows_.push_back({name, call, {}, {}, drain, batch, false});
      return;
    }
    order_.push_back(name);
    calls_[name] = [=]() mutable {
      for (int i = 0; i < std::min(batch, 5); ++i) call();
      drain();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < batch; ++i) call();
      const std::chrono::duration<double, std::nano> spent =
          std::chrono::steady_clock::now() - start;
      drain();
      return spent.count() / batch;
    };
  }
  template <typename Call>
  void run(const std::string& name, Call call, int batch = 1000) {
    run(
        name, call, [] {}, batch);
  }

  /// A call that creates an object, and one that consumes it.
  template <typename Make, typename Take, typename Drain>
  void run_pair(const std::string& name, Make make, Take take, Drain drain, int batch) {
    run(
        name, [=] { take(make()); }, drain, batch);
    if (hand_over != nullptr) rows_.back().make = make, rows_.back().take = take;
  }

  /// A sequence of calls: one that begins, `count` steps, one that ends. From Python each is a call
  /// of its own, so `step` may differ from that of the C side: `from_python` makes what cuda.core
  /// makes.
  template <typename Begin, typename Step, typename FromPython, typename End, typename Drain>
  void run_steps(const std::string& name, Begin begin, int count, Step step, FromPython from_python,
                 End end, Drain drain, int batch) {
    run(
        name,
        [=] {
          begin();
          for (int n = 0; n < count; ++n) step();
          end();
        },
        drain, batch);
    if (hand_over == nullptr) return;
    rows_.back().call = from_python;
    rows_.back().make = [=] { return begin(), std::uint64_t{0}; };
    rows_.back().take = [=](std::uint64_t) { end(); };
    rows_.back().is_sequence = true;
  }

  [[nodiscard]] std::vector<Row>& rows() { return rows_; }  ///< for hand_over

  /// Under callgrind (bench/instructions.py --device): counts a hundred calls and the execution of
  /// what they queue, on the calling thread. `names` are the selected rows, each between commas.
  template <typename Call, typename Drain>
  static void count(const std::string& name, const char* names, Call call, Drain drain) {
#ifdef CALLGRIND_DUMP_STATS_AT
    if (std::string{names}.find("," + name + ",") == std::string::npos) return;
    if (worker_hold == nullptr) return;
    // The first turns start threads, warm caches and fill the calling thread's lists of free
    // memory. A turn in which a worker was awake is repeated; calls that need no worker are
    // repeated in vain.
    for (int turn = 0, alone = 0;; ++turn) {
      if (turn > 0) worker_hold->begin();
      CALLGRIND_DUMP_STATS_AT("(between)");
      for (int i = 0; i < 100; ++i) call();
      drain();
      alone = worker_hold->is_effective() ? alone + 1 : 0;
      const bool is_last = alone == 2 || turn == 6;
      if (is_last) CALLGRIND_DUMP_STATS_AT(name.c_str());
      if (turn > 0) worker_hold->end();
      if (is_last) break;
    }
#else
    (void)name, (void)names, (void)call, (void)drain;
#endif
  }

  /// Prints a line of JSON with all names, then reads names from standard input and prints
  /// nanoseconds, a line each.
  void serve() {
    if (hand_over != nullptr) return hand_over(*this);
    std::printf("{\"rows\": [");
    for (std::size_t i = 0; i < order_.size(); ++i)
      std::printf("%s\"%s\"", i ? ", " : "", order_[i].c_str());
    std::printf("], \"skipped\": {}}\n");
    std::fflush(stdout);
    for (std::string name; std::getline(std::cin, name);) {
      std::printf("%.1f\n", calls_.at(name)());
      std::fflush(stdout);
    }
  }

 private:
  std::vector<Row> rows_;
  std::vector<std::string> order_;
  std::map<std::string, std::function<double()>> calls_;
};

}  // namespace bench
