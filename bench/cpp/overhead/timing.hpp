// timing.hpp: how a call is timed: many calls per sample, many samples; nanoseconds per call, as
// JSON on standard output.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>
#if __has_include(<valgrind/callgrind.h>)
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
  std::vector<std::string> order_;
  std::map<std::string, std::function<double()>> calls_;
};

}  // namespace bench
