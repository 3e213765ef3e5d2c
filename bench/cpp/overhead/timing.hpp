// timing.hpp: how a call is timed: many calls per sample, many samples; nanoseconds per call, as JSON on standard output.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

/// How many arguments the kernels k<n> take: a pointer, a float, an int and a double in turn. bench/python/ptx.py has the same.
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

class Suite {
 public:
  /// `drain` runs between samples, outside the clock (a sync, say).
  template <typename Call, typename Drain>
  void run(const std::string& name, Call call, Drain drain, int batch = 1000, int samples = 15) {
    for (int i = 0; i < std::min(batch, 50); ++i) call();
    drain();
    std::vector<double> result;
    for (int s = 0; s < samples; ++s) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < batch; ++i) call();
      const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
      result.push_back(spent.count() / batch);
      drain();
    }
    std::printf("%s\"%s\": [", first_ ? "{\"results\": {" : ", ", name.c_str());
    for (std::size_t i = 0; i < result.size(); ++i) std::printf("%s%.1f", i ? ", " : "", result[i]);
    std::printf("]");
    first_ = false;
  }
  template <typename Call>
  void run(const std::string& name, Call call, int batch = 1000) {
    run(name, call, [] {}, batch);
  }
  ~Suite() { std::printf("%s}, \"skipped\": {}}\n", first_ ? "{\"results\": {" : ""); }

 private:
  bool first_ = true;
};

}  // namespace bench
