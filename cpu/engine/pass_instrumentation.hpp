// SPDX-License-Identifier: Apache-2.0
// cpu/engine/pass_instrumentation.hpp: what happens around every pass: its time is measured
// (CUCORE_CPU_TIMES), its result is verified and dumped (CUCORE_CPU_DUMP=after:NAME).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/settings.hpp"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace cucpu {

/// A pass left code that LLVM's verifier rejects, or that uses values nothing computes. `what()`
/// names the pass.
class InvalidCode : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class PassInstrumentation {
 public:
  /// `subject` names the kernel in dumps and reports.
  PassInstrumentation(const Settings&, std::string subject);

  void begin_stage(const char* stage) { stage_ = stage; }

  /// After every pass. `verify`: checks `function`, or the module where that is null. Throws
  /// InvalidCode.
  void after(const char* pass, const llvm::Module&, const llvm::Function* function, bool verify);

  /// Processor time of all passes of a stage so far, in milliseconds.
  [[nodiscard]] double milliseconds(std::string_view stage) const;

  /// CUCORE_CPU_TIMES=1: a line for every pass, in the order of the first run, on standard error.
  void report_times() const;

 private:
  struct Time {
    const char *stage, *pass;
    unsigned runs;
    double milliseconds;
  };

  const Settings& settings_;
  const std::string subject_;
  const char* stage_ = "";
  unsigned passes_ = 0;
  double last_;
  std::vector<Time> times_;
};

}  // namespace cucpu
