// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/allocation_test.cpp: memory that LLVM or the engine does not get is an error of
// the load or of the launch, and the next one works.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ostream>
#include <thread>

#include "cpu/engine/run/detached_thread.hpp"
#include "failing_malloc.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

/// Calls a function by its address, so that there is more than one thing to compile and link.
const char* const kText = R"(
.func (.param .b32 y) f(.param .b32 x) {
  .reg .b32 %r<3>; ld.param.u32 %r0, [x]; mul.lo.u32 %r0, %r0, 3; st.param.b32 [y], %r0; ret;
}
.visible .global .u64 address = f;
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<3>; .shared .align 4 .b8 s[256];
  mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out];
  mul.wide.u32 %rd1, %r0, 4; add.u64 %rd0, %rd0, %rd1; ld.global.u64 %rd2, [address];
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %r0;
    P: .callprototype (.param .b32 _) _ (.param .b32 _); call (y), %rd2, (x), P;
    ld.param.u32 %r1, [y]; }
  mov.u32 %r2, s; mad.lo.u32 %r3, %r0, 4, %r2; st.shared.u32 [%r3], %r1; bar.sync 0;
  xor.b32 %r4, %r0, 1; mad.lo.u32 %r4, %r4, 4, %r2; ld.shared.u32 %r5, [%r4];
  st.global.u32 [%rd0], %r5; ret;
}
)";

bool g_in_use = false;  // something was compiled in this process, or tried to be

enum class Memory {
  enough,
  fails_once,
  fails_beside_another,  ///< once, and while it does another thread loads and runs the kernel
  is_gone
};

/// Loads and runs the kernel where memory fails after `k` allocations: the code it ends with. A run
/// that ends well has computed the right thing.
int run(Memory how, long k = -1) {
  g_in_use = true;
  TestMemory memory;
  std::vector<std::uint32_t> out(64);
  g_for_good = how == Memory::is_gone;
  if (how == Memory::fails_beside_another)
    g_refusal = [] { std::thread{[] { EXPECT_EQ(0, run(Memory::enough)); }}.join(); };
  g_left = how == Memory::enough ? -1 : k;
  int code = 0;
  try {
    const auto module = load(kText, memory);
    const Kernel& kernel = *module->find_kernel("k");
    std::uint32_t* const address = out.data();
    const auto launch =
        Launch::make(kernel, shape_of({1}, {64}), reinterpret_cast<const std::byte*>(&address));
    EXPECT_TRUE(launch->work());
    g_left = -1;
    g_refusal = nullptr;
    if (const Fault* fault = launch->fault()) code = fault->code;
  } catch (const LoadError& error) {
    g_left = -1;
    code = error.code;
  } catch (const std::bad_alloc&) {
    g_left = -1;
    code = 2;
  }
  for (std::uint32_t i = 0; code == 0 && i < out.size(); ++i) EXPECT_EQ(out[i], (i ^ 1) * 3);
  return code;
}

class Allocations : public ::testing::TestWithParam<Memory> {
 protected:
  const Environment cache_{"CUCORE_CPU_CACHE", "0"};
};
/// Where nothing has been compiled yet. LLVM is started under a lock, so no other can load beside
/// it.
class FirstAllocations : public Allocations {};

void PrintTo(Memory how, std::ostream* out) {
  *out << (how == Memory::is_gone      ? "TheRest"
           : how == Memory::fails_once ? "One"
                                       : "OneBesideAnotherThread");
}
INSTANTIATE_TEST_SUITE_P(Of, Allocations,
                         ::testing::Values(Memory::fails_once, Memory::fails_beside_another,
                                           Memory::is_gone),
                         ::testing::PrintToStringParamName{});
INSTANTIATE_TEST_SUITE_P(Of, FirstAllocations,
                         ::testing::Values(Memory::fails_once, Memory::is_gone),
                         ::testing::PrintToStringParamName{});

// promise: When the compiler runs out of memory, the result is error 2, and the next load works
TEST_P(Allocations, ThatFailAreAnErrorAndTheNextLoadWorks) {
  ASSERT_EQ(0, run(Memory::enough));
  long k = 0;
  for (long before = -1; before != g_failed; k += 1 + k / 64) {
    before = g_failed;
    const int code = run(GetParam(), k);
    ASSERT_TRUE(code == 2 || code == 0) << "allocation " << k << ": " << code;
    ASSERT_EQ(0, run(Memory::enough)) << "after allocation " << k;
  }
  EXPECT_GT(k, 1000) << "LLVM does not use this malloc: the test tests nothing";
}

// promise: When the compiler runs out of memory, the result is error 2, and the next load works
TEST_P(FirstAllocations, ThatFailAreAnErrorAndSoMayBeTheNextLoad) {
  if (g_in_use) GTEST_SKIP() << "the compiler is in use in this process; run this test alone";
  // Each time in a process in which nothing has been compiled yet. An LLVM that could not start
  // cannot be started again.
  for (long k = 0;; k += 1 + k / 16) {
    const int child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const int code = run(GetParam(), k);
      const bool reached = g_failed != 0;
      const int next = run(Memory::enough);
      if ((code != 0 && code != 2) || (next != 0 && next != 2) || next > code) _exit(1);
      _exit(reached ? 0 : HasFailure() ? 1 : 2);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT_TRUE(WIFEXITED(status)) << "allocation " << k << ": signal " << WTERMSIG(status);
    ASSERT_NE(1, WEXITSTATUS(status)) << "allocation " << k;
    if (WEXITSTATUS(status) == 2) break;
  }
}

TEST(OwnThread, ThatCannotStartLeavesTheSignalsOfItsCallerAlone) {
  const auto blocked = [] {
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, nullptr, &set);
    return sigismember(&set, SIGINT);
  };
  ASSERT_EQ(0, blocked());
  bool started = true;
  g_for_good = true;
  g_left = 0;
  try {
    start_detached_thread("cucore-none", [] {});
  } catch (const std::bad_alloc&) {
    started = false;
  }
  g_left = -1;
  EXPECT_FALSE(started);
  EXPECT_EQ(0, blocked());
}

}  // namespace
}  // namespace cucpu::test
