// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/link_memory_test.cpp: links that are refused memory harm no others.
#include <thread>

#include "failing_malloc.hpp"
#include "ir_fixture.hpp"

namespace cucpu::test {
namespace {

// promise: When the compiler runs out of memory, the result is error 2, and the next load works
TEST(LinkMemory, ThatOneThreadIsRefusedKeepsNoOtherWaiting) {
  const Compiled kernel{R"(define void @k() "cucpu.kernel" { ret void })"};
  const std::string wanted[] = {kEntry};
  const auto link = [&] {
    return LinkedCode::link(kernel.object.object, {}, wanted)->address(0) != nullptr;
  };
  long k = 0;
  for (long before = -1; before != g_failed; ++k) {
    before = g_failed;
    // All of the other's link, and its end, while this one stands at the allocation that fails.
    g_refusal = [&] { std::thread{[&] { EXPECT_TRUE(link()); }}.join(); };
    g_left = k;
    try {
      link();
    } catch (const std::bad_alloc&) {
      EXPECT_NE(before, g_failed);
    }
    g_left = -1;
    g_refusal = nullptr;
    ASSERT_TRUE(link()) << "after allocation " << k;
  }
  EXPECT_GT(k, 100) << "LLVM does not use this malloc: the test tests nothing";
}

}  // namespace
}  // namespace cucpu::test
