// SPDX-License-Identifier: Apache-2.0
// tests/fault/driver.cpp: a driver library that fails on demand: every call goes to the CPU device,
// except the one that a test has named. Compiled by the tests themselves, against the installed
// headers.
#include "cucore/abi/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {

enum Row : int {
#define CUCORE_FN(name, ...) row_##name,
#include "cucore/driver_functions.inc"
#undef CUCORE_FN
  kRows
};

struct Function {
  const char *name, *entry;
  int since, per_thread_since;
  void* thunk;
  void* real = nullptr;
  std::atomic<long> calls{0};  // that succeeded
};

std::atomic<long> g_left{-1};  // calls until one fails; negative: none will
std::atomic<int> g_code{0};
std::atomic<const char*> g_failed{nullptr};
std::atomic<long> g_counted{0};
std::atomic<int> g_only{-1};  // the function that fails, or -1: any
std::atomic<int> g_then{-1};  // after that one, every call of this function fails as well
std::atomic<int> g_then_code{0};
std::atomic<long> g_then_failed{0};

Function& function(int row);

bool counts(int row) {  // asking for names and texts of errors is no call of interest
  return row != row_cuGetErrorName && row != row_cuGetErrorString && row != row_cuGetProcAddress &&
         row != row_cuInit && row != row_cuDriverGetVersion && row != row_cuDeviceGetCount;
}

/// The code a call fails with; 0 when it is to be made.
int must_fail(int row) {
  if (!counts(row)) return 0;
  g_counted.fetch_add(1);
  if (g_failed.load() != nullptr && g_then == row) {
    g_then_failed.fetch_add(1);
    return g_then_code;
  }
  if (g_only >= 0 && g_only != row) return 0;
  if (g_left.load() < 0 || g_left.fetch_sub(1) != 0) return 0;
  g_failed = function(row).name;
  return g_code;
}

template <int row, class Signature>
struct Thunk;
template <int row, class... Args>
struct Thunk<row, CUresult (*)(Args...)> {
  static CUresult call(Args... args) {
    if (const int wanted = must_fail(row); wanted != 0) return static_cast<CUresult>(wanted);
    const CUresult code = reinterpret_cast<CUresult (*)(Args...)>(function(row).real)(args...);
    if (code == CUDA_SUCCESS) function(row).calls.fetch_add(1);
    return code;
  }
};

Function g_functions[] = {
#define CUCORE_FN(name, entry, since, per_thread_since) \
  {#name, entry, since, per_thread_since,               \
   reinterpret_cast<void*>(&Thunk<row_##name, decltype(&::name)>::call)},
#include "cucore/driver_functions.inc"
#undef CUCORE_FN
};

Function& function(int row) { return g_functions[row]; }

void* library() {
  static void* const handle = dlopen(std::getenv("CUCORE_FAULTY_REAL"), RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class F>
F real(const char* symbol) {
  return reinterpret_cast<F>(dlsym(library(), symbol));
}

}  // namespace

#undef cuGetProcAddress
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT CUresult cuInit(unsigned flags) { return real<CUresult (*)(unsigned)>("cuInit")(flags); }
EXPORT CUresult cuDeviceGetCount(int* out) {
  return real<CUresult (*)(int*)>("cuDeviceGetCount")(out);
}
EXPORT const char* cucoreGetLastFaultReport() {
  return real<const char* (*)()>("cucoreGetLastFaultReport")();
}

EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult* status) {
  using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const CUresult code = real<Find>("cuGetProcAddress_v2")(symbol, out, version, flags, status);
  if (code != CUDA_SUCCESS || *out == nullptr) return code;
  for (Function& f : g_functions) {
    if (std::strcmp(f.entry, symbol) != 0 || (f.since != version && f.per_thread_since != version))
      continue;
    f.real = *out;
    *out = f.thunk;
    break;
  }
  return code;
}

static int row_of(const char* name) {
  for (int row = 0; name != nullptr && row < kRows; ++row)
    if (std::strcmp(g_functions[row].name, name) == 0) return row;
  return -1;
}

/// The call after `skip` others fails with `code`; `name` limits that to one function (null: any).
EXPORT void faulty_arm(long skip, int code, const char* name) {
  g_only = row_of(name);
  g_failed = nullptr;
  g_then = -1;
  g_code = code;
  g_left = skip;
}
/// Once that has failed, every call of `name` fails with `code`, until disarmed. Cleaning up is
/// what comes after.
EXPORT void faulty_then(const char* name, int code) {
  g_then_failed = 0;
  g_then_code = code;
  g_then = row_of(name);
}
EXPORT long faulty_then_failed() { return g_then_failed; }
/// The function that failed since faulty_arm, or null.
EXPORT const char* faulty_failed() { return g_failed; }
EXPORT void faulty_disarm() {
  g_left = -1;
  g_then = -1;
}
/// Calls so far, and those of one function that succeeded.
EXPORT long faulty_count() { return g_counted; }
EXPORT long faulty_calls(const char* name) {
  const int row = row_of(name);
  return row < 0 ? -1 : g_functions[row].calls.load();
}
