// timing.hpp: how a call is timed: many calls per sample, many samples; nanoseconds per call, as
// JSON on standard output.
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

/// How many arguments the kernels k<n> take: a pointer, a float, an int and a double in turn.
/// bench/python/ptx.py has the same.
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

/// What is compiled, and NVRTC's library (bench/run.py says where it is); null: those rows are left
/// out.
inline constexpr const char* kSource =
    "extern \"C\" __global__ void scale(float* p, float f, int n) { int i = threadIdx.x; if (i < "
    "n) "
    "p[i] *= f; }";
inline const char* nvrtc_library() { return std::getenv("CUCORE_BENCH_NVRTC"); }

/// Four additions in each of `chains` chains, `turns` times over. An addition waits for the one
/// before it in its chain, nothing else: a cycle each, and as many chains at once as the processor
/// is wide.
template <int chains>
inline void add(int turns) {
  std::uint64_t a[4]{1, 2, 3, 4};
  std::uint64_t step = 3;  // from a register: processors see through constants
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
/// What serve() does instead of measuring where it is set: least.cpp hands the calls to Python.
inline void (*hand_over)(Suite&) = nullptr;

/// A call that serve() hands over. One that makes something which another call takes has two parts.
struct Row {
  std::string name;
  std::function<void()> call;
  std::function<std::uint64_t()> make;
  std::function<void(std::uint64_t)> take;
  std::function<void()> drain;
  int batch = 1;
};

/// Benchmarks by name, measured by serve(): one short batch at a time, as bench/run.py asks.
class Suite {
 public:
  /// `drain` runs outside the clock (a sync, say). What the calls refer to must live until serve()
  /// returns.
  template <typename Call, typename Drain>
  void run(const std::string& name, Call call, Drain drain, int batch = 1000) {
    if (const char* names = std::getenv("CUCORE_BENCH_ROWS")) {
      count(name, names, call, drain);
      return;
    }
    for (int i = 0; i < std::min(batch, 50); ++i) call();
    drain();
    if (hand_over != nullptr) {
      rows_.push_back({name, call, {}, {}, drain, batch});
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

  /// A call that makes something, and one that takes it.
  template <typename Make, typename Take, typename Drain>
  void run_pair(const std::string& name, Make make, Take take, Drain drain, int batch) {
    run(
        name, [=] { take(make()); }, drain, batch);
    if (hand_over != nullptr) rows_.back().make = make, rows_.back().take = take;
  }

  [[nodiscard]] std::vector<Row>& rows() { return rows_; }  ///< for hand_over

  /// Under callgrind (bench/instructions.py --device): what a hundred calls need, and the work they
  /// queue, on all threads. `names` are the rows wanted, each between commas.
  template <typename Call, typename Drain>
  static void count(const std::string& name, const char* names, Call call, Drain drain) {
#ifdef CALLGRIND_DUMP_STATS_AT
    if (std::string{names}.find("," + name + ",") == std::string::npos) return;
    for (int turn = 0; turn < 2; ++turn) {  // the first fills caches and starts threads
      CALLGRIND_DUMP_STATS_AT("(between)");
      for (int i = 0; i < 100; ++i) call();
      drain();
    }
    CALLGRIND_DUMP_STATS_AT(name.c_str());
#else
    (void)name, (void)names, (void)call, (void)drain;
#endif
  }

  /// Answers names on standard input with nanoseconds, a line each, after a first line of JSON with
  /// all names.
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
