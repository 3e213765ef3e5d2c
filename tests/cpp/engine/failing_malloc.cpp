// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/failing_malloc.cpp
#include "failing_malloc.hpp"

#include <cerrno>
#include <cstddef>
#include <utility>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
}

namespace cucpu::test {

std::atomic<long> g_left{-1};
std::atomic<bool> g_for_good{false};
std::atomic<long> g_failed{0};
std::function<void()> g_refusal;

namespace {

bool refused() {
  if (g_left.load(std::memory_order_relaxed) < 0) return false;
  const long left = g_left.fetch_sub(1);
  if (left != 0) return false;
  if (g_for_good) g_left = 0;
  ++g_failed;
  if (const auto meanwhile = std::exchange(g_refusal, nullptr)) meanwhile();
  errno = ENOMEM;
  return true;
}

}  // namespace
}  // namespace cucpu::test

using cucpu::test::refused;

#define CUCORE_REPLACED extern "C" __attribute__((visibility("default"))) void*
CUCORE_REPLACED malloc(std::size_t n) { return refused() ? nullptr : __libc_malloc(n); }
CUCORE_REPLACED calloc(std::size_t n, std::size_t size) {
  return refused() ? nullptr : __libc_calloc(n, size);
}
CUCORE_REPLACED realloc(void* p, std::size_t n) {
  return refused() ? nullptr : __libc_realloc(p, n);
}
