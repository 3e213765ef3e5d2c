// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/fault_ptx_test.cpp: faulty PTX: which code, which line, which thread; on the
// scalar path and in vector code.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

const char* const kRegisters = R"(
  .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;
  mov.u32 %r2, %tid.x;
)";

/// A kernel with one parameter `out`, in %rd0. %rd1 is out + 4 * tid.
std::string kernel(const std::string& body, const std::string& before = {}) {
  return before + ".visible .entry k(.param .u64 out) {" + kRegisters +
         "ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd0, %rd1;\n" + body +
         "\n ret;\n}\n";
}

/// Pages that end at an inaccessible page.
class Guarded {
 public:
  Guarded()
      : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))},
        base_{static_cast<std::byte*>(
            mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))} {
    mprotect(base_ + page_, page_, PROT_NONE);
  }
  ~Guarded() { munmap(base_, 2 * page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* before_end(std::size_t bytes) { return base_ + page_ - bytes; }

 private:
  std::size_t page_;
  std::byte* base_;
};

class FaultyPtx : public ::testing::TestWithParam<const char*> {
 protected:
  Ended run(const std::string& text, const void* out, Dim3 block = {64}, std::size_t stack = 1024) {
    const auto module = load(text, memory_);
    LaunchShape shape = shape_of({1}, block);
    shape.stack_limit = stack;
    const Ended ended = launch(*module, "k", shape, out);
    // Whatever happened, the next grid is right.
    std::vector<std::uint32_t> words(64);
    const auto healthy = load(kernel("st.global.u32 [%rd1], %r2;"), memory_);
    EXPECT_EQ(launch(*healthy, "k", shape_of({1}, {64}), words.data()).code, 0);
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(words[i], i);
    return ended;
  }
  void expect(const Ended& ended, int code, const std::string& text) {
    EXPECT_EQ(ended.code, code) << ended.report;
    EXPECT_NE(ended.report.find(text), std::string::npos) << ended.report;
  }

  Environment width_{"CUCORE_CPU_W", GetParam()};
  Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
  alignas(64) std::uint32_t words_[1024] = {};
};
INSTANTIATE_TEST_SUITE_P(Width, FaultyPtx, ::testing::Values("1", ""),
                         [](const auto& info) { return *info.param ? "scalar" : "chosen"; });

TEST_P(FaultyPtx, AnAccessToNullIs700AndIsNotOptimizedAway) {
  expect(
      run(kernel("mov.u64 %rd2, 0; ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd1], %r3;"), words_),
      700, "illegal memory access at 0x0");
  expect(run(kernel("mov.u64 %rd2, 0; st.u32 [%rd2], 1;"), words_), 700,
         "illegal memory access at 0x0");
}

// promise: The exception of a fault contains kernel, thread, address, source line and the
// nearest allocation
TEST_P(FaultyPtx, TheLineOfTheSourceIsNamed) {
  Guarded memory;
  const std::string text = kernel(R"(
    .loc 1 10 3
    add.u64 %rd1, %rd1, 4;
    .loc 1 11 3
    ld.global.u32 %r3, [%rd1];
    .loc 1 12 3
    st.global.u32 [%rd1+-4], %r3;)") +
                           ".file 1 \"kernel.cu\"\n";
  expect(run(text, memory.before_end(64 * 4)), 700, "kernel.cu:11");
  expect(run(kernel(".loc 1 20 1\n st.global.u32 [%rd1], 5;\n .loc 1 21 1\n setp.ne.u32 %p1, %r2, "
                    "40; @%p1 bra "
                    "E;\n .loc 1 22 1\n trap;\n E:") +
                 ".file 1 \"kernel.cu\"\n",
             words_),
         719, "kernel.cu:22, block (0, 0, 0), thread (40, 0, 0)");
}

// Vector code runs the rows of several blocks through together, and says nothing for each.
TEST_P(FaultyPtx, OneBlockOfSeveralThatRunTogetherIsNamed) {
  Guarded memory;
  constexpr std::uint32_t kBlocks = 12;
  const auto module = load(kernel(R"(
      mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.y;
      mad.lo.u32 %r5, %r3, 32, %r2;
      mul.lo.u32 %r6, %r4, 384;
      add.u32 %r7, %r5, %r6;
      mul.wide.u32 %rd2, %r7, 4; add.u64 %rd3, %rd0, %rd2;
      st.global.u32 [%rd3], %r7;)"),
                           memory_);
  // Three rows of 384 threads; the last word of the second row is the first that is not there.
  const std::byte* const out = memory.before_end((2 * 384 - 1) * 4);
  const Ended ended = launch(*module, "k", shape_of({kBlocks}, {32, 3}), out);
  EXPECT_EQ(ended.code, 700) << ended.report;
  // Which of the threads beyond the end comes first is open; its block and number fit its address.
  unsigned long long address = 0;
  std::uint32_t block = 0, x = 0, y = 0;
  const std::size_t at = ended.report.find("at 0x"), in = ended.report.find("block (");
  ASSERT_NE(at, std::string::npos) << ended.report;
  ASSERT_NE(in, std::string::npos) << ended.report;
  ASSERT_EQ(std::sscanf(ended.report.c_str() + at, "at 0x%llx", &address), 1);
  ASSERT_EQ(std::sscanf(ended.report.c_str() + in, "block (%u, 0, 0), thread (%u, %u, 0)", &block,
                        &x, &y),
            3)
      << ended.report;
  EXPECT_EQ(address - reinterpret_cast<std::uintptr_t>(out), 4 * (block * 32 + x + y * 384));
}

// promise: A trap is error 719 and a failed assertion error 710, whichever thread raised it
TEST_P(FaultyPtx, ATrapOfOneThreadNamesIt) {
  expect(run(kernel("setp.ne.u32 %p1, %r2, 37; @%p1 bra E; trap; E: st.global.u32 [%rd1], 1;"),
             words_),
         719, "trap, block (0, 0, 0), thread (37, 0, 0)");
  expect(run(kernel("setp.ne.u32 %p1, %r2, 37; @%p1 bra E; brkpt; E: st.global.u32 [%rd1], 1;"),
             words_),
         719, "thread (37, 0, 0)");
}

// promise: A trap is error 719 and a failed assertion error 710, whichever thread raised it
TEST_P(FaultyPtx, AFailedAssertionNamesFileLineAndThread) {
  const std::string before = R"(
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 1 .b8 message[6] = {105, 32, 60, 32, 53, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 function[2] = {107, 0};
)";
  const std::string call = R"(
    setp.ne.u32 %p1, %r2, 33; @%p1 bra E;
    { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
      mov.u64 %rd5, message; cvta.global.u64 %rd5, %rd5; st.param.b64 [m], %rd5;
      mov.u64 %rd6, file; cvta.global.u64 %rd6, %rd6; st.param.b64 [f], %rd6;
      st.param.b32 [l], 77;
      mov.u64 %rd7, function; cvta.global.u64 %rd7, %rd7; st.param.b64 [n], %rd7;
      st.param.b64 [c], 1;
      call.uni __assertfail, (m, f, l, n, c); }
    E: st.global.u32 [%rd1], 1;)";
  const Ended ended = run(kernel(call, before), words_);
  expect(ended, 710, "a.cu:77: k: Assertion `i < 5` failed");
  expect(ended, 710, "thread (33, 0, 0)");
}

// promise: A misaligned access and an illegal instruction have error codes of their own
TEST_P(FaultyPtx, MisalignedAccessesAre716) {
  const std::string at2 = "ld.global.u32 %r3, [%rd1+2]; st.global.u32 [%rd1], %r3;";
  expect(run(kernel(at2), words_), 716, "misaligned address at 0x");
  expect(run(kernel("st.global.u32 [%rd1+1], %r2;"), words_), 716, "thread (0, 0, 0)");
  expect(run(kernel("st.global.v4.u32 [%rd0+4], {%r2,%r2,%r2,%r2};"), words_), 716, "misaligned");
  expect(run(kernel("ld.u16 %h1, [%rd0+1]; st.global.u16 [%rd0], %h1;"), words_), 716,
         "misaligned");
  expect(run(kernel("red.global.add.u32 [%rd0+2], 1;"), words_), 716, "misaligned");
  expect(
      run(kernel("atom.global.cas.b64 %rd3, [%rd0+4], 1, 2; st.global.u64 [%rd0], %rd3;"), words_),
      716, "misaligned");
  const std::string shared =
      ".shared .align 8 .b8 s[512]; mov.u32 %r4, s; mad.lo.u32 %r4, %r2, 4, %r4;";
  expect(run(kernel(shared + "st.shared.u32 [%r4+2], 5;"), words_), 716, "misaligned");
  const std::string local = ".local .align 8 .b8 l[64]; mov.u64 %rd4, l; add.u64 %rd4, %rd4, 1;";
  expect(run(kernel(local +
                    "st.local.u32 [%rd4], 5; ld.local.u32 %r5, [%rd4]; st.global.u32 [%rd1], %r5;"),
             words_),
         716, "misaligned");
  EXPECT_EQ(words_[0], 0U) << "nothing was written";
}

TEST_P(FaultyPtx, AMisalignedParameterIsAFaultOnlyWhereItIsUsed) {
  auto* const odd = reinterpret_cast<std::byte*>(words_) + 2;
  expect(run(kernel("st.global.u32 [%rd1], %r2;"), odd), 716, "thread (0, 0, 0)");
  const std::string guarded =
      "and.b64 %rd5, %rd0, 3; setp.ne.u64 %p1, %rd5, 0; @%p1 bra E; st.global.u32 [%rd1], 1;"
      " bra F; E: mul.wide.u32 %rd6, %r2, 2; add.u64 %rd6, %rd0, %rd6; mov.u16 %h1, 7;"
      " st.global.u16 [%rd6], %h1; F:";
  EXPECT_EQ(run(kernel(guarded), odd).code, 0);
  EXPECT_EQ(reinterpret_cast<std::uint16_t*>(odd)[63], 7);
}

TEST_P(FaultyPtx, OnlyTheThreadWithTheMisalignedAddressIsNamed) {
  // Offsets come from memory: nothing can be proven about them.
  for (std::uint32_t i = 0; i < 64; ++i) words_[i] = 512 + 4 * i + (i == 21 ? 2 : 0);
  const std::string body =
      "ld.global.u32 %r3, [%rd1]; cvt.u64.u32 %rd3, %r3; add.u64 %rd3, %rd0, %rd3;";
  expect(run(kernel(body + "st.global.u32 [%rd3], 9;"), words_), 716, "thread (21, 0, 0)");
  // Threads that do not get there have any address.
  EXPECT_EQ(run(kernel(body + "setp.eq.u32 %p1, %r2, 21; @%p1 bra E; st.global.u32 [%rd3], 9; E:"),
                words_)
                .code,
            0);
}

// promise: An access to the wrong address space is error 717, and a call through an invalid
// function pointer error 718
TEST_P(FaultyPtx, ACallOfAnInvalidAddressHasTheCodeOfAGpu) {
  const std::string call = "p: .callprototype ()_(); call (), %rd2, (), p;";
  expect(run(kernel("mov.u64 %rd2, 0;" + call), words_), 718,
         "invalid program counter: call of 0x0");
  expect(run(kernel("mov.u64 %rd2, 0x1001;" + call), words_), 718, "call of 0x1001");
  expect(run(kernel("mov.u64 %rd2, 0x1000;" + call), words_), 715, "call of 0x1000");
  expect(run(kernel("mov.u64 %rd2, 0x123456789a0;" + call), words_), 700, "call of 0x123456789a0");
  expect(run(kernel("mov.u64 %rd2, %rd0;" + call), words_), 700, "thread (0, 0, 0)");
  expect(run(kernel("ld.global.u32 %r3, [%rd0]; add.u32 %r3, %r3, 9; t: .branchtargets A, B; "
                    "brx.idx %r3, t;"
                    " A: st.global.u32 [%rd1], 1; B: st.global.u32 [%rd1], 2;"),
             words_),
         718, "invalid program counter");
}

TEST_P(FaultyPtx, SharedAddressesCannotLeaveSharedMemory) {
  const std::string shared = ".shared .align 8 .b8 s[64]; mov.u32 %r4, s;";
  for (const char* far : {"0x100000", "0x1000000", "0x40000000", "0xfffffff0"})
    expect(run(kernel(shared + "add.u32 %r4, %r4, " + far +
                      "; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd1], %r5;"),
               words_),
           far == std::string{"0x100000"} ? 700 : 715, "shared memory");
  // A sum that stays below zero is an address at the end of the 32 bits, however it is written.
  for (const char* below : {"[%r4+-16]", "[s+-16]", "[%r4+-8]"})
    expect(run(kernel(shared + "ld.shared.u32 %r5, " + below + "; st.global.u32 [%rd1], %r5;"),
               words_),
           715, "shared memory");
}

// promise: An access to the wrong address space is error 717, and a call through an invalid
// function pointer error 718
TEST_P(FaultyPtx, GlobalAccessesToSharedOrLocalMemoryAre717) {
  expect(run(kernel(".shared .align 8 .b8 s[64]; mov.u64 %rd4, s; cvta.shared.u64 %rd4, %rd4; "
                    "ld.global.u32 %r5, [%rd4];"
                    " st.global.u32 [%rd1], %r5;"),
             words_),
         717, "address in the wrong state space");
  expect(run(kernel(".local .align 8 .b8 l[64]; mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4; "
                    "st.global.u32 [%rd4+4], 5;"
                    " ld.global.u32 %r5, [%rd4]; st.global.u32 [%rd1], %r5;"),
             words_),
         717, "address in the wrong state space");
}

TEST_P(FaultyPtx, ABarrierOfAPartOfAWarpIs715) {
  expect(run(kernel("mov.u32 %r4, 33; bar.sync 1, %r4; st.global.u32 [%rd1], 1;"), words_), 715,
         "a barrier of 33 threads: not a multiple of the warp size");
}

const char* const kRecursive = R"(
.func (.param .b32 r) f(.param .b32 n) {
  .reg .b32 %w<6>; .reg .b64 %q<4>; .reg .pred %c; .local .align 8 .b8 l[FRAME];
  ld.param.u32 %w1, [n]; mov.u64 %q1, l; cvta.local.u64 %q1, %q1; st.volatile.u32 [%q1], %w1; mov.u32 %w4, 0;
  setp.eq.u32 %c, %w1, 0; @%c bra E;
  sub.u32 %w2, %w1, 1;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %w2; call (y), f, (x); ld.param.u32 %w3, [y]; }
  ld.volatile.u32 %w4, [%q1]; add.u32 %w4, %w4, %w3;
  E: st.param.b32 [r], %w4; ret;
}
)";

std::string recursive(int frame, int depth) {
  std::string function = kRecursive;
  function.replace(function.find("FRAME"), 5, std::to_string(frame));
  return kernel("{ .param .b32 x; .param .b32 y; st.param.b32 [x], " + std::to_string(depth) +
                    "; call (y), f, (x); ld.param.u32 %r5, [y]; } st.global.u32 [%rd1], %r5;",
                function);
}

// promise: A stack overflow in a kernel does not damage the stack of the host
TEST_P(FaultyPtx, InfiniteRecursionIsAStackOverflow) {
  expect(run(recursive(8, -1), words_), 700, "stack overflow");
  // A frame larger than the guard page does not step over it.
  expect(run(recursive(300000, -1), words_, {2}), 700, "stack overflow");
  // What a compiler could make a loop of is recursion still.
  std::string plain = recursive(8, -1);
  for (std::size_t at; (at = plain.find(".volatile")) != plain.npos;) plain.erase(at, 9);
  expect(run(plain, words_, {2}), 700, "stack overflow");
}

// promise: The stack limit is honoured, and large local arrays of many threads work
TEST_P(FaultyPtx, TheStackLimitIsHonoured) {
  EXPECT_EQ(run(recursive(8, 200), words_).code, 0);
  EXPECT_EQ(words_[5], 200U * 201 / 2);
  expect(run(recursive(8, 200000), words_, {2}), 700, "stack overflow");
  EXPECT_EQ(run(recursive(8, 200000), words_, {2}, 256 * 1024).code, 0);
}

// promise: The stack limit is honoured, and large local arrays of many threads work
TEST_P(FaultyPtx, LargeLocalArraysOfManyThreadsWork) {
  const std::string body =
      ".local .align 8 .b8 l[500000]; mov.u64 %rd2, l; mul.wide.u32 %rd3, %r2, 400;"
      "add.u64 %rd2, %rd2, %rd3; st.local.u32 [%rd2], %r2; bar.sync 0; ld.local.u32 %r4, [%rd2];"
      "st.global.u32 [%rd1], %r4;";
  const Ended ended = run(kernel(body), words_, {1024});
  EXPECT_EQ(ended.code, 0) << ended.report;
  for (std::uint32_t i = 0; i < 1024; ++i) ASSERT_EQ(words_[i], i);
}

/// Every page of the process that is both writable and executable.
std::string writable_code() {
  std::ifstream maps{"/proc/self/maps"};
  std::string line, found;
  while (std::getline(maps, line)) {
    const std::string rights = line.substr(line.find(' ') + 1, 4);
    if (rights[1] == 'w' && rights[2] == 'x') found += line + "\n";
  }
  return found;
}

// promise: Generated code is never writable and executable at once
TEST_P(FaultyPtx, NoPageIsWritableAndExecutable) {
  EXPECT_EQ(writable_code(), "");
  const auto module = load(kernel("bar.sync 0; st.global.u32 [%rd1], %r2;"), memory_);
  EXPECT_EQ(launch(*module, "k", shape_of({1}, {64}), words_).code, 0);
  EXPECT_EQ(writable_code(), "");
}

}  // namespace
}  // namespace cucpu::test
