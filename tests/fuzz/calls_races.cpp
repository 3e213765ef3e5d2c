// SPDX-License-Identifier: Apache-2.0
// Suppressions of the thread sanitizer: random calls copy and set the same bytes from several
// streams concurrently, which is a race of the program, not of the driver.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:cucpu::driver::BoxCopy::move\n"
         "race:cucpu::driver::FillOp::write\n";
}
