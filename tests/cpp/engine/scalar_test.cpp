// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/scalar_test.cpp: thread code through the scalar path: markers, forms, spin
// loops, cancel.
#include <sys/auxv.h>

#include <numeric>

#include "cpu/engine/jit/host_target.hpp"
#include "ir_fixture.hpp"

namespace cucpu::test {
namespace {

const std::string kDeclarations = R"(
declare ptr @cucpu.params() memory(none)
declare ptr @cucpu.shared() memory(none)
declare i32 @cucpu.sreg.tid.x() memory(none)
declare i32 @cucpu.sreg.tid.y() memory(none)
declare i32 @cucpu.sreg.ntid.x() memory(none)
declare i32 @cucpu.sreg.ctaid.x() memory(none)
declare i32 @cucpu.sreg.laneid() memory(none)
declare i32 @cucpu.sreg.lanemask_lt() memory(none)
declare void @cucpu.barrier.sync(i32, i32, i1) convergent
declare i1 @cucpu.barrier.red.or(i32, i32, i1, i1) convergent
declare {i32, i1} @cucpu.shfl.down(i32, i32, i32, i32) convergent
declare i32 @cucpu.vote.ballot(i1, i32) convergent
declare void @cucpu.exit() noreturn
declare void @cucpu.trap(i32) noreturn
)";

/// out[ctaid * ntid + tid] = value, for the kernels below.
const std::string kStore = R"(
  %p = call ptr @cucpu.params()
  %out = load ptr, ptr %p
  %c = call i32 @cucpu.sreg.ctaid.x()
  %n = call i32 @cucpu.sreg.ntid.x()
  %t = call i32 @cucpu.sreg.tid.x()
  %m = mul i32 %c, %n
  %i = add i32 %m, %t
  %slot = getelementptr i32, ptr %out, i32 %i
)";

TEST(Scalar, AKernelWithoutWaitsIsALoopOverThreads) {
  Compiled kernel{kDeclarations + "define void @k() \"cucpu.kernel\" {" + kStore + R"(
  %odd = trunc i32 %i to i1
  br i1 %odd, label %quit, label %go
quit:
  call void @cucpu.exit()
  unreachable
go:
  store i32 %i, ptr %slot
  ret void
})"};
  EXPECT_FALSE(kernel.object.fibers);
  std::vector<std::uint32_t> out(8 * 48, 7);
  void* params = out.data();
  EXPECT_EQ(kernel.run({8}, {48}, &params, 2).code, 0);
  for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i % 2 ? 7 : i);
}

TEST(Scalar, ABarrierMakesFibers) {
  Compiled kernel{kDeclarations + "define void @k() \"cucpu.kernel\" {" + kStore + R"(
  %s = call ptr @cucpu.shared()
  %mine = getelementptr i32, ptr %s, i32 %t
  store i32 %i, ptr %mine
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %last = sub i32 %n, 1
  %other = sub i32 %last, %t
  %theirs = getelementptr i32, ptr %s, i32 %other
  %v = load i32, ptr %theirs
  store i32 %v, ptr %slot
  ret void
})"};
  EXPECT_TRUE(kernel.object.fibers);
  std::vector<std::uint32_t> out(4 * 128);
  void* params = out.data();
  EXPECT_EQ(kernel.run({4}, {128}, &params, 2, 512).code, 0);
  for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i / 128 * 128 + 127 - i % 128);
}

TEST(Scalar, WarpMarkersGiveTheirResults) {
  Compiled kernel{kDeclarations + "define void @k() \"cucpu.kernel\" {" + kStore + R"(
  %r = call {i32, i1} @cucpu.shfl.down(i32 %t, i32 4, i32 31, i32 -1)
  %v = extractvalue {i32, i1} %r, 0
  %in = extractvalue {i32, i1} %r, 1
  %ballot = call i32 @cucpu.vote.ballot(i1 %in, i32 -1)
  %any = call i1 @cucpu.barrier.red.or(i32 1, i32 0, i1 true, i1 %in)
  %a = zext i1 %any to i32
  %x = xor i32 %v, %ballot
  %y = add i32 %x, %a
  store i32 %y, ptr %slot
  ret void
})"};
  std::vector<std::uint32_t> out(32);
  void* params = out.data();
  EXPECT_EQ(kernel.run({1}, {32}, &params).code, 0);
  for (std::uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], ((i < 28 ? i + 4 : i) ^ 0x0fffffffU) + 1);
}

TEST(Scalar, DeviceFunctionsAreInlinedAndRecursionRuns) {
  Compiled kernel{kDeclarations + R"(
define i32 @twice(i32 %x) noinline {
  %r = mul i32 %x, 2
  ret i32 %r
}
define i32 @sum(i32 %x) {
  %t = call i32 @cucpu.sreg.tid.x()
  %zero = icmp eq i32 %x, 0
  br i1 %zero, label %end, label %more
end:
  ret i32 %t
more:
  %y = sub i32 %x, 1
  %r = call i32 @sum(i32 %y)
  %d = call i32 @twice(i32 %x)
  %z = add i32 %r, %d
  ret i32 %z
}
define void @k() "cucpu.kernel" {)" +
                  kStore + R"(
  %v = call i32 @sum(i32 100)
  store i32 %v, ptr %slot
  ret void
})"};
  EXPECT_TRUE(kernel.object.fibers);
  EXPECT_TRUE(kernel.object.recursive);
  std::vector<std::uint32_t> out(64);
  void* params = out.data();
  EXPECT_EQ(kernel.run({2}, {32}, &params).code, 0);
  for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], 10100 + i % 32);
}

TEST(Scalar, FunctionsAreCalledThroughPointers) {
  Compiled kernel{kDeclarations + R"(
define i32 @one(i32 %x) {
  %t = call i32 @cucpu.sreg.tid.x()
  %r = add i32 %x, %t
  ret i32 %r
}
define i32 @two(i32 %x) {
  %r = mul i32 %x, 3
  ret i32 %r
}
define void @k() "cucpu.kernel" {)" +
                  kStore + R"(
  %odd = trunc i32 %t to i1
  %f = select i1 %odd, ptr @one, ptr @two
  %v = call i32 %f(i32 1000)
  store i32 %v, ptr %slot
  ret void
})"};
  std::vector<std::uint32_t> out(32);
  void* params = out.data();
  EXPECT_EQ(kernel.run({1}, {32}, &params).code, 0);
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i % 2 ? 1000 + i : 3000);
}

TEST(Scalar, ASpinLoopLetsOtherThreadsRun) {
  Compiled kernel{kDeclarations + "define void @k() \"cucpu.kernel\" {" + kStore + R"(
  %first = icmp eq i32 %i, 0
  %flag = getelementptr i32, ptr %out, i32 512
  %want = sub i32 511, %i
  br label %spin
spin:
  %seen = load volatile i32, ptr %flag
  %go = icmp eq i32 %seen, %want
  br i1 %go, label %done, label %spin
done:
  store i32 %seen, ptr %slot
  %next = add i32 %seen, 1
  store volatile i32 %next, ptr %flag
  ret void
})"};
  EXPECT_TRUE(kernel.object.waits_for_blocks);
  std::vector<std::uint32_t> out(513);
  void* params = out.data();
  EXPECT_EQ(kernel.run({8}, {64}, &params, 1).code,
            0);  // the last thread of the last block runs first
  for (std::uint32_t i = 0; i < 512; ++i) EXPECT_EQ(out[i], 511 - i);
}

TEST(Scalar, AnEndlessLoopCanBeCancelled) {
  Compiled kernel{kDeclarations + R"(define void @k() "cucpu.kernel" {
  %p = call ptr @cucpu.params()
  %out = load ptr, ptr %p
  store volatile i32 1, ptr %out
  br label %loop
loop:
  br label %loop
})"};
  volatile std::uint32_t started = 0;
  const volatile void* params = &started;
  LaunchShape shape;
  shape.block = {32};
  Grid grid{std::make_shared<Code>(kernel.code), shape,
            reinterpret_cast<const std::byte*>(&params)};
  std::thread worker{[&] { EXPECT_TRUE(grid.work()); }};
  while (!started) std::this_thread::yield();
  grid.cancel(719);
  worker.join();
  ASSERT_NE(grid.fault(), nullptr);
  EXPECT_EQ(grid.fault()->code, 719);
}

TEST(Scalar, ATrapStopsTheGrid) {
  Compiled kernel{kDeclarations + "define void @k() \"cucpu.kernel\" {" + kStore + R"(
  %bad = icmp eq i32 %i, 40
  br i1 %bad, label %trap, label %ok
trap:
  call void @cucpu.trap(i32 719)
  unreachable
ok:
  store i32 %i, ptr %slot
  ret void
})"};
  std::vector<std::uint32_t> out(64);
  void* params = out.data();
  const auto outcome = kernel.run({2}, {32}, &params);
  EXPECT_EQ(outcome.code, 719);
  EXPECT_NE(outcome.report.find("block (1, 0, 0), thread (8, 0, 0)"), std::string::npos)
      << outcome.report;
}

TEST(Scalar, LineTablesLeadFromMachineCodeToSource) {
  Compiled kernel{R"(define void @k() "cucpu.kernel" !dbg !4 {
  store volatile i32 1, ptr inttoptr (i64 64 to ptr), !dbg !6
  ret void, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2, !3}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly, runtimeVersion: 0)
!1 = !DIFile(filename: "a.cu", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 7, !"Dwarf Version", i32 4}
!4 = distinct !DISubprogram(name: "k", file: !1, line: 1, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !{})
!6 = !DILocation(line: 42, column: 3, scope: !4)
!7 = !DILocation(line: 43, column: 3, scope: !4)
)"};
  const auto start = reinterpret_cast<std::uintptr_t>(kernel.linked->address(0));
  kernel.code.line_of = [&](std::uintptr_t pc) {
    return line_of(kernel.object.object, kEntry, pc - start);
  };
  const auto outcome = kernel.run({1}, {32}, nullptr);
  EXPECT_EQ(outcome.code, 700);
  EXPECT_NE(outcome.report.find("a.cu:42"), std::string::npos) << outcome.report;
}

#if defined(__aarch64__)
TEST(HostTarget, FeaturesFollowTheSystemAndNotTheCpuName) {
  const bool sve = (getauxval(AT_HWCAP) & (1UL << 22)) != 0;
  EXPECT_NE(host_target().features.find(sve ? "+sve," : "-sve,"), std::string::npos)
      << host_target().features;
}
#endif

TEST(Scalar, AnUndefinedSymbolIsNamed) {
  EXPECT_THROW(
      {
        try {
          Compiled kernel{R"(declare void @getpid()
define void @k() "cucpu.kernel" { call void @getpid() ret void })"};
        } catch (const std::runtime_error& error) {
          EXPECT_NE(std::string{error.what()}.find("getpid"), std::string::npos) << error.what();
          throw;
        }
      },
      std::runtime_error);
}

TEST(Scalar, ModuleVariablesAreReachedByTheirAddress) {
  std::uint32_t variable = 5;
  Compiled kernel{kDeclarations +
                      "@counter = external global i32\ndefine void @k() \"cucpu.kernel\" {" +
                      kStore + R"(
  %old = atomicrmw add ptr @counter, i32 1 seq_cst
  store i32 %old, ptr %slot
  ret void
})",
                  {{"counter", reinterpret_cast<std::uint64_t>(&variable)}}};
  std::vector<std::uint32_t> out(64);
  void* params = out.data();
  EXPECT_EQ(kernel.run({2}, {32}, &params).code, 0);
  EXPECT_EQ(variable, 69);
}

}  // namespace
}  // namespace cucpu::test
