// tests/cpp/simt/test_kernels.cpp: hand-written thread code, vectorized, against the same code
// thread by thread.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <tuple>

#include "harness.hpp"

namespace simt_test {
namespace {

std::vector<std::uint32_t> floats(std::size_t n) {
  std::vector<std::uint32_t> words(n);
  for (std::size_t i = 0; i < n; ++i)
    words[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i % 97) * 0.5f - 7);
  return words;
}

std::vector<std::uint32_t> numbers(std::size_t n) {
  std::vector<std::uint32_t> words(n);
  for (std::size_t i = 0; i < n; ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
  return words;
}

const char* const kSaxpy = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %x = load i64, ptr %params
  %py = getelementptr i8, ptr %params, i64 8
  %y = load i64, ptr %py
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %in = icmp slt i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %w = sext i32 %i to i64
  %o = shl i64 %w, 2
  %ax = add i64 %x, %o
  %ay = add i64 %y, %o
  %qx = inttoptr i64 %ax to ptr
  %qy = inttoptr i64 %ay to ptr
  %vx = load float, ptr %qx, align 4
  %vy = load float, ptr %qy, align 4
  %s = call float @llvm.fma.f32(float %vx, float 2.5, float %vy)
  store float %s, ptr %qy, align 4
  br label %end
end:
  ret void
}
declare float @llvm.fma.f32(float, float, float)
)";

TEST(SimtKernels, SaxpyIsContiguousAndGuardsItsTail) {
  Work work;
  work.grid = {4, 1, 1};
  work.block = {64, 1, 1};
  work.buffers = {floats(256), floats(256)};
  work.numbers = {203};
  auto report = compare(parse(kSaxpy), work);
  EXPECT_EQ(report.width, 32u);
  EXPECT_EQ(report.gathers, 0u);
  EXPECT_GE(report.stores_contiguous, 1u);
  EXPECT_EQ(report.wrap_guards, 0u) << "the range of ctaid says that the index cannot wrap";
}

TEST(SimtKernels, ABlockThatIsNoMultipleOfTheWidthRunsItsLastLanesMasked) {
  Work work;
  work.grid = {3, 1, 1};
  work.block = {37, 1, 1};
  work.buffers = {floats(256), floats(256)};
  work.numbers = {100};
  compare(parse(kSaxpy), work);
}

const char* const kMandelbrot = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %fi = sitofp i32 %i to float
  %c0 = fmul float %fi, 0x3F899999A0000000
  %cx = fadd float %c0, -2.0
  br label %loop
loop:
  %n = phi i32 [0, %0], [%n1, %next]
  %x = phi float [0.0, %0], [%x1, %next]
  %y = phi float [0.0, %0], [%y1, %next]
  %xx = fmul float %x, %x
  %yy = fmul float %y, %y
  %r = fadd float %xx, %yy
  %go = fcmp olt float %r, 4.0
  br i1 %go, label %next, label %done
next:
  %d = fsub float %xx, %yy
  %x1 = fadd float %d, %cx
  %xy = fmul float %x, %y
  %xy2 = fmul float %xy, 2.0
  %y1 = fadd float %xy2, 0.25
  %n1 = add i32 %n, 1
  %more = icmp slt i32 %n1, 100
  br i1 %more, label %loop, label %done
done:
  %result = phi i32 [%n, %loop], [%n1, %next]
  %w = zext i32 %i to i64
  %o = mul i64 %w, 4
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  store i32 %result, ptr %q, align 4
  ret void
}
)";

TEST(SimtKernels, LanesLeaveADivergentLoopOneByOne) {
  Work work;
  work.grid = {2, 1, 1};
  work.block = {96, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(192)};
  auto report = compare(parse(kMandelbrot), work);
  EXPECT_EQ(report.divergent_loops, 1u);
}

const char* const kReduce = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  store i32 %v, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %half = lshr i32 %ntid, 1
  br label %loop
loop:
  %s = phi i32 [%half, %0], [%s1, %join]
  %is = icmp ult i32 %tid, %s
  br i1 %is, label %add, label %join
add:
  %other = add i32 %tid, %s
  %other64 = zext i32 %other to i64
  %qo = getelementptr i32, ptr %shared, i64 %other64
  %vo = load i32, ptr %qo, align 4
  %vs = load i32, ptr %own, align 4
  %sum = add i32 %vo, %vs
  store i32 %sum, ptr %own, align 4
  br label %join
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %s1 = lshr i32 %s, 1
  %more = icmp ne i32 %s1, 0
  br i1 %more, label %loop, label %end
end:
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %write, label %ret
write:
  %total = load i32, ptr %shared, align 4
  %qout = inttoptr i64 %out to ptr
  %old = atomicrmw add ptr %qout, i32 %total monotonic
  br label %ret
ret:
  ret void
}
)";

// Addresses that are contiguous in whole groups are made before a branch on what is found there,
// and used by the lanes behind it.
const char* const kAddressBeforeBranch = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %pk = getelementptr i8, ptr %params, i64 8
  %k = load i32, ptr %pk
  %tid = call i32 @cucpu.sreg.tid.x()
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %tid, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %i = add i32 %tid, %k
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %near = getelementptr i8, ptr %shared, i64 %o
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %hot = icmp ugt i32 %v, 2000000000
  br i1 %hot, label %take, label %end
take:
  %s = load i32, ptr %near, align 4
  %sum = add i32 %s, %v
  store i32 %v, ptr %near, align 4
  store i32 %sum, ptr %q, align 4
  br label %end
end:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %x = load i32, ptr %near, align 4
  %y = load i32, ptr %q, align 4
  %z = xor i32 %x, %y
  store i32 %z, ptr %q, align 4
  ret void
}
)";

TEST(SimtKernels, AnAddressFromBeforeABranchServesTheLanesThatTakeIt) {
  for (std::uint32_t k : {0u, 8u}) {
    Work work;
    work.block = {96, 1, 1};
    work.buffers = {numbers(128)};
    work.numbers = {k};
    compare(parse(kAddressBeforeBranch), work);
  }
}

// One thread, whose number comes from memory, adds to shared memory and reads; others up to a bound
// write behind a barrier.
const char* const kOneThread = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %pk = getelementptr i8, ptr %params, i64 8
  %k = load i32, ptr %pk
  %tid = call i32 @cucpu.sreg.tid.x()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %i = add i32 %m, %tid
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %i, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %other = icmp ne i32 %tid, %k
  br i1 %other, label %join, label %one
one:
  %old = atomicrmw add ptr %own, i32 7 monotonic
  %before = getelementptr i32, ptr %own, i64 -1
  %vb = load i32, ptr %before, align 4
  %mixed = xor i32 %old, %vb
  %again = add i32 %mixed, %hash
  br label %join
join:
  %v = phi i32 [%i, %0], [%again, %one]
  %most = add i32 %k, 3
  %w = zext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %out, %o
  %q = inttoptr i64 %a to ptr
  store i32 %v, ptr %q, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %upto = icmp ule i32 %tid, %most
  br i1 %upto, label %some, label %behind
some:
  %vs = load i32, ptr %own, align 4
  %vv = add i32 %vs, %v
  store i32 %vv, ptr %q, align 4
  br label %behind
behind:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %is = icmp eq i32 %tid, %k
  br i1 %is, label %write, label %end
write:
  store i32 %k, ptr %q, align 4
  br label %end
end:
  ret void
}
)";

TEST(SimtKernels, ABranchThatOneThreadTakesRunsForItsLaneAloneAndGroupsBehindTheLastAreSkipped) {
  for (std::uint32_t k : {0u, 1u, 15u, 16u, 31u, 50u, 94u, 95u, 96u, 4000000000u}) {
    Work work;
    work.grid = {3, 1, 1};
    work.block = {96, 1, 1};
    work.buffers = {numbers(288)};
    work.numbers = {k};
    auto report = compare(parse(kOneThread), work);
    EXPECT_EQ(report.one_lane, 2u);
    EXPECT_GE(report.last_groups, 1u);
  }
}

TEST(SimtKernels, BarriersInAUniformLoopSplitTheBlockIntoRegions) {
  Work work;
  work.grid = {3, 1, 1};
  work.block = {128, 1, 1};
  work.buffers = {numbers(384), std::vector<std::uint32_t>(1)};
  auto report = compare(parse(kReduce), work);
  EXPECT_EQ(report.regions, 3u);
  EXPECT_TRUE(report.groups_agree);
}

const char* const kEarlyReturn = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ret = icmp sge i32 %tid, %n
  br i1 %ret, label %leave, label %on
leave:
  call void @cucpu.exit()
  unreachable
on:
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  %o = shl i64 %t64, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  store i32 %v, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %n1 = sub i32 %n, 1
  %mirror = sub i32 %n1, %tid
  %m64 = sext i32 %mirror to i64
  %qm = getelementptr i32, ptr %shared, i64 %m64
  %vm = load i32, ptr %qm, align 4
  %b = add i64 %out, %o
  %qb = inttoptr i64 %b to ptr
  store i32 %vm, ptr %qb, align 4
  ret void
}
)";

TEST(SimtKernels, ThreadsThatReturnedAreNotWaitedForAtABarrier) {
  for (std::uint32_t n : {1u, 31u, 50u, 64u, 100u, 128u}) {
    Work work;
    work.block = {128, 1, 1};
    work.buffers = {numbers(128), std::vector<std::uint32_t>(128)};
    work.numbers = {n};
    auto report = compare(parse(kEarlyReturn), work);
    EXPECT_FALSE(report.groups_agree);
  }
}

const char* const kScan = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %o = shl i64 %t64, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  br label %loop
loop:
  %d = phi i32 [1, %0], [%d1, %loop]
  %x = phi i32 [%v, %0], [%x1, %loop]
  %p = call {i32, i1} @cucpu.shfl.up(i32 %x, i32 %d, i32 0, i32 -1)
  %y = extractvalue {i32, i1} %p, 0
  %ok = extractvalue {i32, i1} %p, 1
  %z = select i1 %ok, i32 %y, i32 0
  %x1 = add i32 %x, %z
  %d1 = shl i32 %d, 1
  %more = icmp ult i32 %d1, 32
  br i1 %more, label %loop, label %end
end:
  %one = call {i32, i1} @cucpu.shfl.bfly(i32 %x1, i32 3, i32 31, i32 -1)
  %b = extractvalue {i32, i1} %one, 0
  %odd = trunc i32 %v to i1
  %votes = call i32 @cucpu.vote.ballot(i1 %odd, i32 -1)
  %any = call i1 @cucpu.vote.any(i1 %odd, i32 240)
  %anyw = zext i1 %any to i32
  %key = and i32 %v, 7
  %peers = call i32 @cucpu.match.any.i32(i32 %key, i32 -1)
  %sum = call i32 @cucpu.redux.add(i32 %v, i32 -1)
  %low = call i32 @cucpu.redux.smin(i32 %v, i32 65535)
  %r1 = xor i32 %b, %votes
  %r2 = add i32 %r1, %anyw
  %r3 = xor i32 %r2, %peers
  %r4 = add i32 %r3, %sum
  %r5 = xor i32 %r4, %low
  %r6 = add i32 %r5, %x1
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %r6, ptr %qc, align 4
  ret void
}
)";

TEST(SimtKernels, WarpOperationsWorkOnWholeWarps) {
  Work work;
  work.block = {96, 1, 1};
  work.buffers = {numbers(96), std::vector<std::uint32_t>(96)};
  auto report = compare(parse(kScan), work, {0});
  EXPECT_EQ(report.width, 32u);
}

const char* const kCount = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  br label %loop
loop:
  %k = phi i32 [2, %0], [%k1, %loop]
  %sum = phi i32 [0, %0], [%sum1, %loop]
  %r = urem i32 %tid, %k
  %p = icmp eq i32 %r, 0
  %n = call i32 @cucpu.barrier.red.popc(i32 0, i32 0, i1 true, i1 %p)
  %nk = mul i32 %n, %k
  %sum1 = add i32 %sum, %nk
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 7
  br i1 %more, label %loop, label %end
end:
  %t64 = zext i32 %tid to i64
  %o = shl i64 %t64, 2
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %sum1, ptr %qc, align 4
  ret void
}
)";

TEST(SimtKernels, ABarrierCountsOverTheWholeBlock) {
  for (std::uint32_t threads : {64u, 75u}) {
    Work work;
    work.block = {threads, 1, 1};
    work.buffers = {std::vector<std::uint32_t>(threads)};
    compare(parse(kCount), work);
  }
}

const char* const kWrap = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %start = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %i = add i32 %start, %tid
  %w = sext i32 %i to i64
  %low = and i64 %w, 255
  %h = lshr i64 %w, 40
  %h32 = trunc i64 %h to i32
  %o = shl i64 %w, 2
  %big = call i64 @llvm.smin.i64(i64 %o, i64 400)
  %small = call i64 @llvm.smax.i64(i64 %big, i64 0)
  %a = add i64 %in, %small
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %v1 = add i32 %v, %h32
  %t64 = zext i32 %tid to i64
  %to = shl i64 %t64, 2
  %c = add i64 %out, %to
  %qc = inttoptr i64 %c to ptr
  store i32 %v1, ptr %qc, align 4
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
)";

TEST(SimtKernels, AnIndexThatWrapsInsideAGroupIsSeen) {
  for (std::uint32_t start : {0u, 2147483640u, 2147483600u, 4294967290u}) {
    Work work;
    work.block = {64, 1, 1};
    work.buffers = {numbers(256), std::vector<std::uint32_t>(64)};
    work.numbers = {start};
    auto report = compare(parse(kWrap), work);
    EXPECT_GT(report.wrap_guards, 0u);
  }
}

const char* const kHistogram = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %o = shl i64 %t64, 2
  %a = add i64 %in, %o
  %q = inttoptr i64 %a to ptr
  %v = load i32, ptr %q, align 4
  %shared = call ptr @cucpu.shared()
  %b = lshr i32 %v, 28
  %b64 = zext i32 %b to i64
  %bin = getelementptr i32, ptr %shared, i64 %b64
  %was = atomicrmw add ptr %bin, i32 1 monotonic, !cucpu.space !0
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %is = icmp ult i32 %tid, 16
  br i1 %is, label %flush, label %end
flush:
  %own = getelementptr i32, ptr %shared, i64 %t64
  %n = load i32, ptr %own, align 4
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  %old = atomicrmw add ptr %qc, i32 %n monotonic
  br label %end
end:
  ret void
}
!0 = !{!"shared"}
)";

TEST(SimtKernels, AtomicsOfLanesThatCollideAllCount) {
  Work work;
  work.grid = {2, 1, 1};
  work.block = {128, 1, 1};
  work.buffers = {numbers(128), std::vector<std::uint32_t>(16)};
  compare(parse(kHistogram), work);
}

const char* const kCas = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  %tid = call i32 @cucpu.sreg.tid.x()
  %first = load i32, ptr %q, align 4
  br label %retry
retry:
  %old = phi i32 [%first, %0], [%seen, %retry]
  %new = add i32 %old, %tid
  %pair = cmpxchg ptr %q, i32 %old, i32 %new monotonic monotonic
  %seen = extractvalue {i32, i1} %pair, 0
  %ok = icmp eq i32 %seen, %old
  br i1 %ok, label %end, label %retry
end:
  ret void
}
)";

TEST(SimtKernels, ARetryLoopOfCompareAndSwapEnds) {
  Work work;
  work.block = {64, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(1)};
  compare(parse(kCas), work);
}

const char* const kLock = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  br label %retry
retry:
  %pair = cmpxchg ptr %q, i32 0, i32 1 monotonic monotonic
  %ok = extractvalue {i32, i1} %pair, 1
  br i1 %ok, label %end, label %retry
end:
  store atomic i32 0, ptr %q release, align 4
  ret void
}
)";

TEST(SimtKernels, ALoopThatTakesALockIsRefused) {
  Work work;
  work.buffers = {std::vector<std::uint32_t>(1)};
  auto report = run_vectorized(parse(kLock), work, 16);
  EXPECT_EQ(report.refusal, "loop that takes a lock");
}

// Thread 0 waits for what another block has written; the others wait at the barrier. WRITE: what
// they do meanwhile.
const char* const kWait = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %q = inttoptr i64 %out to ptr
  %tid = call i32 @cucpu.sreg.tid.x()
  %shared = call ptr @cucpu.shared()
  %t64 = zext i32 %tid to i64
  %own = getelementptr i32, ptr %shared, i64 %t64
  store i32 %tid, ptr %own, align 4, !cucpu.space !1
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  WRITE
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %wait, label %join
wait:
  %seen = load volatile i32, ptr %q, align 4, !cucpu.space !0
  %ready = icmp ne i32 %seen, 0
  br i1 %ready, label %join, label %wait
join:
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %a = getelementptr i32, ptr %q, i64 %t64
  %v = load i32, ptr %own, align 4, !cucpu.space !1
  store i32 %v, ptr %a, align 4, !cucpu.space !0
  ret void
}
!0 = !{!"global"}
!1 = !{!"shared"}
)";

std::string waiting(std::string write) {
  std::string text = kWait;
  return text.replace(text.find("WRITE"), 5, write);
}

TEST(SimtKernels, OneThreadMayWaitForAnotherBlock) {
  for (const char* write : {"", "store i32 7, ptr %own, align 4, !cucpu.space !1"}) {
    Work work;
    work.block = {64, 1, 1};
    work.buffers = {
        std::vector<std::uint32_t>(64, 1)};  // it has written already: one block runs alone here
    auto report = run_vectorized(parse(waiting(write)), work, 16);
    EXPECT_EQ(report.refusal, "");
  }
}

TEST(SimtKernels, AWaitThatThreadsOfTheSameBlockMayEndIsRefused) {
  Work work;
  work.block = {64, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(64, 1)};
  const char* const writes[] = {
      "store i32 1, ptr %q, align 4, !cucpu.space !0",
      "%x = atomicrmw add ptr %q, i32 1 monotonic, align 4, !cucpu.space !0",
      "store i32 1, ptr %q, align 4"};
  for (const char* write : writes)
    EXPECT_EQ(run_vectorized(parse(waiting(write)), work, 16).refusal,
              "loop that waits for another thread")
        << write;
  std::string everyone = waiting("");
  everyone.replace(everyone.find("icmp eq i32 %tid, 0"), 19, "icmp ult i32 %tid, 2");
  EXPECT_EQ(run_vectorized(parse(everyone), work, 16).refusal,
            "loop that waits for another thread");
}

const char* const kPrivate = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %ty = call i32 @cucpu.sreg.tid.y()
  %local = alloca [8 x i32], align 4
  br label %fill
fill:
  %i = phi i32 [0, %0], [%i1, %fill]
  %i64 = zext i32 %i to i64
  %p = getelementptr [8 x i32], ptr %local, i64 0, i64 %i64
  %v = mul i32 %i, %tid
  %v1 = add i32 %v, %ty
  store i32 %v1, ptr %p, align 4
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, 8
  br i1 %more, label %fill, label %read
read:
  %k = and i32 %tid, 7
  %k64 = zext i32 %k to i64
  %pk = getelementptr [8 x i32], ptr %local, i64 0, i64 %k64
  %r = load i32, ptr %pk, align 4
  %row = mul i32 %ty, 24
  %at = add i32 %row, %tid
  %a64 = sext i32 %at to i64
  %o = shl i64 %a64, 2
  %c = add i64 %out, %o
  %qc = inttoptr i64 %c to ptr
  store i32 %r, ptr %qc, align 4
  ret void
}
)";

TEST(SimtKernels, PrivateArraysAndRowsOfATwoDimensionalBlock) {
  for (cucpu::Dim3 block : {cucpu::Dim3{24, 4, 1}, cucpu::Dim3{16, 8, 1}, cucpu::Dim3{1, 24, 1},
                            cucpu::Dim3{5, 7, 2}}) {
    Work work;
    work.block = block;
    work.buffers = {std::vector<std::uint32_t>(24 * 64)};
    compare(parse(kPrivate), work, {0, 4, 8, 16, 32});
  }
}

// Rows of a two-dimensional block, with an edge on both sides that has nothing to do.
const char* const kRows = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %ty = call i32 @cucpu.sreg.tid.y()
  %ntid = call i32 @cucpu.sreg.ntid.x()
  %ctaid = call i32 @cucpu.sreg.ctaid.x()
  %m = mul i32 %ctaid, %ntid
  %x = add i32 %m, %tid
  %most = add i32 %n, -1
  %left = icmp slt i32 %x, 1
  %right = icmp sge i32 %x, %most
  %edge = or i1 %left, %right
  br i1 %edge, label %end, label %body
body:
  %row = mul i32 %ty, %n
  %i = add i32 %row, %x
  %w = sext i32 %i to i64
  %o = shl i64 %w, 2
  %a = add i64 %in, %o
  %b = add i64 %a, -4
  %c = add i64 %a, 4
  %qb = inttoptr i64 %b to ptr
  %qc = inttoptr i64 %c to ptr
  %vb = load i32, ptr %qb, align 4
  %vc = load i32, ptr %qc, align 4
  %v = sub i32 %vc, %vb
  %v1 = add i32 %v, %ctaid
  %d = add i64 %out, %o
  %qd = inttoptr i64 %d to ptr
  store i32 %v1, ptr %qd, align 4
  br label %end
end:
  ret void
}
)";

TEST(SimtKernels, RowsOfNeighbouringBlocksAreRunThroughTogether) {
  for (cucpu::Dim3 block : {cucpu::Dim3{32, 3, 1}, cucpu::Dim3{16, 2, 1}, cucpu::Dim3{64, 4, 1},
                            cucpu::Dim3{4, 5, 1}}) {
    for (std::uint32_t blocks : {1u, 2u, 9u, 40u}) {
      Work work;
      work.grid = {blocks, 1, 1};
      work.block = block;
      const std::uint32_t n = block.x * blocks;
      work.buffers = {numbers(n * block.y), std::vector<std::uint32_t>(n * block.y, 7)};
      for (std::uint32_t wide : {n, n - 3}) {
        work.numbers = {wide};
        compare(parse(kRows), work);
      }
    }
  }
}

// The first warp alone goes one way; that is no branch that lanes of a group could part at.
const char* const kFirstWarp = R"(
define void @kernel() {
  %params = call ptr @cucpu.params()
  %out = load i64, ptr %params
  %tid = call i32 @cucpu.sreg.tid.x()
  %t64 = zext i32 %tid to i64
  %shared = call ptr @cucpu.shared()
  %own = getelementptr i32, ptr %shared, i64 %t64
  %hash = mul i32 %tid, -1640531535
  store i32 %hash, ptr %own, align 4
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %first = icmp PREDICATE i32 %tid, BOUND
  br i1 %first, label %yes, label %no
yes:
  %far = getelementptr i32, ptr %own, i64 1
  %v = load i32, ptr %far, align 4
  br label %join
no:
  %o = shl i64 %t64, 3
  %w = trunc i64 %o to i32
  br label %join
join:
  %r = phi i32 [%v, %yes], [%w, %no]
  call void @cucpu.barrier.sync(i32 0, i32 0, i1 true)
  %at = shl i64 %t64, 2
  %a = add i64 %out, %at
  %q = inttoptr i64 %a to ptr
  br i1 %first, label %store, label %other
store:
  store i32 %r, ptr %q, align 4
  br label %end
other:
  %r1 = add i32 %r, 1
  store i32 %r1, ptr %q, align 4
  br label %end
end:
  ret void
}
)";

TEST(SimtKernels, AComparisonWithAMultipleOfTheWidthPartsNoLanes) {
  const std::tuple<const char*, const char*, bool> rows[] = {
      {"ult", "32", true},  {"ule", "31", true},  {"ugt", "31", true},  {"uge", "32", true},
      {"slt", "64", true},  {"sgt", "63", true},  {"ult", "33", false}, {"ule", "32", false},
      {"ugt", "32", false}, {"uge", "31", false}, {"eq", "32", false},
  };
  for (auto [predicate, bound, together] : rows) {
    std::string text = kFirstWarp;
    text.replace(text.find("PREDICATE"), 9, predicate);
    text.replace(text.find("BOUND"), 5, bound);
    Work work;
    work.block = {96, 1, 1};
    work.buffers = {std::vector<std::uint32_t>(96)};
    auto report = compare(parse(text), work);
    EXPECT_EQ(report.divergent_branches == 0, together) << predicate << ' ' << bound;
  }
}

}  // namespace
}  // namespace simt_test
