// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/kernels_test.cpp: hand-written thread code (kernels/*.ll), vectorized, against the
// same code thread by thread.
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <regex>
#include <tuple>

#include "harness.hpp"

namespace simt_test {
namespace {

std::string kernel(const std::string& name) {
  std::ifstream file{SIMT_TEST_FOLDER "/kernels/" + name + ".ll"};
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>{file}, {}};
}

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

TEST(SimtKernels, SaxpyIsContiguousAndGuardsItsTail) {
  Work work;
  work.grid = {4, 1, 1};
  work.block = {64, 1, 1};
  work.buffers = {floats(256), floats(256)};
  work.numbers = {203};
  auto report = compare(parse(kernel("saxpy")), work);
  EXPECT_EQ(report.width, 32u);
  EXPECT_EQ(report.gathers, 0u);
  EXPECT_GE(report.stores_contiguous, 1u);
  EXPECT_EQ(report.wrap_guards, 0u) << "the range of ctaid says that the index cannot wrap";
  EXPECT_EQ(report.tails, 1u) << "the group at the end runs thread by thread";
  EXPECT_EQ(report.masked_blocks, 0u);
}

TEST(SimtKernels, ABlockThatIsNoMultipleOfTheWidthRunsItsLastLanesMasked) {
  Work work;
  work.grid = {3, 1, 1};
  work.block = {37, 1, 1};
  work.buffers = {floats(256), floats(256)};
  work.numbers = {100};
  compare(parse(kernel("saxpy")), work);
}

TEST(SimtKernels, ATileIsLoadedInContiguousPieces) {
  for (std::uint32_t x0 : {0u, 1u, 7u, ~0u, ~4u, 20u, 60u, 0x7ffffff8u, 0x80000000u}) {
    Work work;
    work.block = {320, 1, 1};
    work.buffers = {numbers(37 * 12), std::vector<std::uint32_t>(320)};
    work.numbers = {37, 12, x0};
    auto report = compare(parse(kernel("tile")), work, {4, 8, 16});  // with 4 lanes, it guards
    EXPECT_EQ(report.gathers, 0u);
    EXPECT_EQ(report.loads_contiguous, 1u);
  }
}

TEST(SimtKernels, ATileNarrowerThanALaneGroupIsGathered) {
  Work work;
  work.block = {320, 1, 1};
  work.buffers = {numbers(37 * 12), std::vector<std::uint32_t>(320)};
  work.numbers = {37, 12, 1};
  auto report = compare(parse(kernel("tile")), work, {32});
  EXPECT_EQ(report.gathers, 1u);
}

TEST(SimtKernels, LanesLeaveADivergentLoopOneByOne) {
  Work work;
  work.grid = {2, 1, 1};
  work.block = {96, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(192)};
  auto report = compare(parse(kernel("mandelbrot")), work);
  EXPECT_EQ(report.divergent_loops, 1u);
}

TEST(SimtKernels, AStridedAddressIsReusedInADivergentBranch) {
  for (std::uint32_t k : {0u, 8u}) {
    Work work;
    work.block = {96, 1, 1};
    work.buffers = {numbers(128)};
    work.numbers = {k};
    compare(parse(kernel("address_before_branch")), work);
  }
}

TEST(SimtKernels, ABranchOfOneThreadIsScalarAndGroupsWithoutActiveThreadsAreSkipped) {
  for (std::uint32_t k : {0u, 1u, 15u, 16u, 31u, 50u, 94u, 95u, 96u, 4000000000u}) {
    Work work;
    work.grid = {3, 1, 1};
    work.block = {96, 1, 1};
    work.buffers = {numbers(288)};
    work.numbers = {k};
    auto report = compare(parse(kernel("one_thread")), work);
    EXPECT_EQ(report.one_lane, 2u);
    EXPECT_GE(report.last_groups, 1u);
  }
}

TEST(SimtKernels, GroupsThatSkipTheFirstRegionContinueWithAllLanes) {
  for (std::uint32_t threads : {64u, 96u, 100u, 37u}) {
    Work work;
    work.grid = {4, 1, 1};
    work.block = {threads, 1, 1};
    work.buffers = {numbers(4 * threads)};
    auto report = compare(parse(kernel("first_thread")), work);
    EXPECT_GE(report.last_groups, 1u);
  }
}

/// The cell at `middle` of each thread's two, `far` bytes apart.
cucpu::simt::Report compare_cells(const std::string& far) {
  Work work;
  work.grid = {3, 1, 1};
  work.block = {96, 1, 1};
  work.buffers = {numbers(288 + 1100), std::vector<std::uint32_t>(288)};
  std::string text = kernel("cells");
  return compare(parse(text.replace(text.find("FAR"), 3, far)), work);
}

TEST(SimtKernels, ALoadBetweenTwoExecutedLoadsIsIfConverted) {
  EXPECT_EQ(compare_cells("8").divergent_branches, 0u);
  EXPECT_EQ(compare_cells("4092").divergent_branches, 0u);
}

TEST(SimtKernels, ALoadThatMayFaultIsNotIfConverted) {
  EXPECT_GT(compare_cells("4096").divergent_branches, 0u) << "two pages and a bit";
  EXPECT_GT(compare_cells("-4").divergent_branches, 0u) << "on the other side";
}

TEST(SimtKernels, AWarpOfTheGridIsUniformInAGroupOfItsSize) {
  Work work;
  work.grid = {5, 1, 1};
  work.block = {96, 1, 1};
  work.buffers = {numbers(15), std::vector<std::uint32_t>(480)};
  const auto report = compare(parse(kernel("warp_rows")), work);
  EXPECT_EQ(report.width, 32u);
  EXPECT_EQ(report.gathers, 0u);
  EXPECT_EQ(report.loads_uniform, 3u) << "two parameters and the row";
}

/// Thread t copies a unit of `count` elements, each plus t, from place `index` of t to the same
/// one. `after_load`: what follows each load; N stands for the number of the element.
std::string unit_kernel(const std::string& index, unsigned bits, unsigned count, unsigned bytes,
                        const std::string& after_load = "") {
  std::string loads, stores;
  const std::string type = "i" + std::to_string(bits);
  for (unsigned i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), at = std::to_string(i * bits / 8);
    loads += "  %a" + n + " = add i64 %a, " + at + "\n  %p" + n + " = inttoptr i64 %a" + n +
             " to ptr\n  %v" + n + " = load " + type + ", ptr %p" + n + ", align " +
             std::to_string(bits / 8) + "\n" + std::regex_replace(after_load, std::regex{"N"}, n);
    stores += "  %s" + n + " = add " + type + " %v" + n + ", %number\n  %d" + n +
              " = add i64 %d, " + at + "\n  %q" + n + " = inttoptr i64 %d" + n +
              " to ptr\n  store " + type + " %s" + n + ", ptr %q" + n + ", align " +
              std::to_string(bits / 8) + "\n";
  }
  std::string text = kernel("units");
  const auto put = [&](const std::string& word, const std::string& value) {
    text.replace(text.find(word), word.size(), value);
  };
  const std::string convert = bits == 32 ? "" : bits > 32 ? "zext" : "trunc";
  const std::string number = convert.empty()
                                 ? "  %number = add i32 %tid, 0\n"
                                 : "  %number = " + convert + " i32 %tid to " + type + "\n";
  text = text.substr(text.find('\n') + 1);
  put("INDEX", index);
  put("BYTES", std::to_string(bytes));
  put("ACCESSES", number + loads + stores);
  return text;
}

const std::string kIndexFromMemory =
    "  %i64 = zext i32 %tid to i64\n  %io = shl i64 %i64, 2\n  %ia = add i64 %order, %io\n"
    "  %ip = inttoptr i64 %ia to ptr\n  %index = load i32, ptr %ip, align 4\n";

Work unit_work(std::uint32_t threads, const std::vector<std::uint32_t>& order) {
  Work work;
  work.block = {threads, 1, 1};
  work.buffers = {numbers(2048), std::vector<std::uint32_t>(2048), order};
  return work;
}

TEST(SimtKernels, UnitsThatAreApartAreAccessedWhole) {
  std::vector<std::uint32_t> order(96);
  for (std::uint32_t i = 0; i < 96; ++i) order[i] = i * 37 % 96;
  std::vector<std::pair<unsigned, unsigned>> units;  // bits and number of elements
  for (unsigned bits : {8u, 16u, 32u, 64u})
    for (unsigned count : {2u, 3u, 4u, 5u, 8u, 12u})
      if (bits * count <= 8 * 48) units.push_back({bits, count});
  for (auto [bits, count] : units)
    for (std::uint32_t threads : {96u, 37u}) {
      SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(bits) + " bits");
      compare(parse(unit_kernel(kIndexFromMemory, bits, count, 64)), unit_work(threads, order));
    }
}

TEST(SimtKernels, UnitsInRowsOfTwoLanesAreAccessedWhole) {
  // Rows of two units that are five units apart.
  const std::string rows =
      "  %row = lshr i32 %tid, 1\n  %five = mul i32 %row, 5\n  %in.row = and i32 %tid, 1\n"
      "  %index = add i32 %five, %in.row\n";
  const std::vector<std::uint32_t> none(96);
  for (auto [bits, count] : {std::pair{32u, 4u}, {16u, 8u}, {8u, 4u}, {32u, 2u}, {64u, 4u}})
    for (std::uint32_t threads : {64u, 96u, 37u})
      compare(parse(unit_kernel(rows, bits, count, bits / 8 * count)), unit_work(threads, none));
}

TEST(SimtKernels, UnitsWithGapsBetweenLanesAreAccessedWhole) {
  const std::vector<std::uint32_t> none(96);
  for (unsigned bytes : {20u, 48u, 64u})
    compare(parse(unit_kernel("  %index = add i32 %tid, 0\n", 32, 4, bytes)), unit_work(96, none));
}

TEST(SimtKernels, RowsThatALoopMovesAreLoadedWhole) {
  // Sixteen lanes read neighbouring numbers, and the same factor: two loads of each for 32 lanes.
  Work work;
  work.block = {96, 1, 1};
  work.buffers = {numbers(2048), std::vector<std::uint32_t>(96)};
  work.numbers = {5};
  const auto report = compare(parse(R"(
define void @kernel() {
entry:
  %params = call ptr @cucpu.params()
  %in = load i64, ptr %params
  %po = getelementptr i8, ptr %params, i64 8
  %out = load i64, ptr %po
  %pn = getelementptr i8, ptr %params, i64 16
  %n = load i32, ptr %pn
  %tid = call i32 @cucpu.sreg.tid.x()
  %t = zext nneg i32 %tid to i64
  %lane = and i64 %t, 15
  %row = lshr i64 %t, 4
  %first = shl i64 %row, 8
  %column = shl i64 %lane, 2
  %place = add i64 %first, %column
  %p0 = add i64 %in, %place
  %f = shl i64 %row, 3
  %q0 = add i64 %in, %f
  br label %loop
loop:
  %p = phi i64 [ %p0, %entry ], [ %p1, %loop ]
  %q = phi i64 [ %q0, %entry ], [ %q1, %loop ]
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %sum = phi i32 [ 1, %entry ], [ %more, %loop ]
  %at.p = inttoptr i64 %p to ptr
  %v = load i32, ptr %at.p, align 4
  %at.q = inttoptr i64 %q to ptr
  %s = load i32, ptr %at.q, align 4
  %product = mul i32 %v, %s
  %three = mul i32 %sum, 3
  %more = add i32 %three, %product
  %p1 = add i64 %p, 64
  %q1 = add i64 %q, 4
  %k1 = add i32 %k, 1
  %again = icmp slt i32 %k1, %n
  br i1 %again, label %loop, label %end
end:
  %o = shl i64 %t, 2
  %d = add i64 %out, %o
  %pd = inttoptr i64 %d to ptr
  store i32 %more, ptr %pd, align 4
  ret void
}
)"),
                              work);
  EXPECT_EQ(report.gathers, 0u);
  EXPECT_EQ(report.loads_contiguous, 2u);
}

TEST(SimtKernels, AStoreBetweenTheLoadsOfAUnitIsSeen) {
  std::vector<std::uint32_t> order(192);
  for (std::uint32_t i = 0; i < 192; ++i) order[i] = i % 96 * 37 % 96;
  // The third element of the lane's own unit changes after each load. Its address is known at run
  // time only.
  const std::string other =
      "  %oa = add i64 %ia, 384\n  %op = inttoptr i64 %oa to ptr\n"
      "  %other = load i32, ptr %op, align 4\n  %ow = zext i32 %other to i64\n"
      "  %ob = mul i64 %ow, 64\n  %oc = add i64 %ob, 8\n  %od = add i64 %in, %oc\n"
      "  %oe = inttoptr i64 %od to ptr\n";
  const std::string change = "  %cN = add i32 %tid, N\n  store i32 %cN, ptr %oe, align 4\n";
  compare(parse(unit_kernel(kIndexFromMemory + other, 32, 4, 64, change)), unit_work(96, order));
}

TEST(SimtKernels, LanesThatWriteTheSameUnitWriteInOrder) {
  std::vector<std::uint32_t> order(96);
  for (std::uint32_t i = 0; i < 96; ++i) order[i] = i / 3;
  // All lanes of a unit write the same numbers: which lane is last does not matter.
  std::string text = unit_kernel(kIndexFromMemory, 32, 4, 16);
  text.replace(text.find("%number = add i32 %tid, 0"), 25, "%number = add i32 %index, 0");
  compare(parse(text), unit_work(96, order));
}

TEST(SimtKernels, BarriersInAUniformLoopSplitTheBlockIntoRegions) {  // and each of its seven steps
  Work work;
  work.grid = {3, 1, 1};
  work.block = {128, 1, 1};
  work.buffers = {numbers(384), std::vector<std::uint32_t>(1)};
  auto report = compare(parse(kernel("reduce")), work);
  EXPECT_EQ(report.regions, 9u);
  EXPECT_TRUE(report.groups_agree);
}

TEST(SimtKernels, ABarrierDoesNotWaitForExitedThreads) {
  for (std::uint32_t n : {1u, 31u, 50u, 64u, 100u, 128u}) {
    Work work;
    work.block = {128, 1, 1};
    work.buffers = {numbers(128), std::vector<std::uint32_t>(128)};
    work.numbers = {n};
    auto report = compare(parse(kernel("early_return")), work);
    EXPECT_FALSE(report.groups_agree);
  }
}

TEST(SimtKernels, WarpOperationsWorkOnWholeWarps) {
  Work work;
  work.block = {96, 1, 1};
  work.buffers = {numbers(96), std::vector<std::uint32_t>(96)};
  auto report = compare(parse(kernel("scan")), work, {0});
  EXPECT_EQ(report.width, 32u);
}

TEST(SimtKernels, ABarrierCountsOverTheWholeBlock) {
  for (std::uint32_t threads : {64u, 75u}) {
    Work work;
    work.block = {threads, 1, 1};
    work.buffers = {std::vector<std::uint32_t>(threads)};
    compare(parse(kernel("count")), work);
  }
}

TEST(SimtKernels, AnIndexThatWrapsInsideAGroupTakesMaskedCode) {
  for (std::uint32_t start : {0u, 2147483640u, 2147483600u, 4294967290u}) {
    Work work;
    work.block = {64, 1, 1};
    work.buffers = {numbers(256), std::vector<std::uint32_t>(64)};
    work.numbers = {start};
    auto report = compare(parse(kernel("wrap")), work);
    EXPECT_GT(report.wrap_guards, 0u);
  }
}

// Groups in full code run without tests of their modes. One whose index wraps starts the region
// again with them, unless it has done something that must not be done twice.
TEST(SimtKernels, AGroupWhoseIndexWrapsBetweenBarriersStartsItsRegionAgain) {
  const std::string effect =
      "%c0 = load i32, ptr %count, align 4\n%c1 = add i32 %c0, 1\nstore i32 %c1, ptr %count";
  for (const bool counts : {false, true}) {
    std::string text = kernel("wrap_in_loop");
    text.replace(text.find("  EFFECT"), 8, counts ? effect : "");
    // It wraps nowhere, in the first turn, in a later turn, in a group in the middle, in several.
    for (const auto& [start, step] :
         {std::pair{0u, 16u}, std::pair{2147483640u, 16u}, std::pair{2147483500u, 16u},
          std::pair{2147483599u, 8u}, std::pair{4294967200u, 64u}, std::pair{7u, 2147483600u}}) {
      Work work;
      work.grid = {2, 1, 1};
      work.block = {64, 1, 1};
      work.buffers = {numbers(256), std::vector<std::uint32_t>(64), std::vector<std::uint32_t>(64)};
      work.numbers = {start, step, 11};
      EXPECT_GT(compare(parse(text), work, {8, 16}).wrap_guards, 0u);
    }
    Work work;
    work.buffers = {numbers(256), std::vector<std::uint32_t>(64), std::vector<std::uint32_t>(64)};
    work.numbers = {0, 16, 3};
    std::string code;
    run_vectorized(parse(text), work, 16, &code);
    EXPECT_EQ(code.find("region2.quick") == std::string::npos, counts);
  }
}

TEST(SimtKernels, AtomicsOfLanesThatCollideAllCount) {
  Work work;
  work.grid = {2, 1, 1};
  work.block = {128, 1, 1};
  work.buffers = {numbers(128), std::vector<std::uint32_t>(16)};
  compare(parse(kernel("histogram")), work);
}

TEST(SimtKernels, AtomicsAtNarrowNumbersFromMemoryUseTheNumberOfTheirLane) {
  const std::tuple<const char*, const char*, const char*> types[] = {
      {"i8", "0", "1"}, {"i16", "1", "2"}, {"i32", "2", "4"}};
  for (auto [type, shift, align] : types) {
    SCOPED_TRACE(type);
    std::string text = kernel("narrow_histogram");
    const auto replace = [&](const std::string& name, const std::string& by) {
      for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at))
        text.replace(at, name.size(), by);
    };
    replace("TYPE", type);
    replace("SHIFT", shift);
    replace("ALIGN", align);
    Work work;
    for (std::uint32_t threads : {64u, 76u}) {
      work.block = {threads, 1, 1};
      work.buffers = {numbers(160), std::vector<std::uint32_t>(threads)};
      compare(parse(text), work);
    }
  }
}

TEST(SimtKernels, GroupsRunColumnByColumn) {
  for (cucpu::Dim3 block :
       {cucpu::Dim3{32, 8, 1}, cucpu::Dim3{32, 3, 2}, cucpu::Dim3{64, 5, 1}, cucpu::Dim3{8, 7, 1}})
    for (const bool columns : {false, true})
      for (const std::uint32_t wide : {64u, 61u, 34u})
        for (const std::uint32_t high : {8u, 2u}) {
          Work work;
          work.as_on_x86 = columns;
          work.grid = {64 / block.x, 1, 1};
          work.block = block;
          work.buffers = {numbers(64 * 64), std::vector<std::uint32_t>(64 * 64, 7)};
          work.numbers = {64, wide, high};
          compare(parse(kernel("transpose")), work, {0, 4, 8, 16, 32});
        }
}

TEST(SimtKernels, ARetryLoopOfCompareAndSwapEnds) {
  Work work;
  work.block = {64, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(1)};
  compare(parse(kernel("cas")), work);
}

TEST(SimtKernels, ALoopThatAcquiresALockIsRejected) {
  Work work;
  work.buffers = {std::vector<std::uint32_t>(1)};
  auto report = run_vectorized(parse(kernel("lock")), work, 16);
  EXPECT_EQ(report.refusal, "spin lock");
}

std::string waiting(std::string write) {
  std::string text = kernel("wait");
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

TEST(SimtKernels, ASpinLoopOnTheSameBlockIsRejected) {
  Work work;
  work.block = {64, 1, 1};
  work.buffers = {std::vector<std::uint32_t>(64, 1)};
  const char* const writes[] = {
      "store i32 1, ptr %q, align 4, !cucpu.space !0",
      "%x = atomicrmw add ptr %q, i32 1 monotonic, align 4, !cucpu.space !0",
      "store i32 1, ptr %q, align 4"};
  for (const char* write : writes)
    EXPECT_EQ(run_vectorized(parse(waiting(write)), work, 16).refusal,
              "spin loop on a value of another thread")
        << write;
  std::string everyone = waiting("");
  everyone.replace(everyone.find("icmp eq i32 %tid, 0"), 19, "icmp ult i32 %tid, 2");
  EXPECT_EQ(run_vectorized(parse(everyone), work, 16).refusal,
            "spin loop on a value of another thread");
}

TEST(SimtKernels, PrivateArraysAndRowsOfATwoDimensionalBlock) {
  for (cucpu::Dim3 block : {cucpu::Dim3{24, 4, 1}, cucpu::Dim3{16, 8, 1}, cucpu::Dim3{1, 24, 1},
                            cucpu::Dim3{5, 7, 2}}) {
    Work work;
    work.block = block;
    work.buffers = {std::vector<std::uint32_t>(24 * 64)};
    compare(parse(kernel("private")), work, {0, 4, 8, 16, 32});
    work.as_on_x86 = true;
    compare(parse(kernel("private")), work, {0, 4, 8, 16, 32});
  }
}

TEST(SimtKernels, RowsOfNeighbouringBlocksFormAStrip) {
  for (cucpu::Dim3 block : {cucpu::Dim3{32, 3, 1}, cucpu::Dim3{16, 2, 1}, cucpu::Dim3{64, 4, 1},
                            cucpu::Dim3{4, 5, 1}}) {
    for (std::uint32_t blocks : {1u, 2u, 9u, 40u}) {
      Work work;
      work.grid = {blocks, 1, 1};
      work.block = block;
      const std::uint32_t n = block.x * blocks;
      work.buffers = {numbers(n * block.y), std::vector<std::uint32_t>(n * block.y, 7)};
      // Code is made for a shape of blocks: it is the same for every number of them.
      const std::vector<unsigned> widths =
          blocks == 9 ? std::vector<unsigned>{4, 8, 16, 32} : std::vector<unsigned>{16};
      for (std::uint32_t wide : {n, n - 3}) {
        work.as_on_x86 = blocks == 2;  // instead of strips
        work.numbers = {wide};
        compare(parse(kernel("rows")), work, widths);
      }
    }
  }
}

TEST(SimtKernels, AComparisonWithAMultipleOfTheWidthIsUniform) {
  const std::tuple<const char*, const char*, bool> rows[] = {
      {"ult", "32", true},  {"ule", "31", true},  {"ugt", "31", true},  {"uge", "32", true},
      {"slt", "64", true},  {"sgt", "63", true},  {"ult", "33", false}, {"ule", "32", false},
      {"ugt", "32", false}, {"uge", "31", false}, {"eq", "32", false},
  };
  for (auto [predicate, bound, together] : rows) {
    std::string text = kernel("first_warp");
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
