// SPDX-License-Identifier: Apache-2.0
// cpu/engine/pass_instrumentation.cpp
#include "cpu/engine/pass_instrumentation.hpp"

#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "cpu/engine/dump.hpp"

namespace cucpu {
namespace {

/// Processor time of this thread in milliseconds: other programs influence it least.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

void verify(const llvm::Module& module, const llvm::Function* function, const char* pass) {
  std::string text;
  llvm::raw_string_ostream out{text};
  if (function ? llvm::verifyFunction(*function, &out) : llvm::verifyModule(module, &out))
    throw InvalidCode{std::string{"invalid code after "} + pass + ": " + out.str()};
}

}  // namespace

PassInstrumentation::PassInstrumentation(const Settings& settings, std::string subject)
    : settings_{settings}, subject_{std::move(subject)}, last_{now()} {}

void PassInstrumentation::after(const char* pass, const llvm::Module& module,
                                const llvm::Function* function, bool verified) {
  const double before = std::exchange(last_, now());
  const auto same = [&](const Time& time) {
    return std::string_view{time.stage} == stage_ && std::string_view{time.pass} == pass;
  };
  auto found = std::find_if(times_.begin(), times_.end(), same);
  if (found == times_.end()) found = times_.insert(times_.end(), Time{stage_, pass, 0, 0});
  ++found->runs;
  found->milliseconds += last_ - before;
  ++passes_;
  if (std::find(settings_.dump_after.begin(), settings_.dump_after.end(), pass) !=
      settings_.dump_after.end()) {
    char number[8];
    std::snprintf(number, sizeof number, "%03u", passes_);
    dump(true, settings_, subject_ + "." + number + "." + pass + ".ll", module);
  }
  if (verified) verify(module, function, pass);
  last_ = now();
}

double PassInstrumentation::milliseconds(std::string_view stage) const {
  double sum = 0;
  for (const Time& time : times_)
    if (time.stage == stage) sum += time.milliseconds;
  return sum;
}

void PassInstrumentation::report_times() const {
  if (!settings_.times) return;
  double sum = 0;
  for (const Time& time : times_) sum += time.milliseconds;
  std::fprintf(stderr, "cucore: %s: %.2f ms in %u passes\n", subject_.c_str(), sum, passes_);
  for (const Time& time : times_)
    std::fprintf(stderr, "cucore: %s: %9.2f ms %3u x %s/%s\n", subject_.c_str(), time.milliseconds,
                 time.runs, time.stage, time.pass);
}

}  // namespace cucpu
