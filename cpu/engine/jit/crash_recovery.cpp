// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/crash_recovery.cpp
#include "cpu/engine/jit/crash_recovery.hpp"

#include <llvm/Support/ErrorHandling.h>

#include <cstdio>
#include <new>

#include "cpu/engine/run/crash_recovery.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

std::new_handler g_before = nullptr;

/// Outside of protected work the previous handler of the program runs, or the exception is thrown.
void no_memory() {
  raise_out_of_memory();
  if (g_before) return g_before();
  throw std::bad_alloc{};
}

bool install() {
  // Other users of the same LLVM in this process keep its behaviour: it ends the process when this
  // handler returns.
  llvm::install_fatal_error_handler([](void*, const char* reason, bool) {
    raise_crash(reason);
    std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
  });
  if (CUCORE_PROTECTION("llvm-out-of-memory"))
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) {
      raise_out_of_memory();
      throw std::bad_alloc{};
    });
  g_before = std::set_new_handler(&no_memory);
  return true;
}

}  // namespace

void with_crash_recovery(const std::function<void()>& work) {
  static const bool installed = install();
  static_cast<void>(installed);
  run_with_crash_recovery(work);
}

}  // namespace cucpu
