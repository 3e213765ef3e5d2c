// What the thread sanitizer is not to report: programs of random calls copy and fill the same bytes
// from several streams at once, which is their race, not the driver's.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:cucpu::driver::BoxCopy::move\n"
         "race:cucpu::driver::FillOp::write\n";
}
