// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/check_test.cpp: check mode finds what is wrong, and nothing in kernels that are
// right.
#include <algorithm>

#include "../temporary_folder.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

/// A kernel with one parameter `out`, in %rd0. %rd1 is out + 4 * (global thread index), %r4 the
/// shared address of s[tid].
std::string kernel(const std::string& body, const std::string& before = {}) {
  return before + R"(.visible .entry k(.param .u64 out) {
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .shared .align 8 .b8 s[512];
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
  ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1;
  mov.u32 %r4, s; mad.lo.u32 %r4, %r2, 4, %r4;
)" + body +
         "\n ret;\n}\n.file 1 \"kernel.cu\"\n";
}

class Check : public ::testing::Test {
 protected:
  Ended run(const char* kinds, const std::string& text, Dim3 grid = {1}, Dim3 block = {64},
            const char* width = "1") {
    const Environment check{"CUCORE_CHECK", kinds};
    const Environment lanes{"CUCORE_CPU_W", width};
    const auto module = load(text, memory_);
    return launch(*module, "k", shape_of(grid, block), words_.data());
  }
  void finds(const char* kinds, const std::string& text, std::vector<std::string> parts,
             Dim3 grid = {1}, Dim3 block = {64}) {
    const std::vector<std::uint32_t> before = words_;
    for (const char* width : kWidths) {
      words_ = before;
      const Ended ended = run(kinds, text, grid, block, width);
      EXPECT_NE(ended.code, 0) << "CUCORE_CPU_W=" << width;
      for (const std::string& part : parts)
        EXPECT_NE(ended.report.find(part), std::string::npos)
            << "CUCORE_CPU_W=" << width << ": " << part << "\n"
            << ended.report;
    }
  }
  void clean(const char* kinds, const std::string& text, Dim3 grid = {1}, Dim3 block = {64}) {
    const std::vector<std::uint32_t> before = words_;
    for (const char* width : kWidths) {
      words_ = before;
      const Ended ended = run(kinds, text, grid, block, width);
      EXPECT_EQ(ended.code, 0) << "CUCORE_CPU_W=" << width << ": " << ended.report;
    }
  }
  /// The scalar path, and vector code of every width where the kernel can be vectorized.
  static constexpr const char* kWidths[] = {"1", "4", "8", "16", "32", ""};

  Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
  std::vector<std::uint32_t> words_ = std::vector<std::uint32_t>(4096);
};

// Each thread reads its neighbour's word of shared memory.
const std::string kWrite = ".loc 1 5 1\n st.shared.u32 [%r4], %r2;\n";
const std::string kBarrier = "bar.sync 0;\n";
const std::string kRead =
    "add.u32 %r5, %r2, 1; rem.u32 %r5, %r5, %r1; mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6;\n "
    ".loc 1 9 1\n"
    "ld.shared.u32 %r7, [%r6];\n .loc 1 10 1\n st.global.u32 [%rd1], %r7;\n";

// promise: Check mode finds data races and names both accesses
// promise: Check mode reports nothing for correct kernels
TEST_F(Check, AMissingBarrierIsARaceThatNamesBothThreadsAndLines) {
  clean("race", kernel(kWrite + kBarrier + kRead));
  EXPECT_EQ(words_[3], 4U);
  finds("race", kernel(kWrite + kRead),
        {"kernel k: data race", "kernel.cu:5", "kernel.cu:9", "thread (", "of block (0, 0, 0)",
         "offset"});
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, AWarpBarrierOrdersAWarpOnly) {
  const std::string neighbour =
      "xor.b32 %r5, %r2, 1; mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6; ld.shared.u32 %r7, [%r6]; "
      "st.global.u32 [%rd1], %r7;";
  const std::string sync = "bar.warp.sync 0xffffffff;\n";
  clean("race", kernel(kWrite + sync + neighbour));
  finds("race", kernel(kWrite + sync + kRead),
        {"data race"});  // thread 31 reads what thread 32 writes
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, AReadBeforeAWriteOfAnotherThreadIsARace) {
  const std::string start = kWrite + kBarrier;
  const std::string read = "ld.shared.u32 %r7, [s]; st.global.u32 [%rd1], %r7;\n";
  const std::string write = "setp.ne.u32 %p1, %r2, 40; @%p1 bra E; st.shared.u32 [s], 77; E:\n";
  finds("race", kernel(start + read + write), {"data race", "after a read", "write"});
  clean("race", kernel(start + read + kBarrier + write));
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, BlocksThatWriteOneWordRaceUnlessTheyDoItAtomically) {
  finds("race", kernel("st.global.u32 [%rd0], %r3;"),
        {"data race", "thread (0, 0, 0) of block (0, 0, 0)"}, {2}, {1});
  finds("race",
        kernel("ld.global.u32 %r5, [%rd0]; add.u32 %r5, %r5, 1; st.global.u32 [%rd0], %r5;"),
        {"data race"}, {4}, {32});
  words_[0] = 0;
  clean("race", kernel("red.global.add.u32 [%rd0], 1;"), {4}, {32});
  EXPECT_EQ(words_[0], 128U);
  clean("race", kernel("st.global.u32 [%rd0], 5;"), {2}, {32});  // the same value
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, RacesOfTheRowsOfABlockAreFound) {
  const std::string row =
      "mov.u32 %r5, %tid.y; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd0, %rd2;";
  const std::string own =
      "mad.lo.u32 %r6, %r5, 64, %r2; mul.wide.u32 %rd2, %r6, 4;"
      "add.u64 %rd3, %rd0, %rd2;";
  const std::string update = "ld.global.u32 %r7, [%rd3]; mad.lo.u32 %r7, %r7, 3, 1;";
  for (const Dim3 block : {Dim3{16, 4}, Dim3{32, 2}, Dim3{64, 3}, Dim3{16, 2, 2}, Dim3{7, 5}}) {
    finds("race", kernel(row + "st.global.u32 [%rd3], %r5;"), {"data race"}, {1}, block);
    finds("race", kernel(row + update + "st.global.u32 [%rd3], %r7;"), {"data race"}, {1}, block);
    clean("race", kernel(row + "st.global.u32 [%rd3], 5;"), {2}, block);  // the same value
  }
  for (const Dim3 block : {Dim3{16, 4}, Dim3{64, 3}, Dim3{7, 5}})
    clean("race", kernel(row + own + update + "st.global.u32 [%rd3], %r7;"), {1}, block);
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, RacesOfEveryByteOfAWordAreFound) {
  const std::string two = "and.b32 %r5, %r2, 63; setp.ne.u32 %p1, %r5, 0; @%p1 bra D;";  // 0 and 64
  const std::string one = "setp.ne.u32 %p2, %r2, 0; setp.ne.u32 %p1, %r2, 64; add.u32 %r6, %r2, 9;";
  const std::string first = "@!%p2 st.global.u8 [%rd0+", second = "@!%p1 st.global.u8 [%rd0+";
  for (const std::string type : {"u8", "u16"}) {
    const std::string size = type == "u8" ? "1" : "2";
    const std::string at = " [%rd0]", next = " [%rd0+" + size + "]";
    finds("race",
          kernel(two + "add.u32 %r6, %r2, 1; st.global." + type + at + ", %r6; st.global." + type +
                 next + ", %r6; D:"),
          {"data race"}, {1}, {128});
    finds("race",
          kernel(one + "@!%p2 ld.global." + type + " %r7," + at + "; @!%p2 ld.global." + type +
                 " %r8," + next + "; @!%p1 st.global." + type + at + ", %r6;"),
          {"data race"}, {1}, {128});
  }
  clean("race", kernel(one + first + "0], %r6;" + first + "1], %r6;" + second + "2], %r6;"), {1},
        {128});
  clean("race",
        kernel(one + first + "0], %r6; bar.sync 0;" + first + "1], %r6;" + second + "0], %r6;"),
        {1}, {128});
}

// Generated code handles the accesses of the loop without a routine: the race is found, and both
// lines are known.
// promise: Check mode finds data races and names both accesses
TEST_F(Check, RacesAfterRepeatedAccessesToTheSameRowsAreFound) {
  const std::string loop = R"(
    mov.u32 %r10, 0;
    L: st.shared.u32 [%r4], %r10; bar.sync 0; ld.shared.u32 %r7, [%r4]; st.global.u32 [%rd1], %r7;
    ld.global.u32 %r8, [%rd1]; add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 4; @%p1 bra L;
)";
  clean("race", kernel(loop + kWrite + kBarrier + kRead), {2});
  finds("race", kernel(loop + kWrite + kRead), {"data race", "kernel.cu:5", "kernel.cu:9"}, {2});
  clean("all", kernel(loop + kWrite + kBarrier + kRead), {2});
  finds("all", kernel(loop + kWrite + kRead), {"data race"}, {2});
}

// A row keeps the reads of two lane groups: a write by the last of them races with the first.
// promise: Check mode finds data races and names both accesses
// promise: Check mode reports nothing for correct kernels
TEST_F(Check, RacesWithRowsThatSeveralLaneGroupsReadAreFound) {
  // Rounds of reads, so that generated code handles them; the last threads then write what all
  // read.
  const auto text = [](const std::string& words, const std::string& first, const std::string& sync,
                       const std::string& space) {
    const bool global = space == "global";
    return kernel("and.b32 %r5, %r2, " + words + "; st.shared.u32 [%r4], %r2; bar.sync 0;\n" +
                  (global ? "mul.wide.u32 %rd3, %r5, 4; add.u64 %rd3, %rd0, %rd3;\n"
                          : "mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6;\n") +
                  "mov.u32 %r10, 0; mov.u32 %r11, 0;\n L: bar.sync 0;\n .loc 1 5 1\n ld." + space +
                  ".u32 %r7, [" + (global ? "%rd3" : "%r6") + "]; add.u32 %r11, %r11, %r7;\n" +
                  "add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 4; @%p1 bra L;\n" + sync +
                  "setp.lt.u32 %p1, %r2, " + first + "; @%p1 bra E;\n .loc 1 9 1\n st." + space +
                  ".u32 [" + (global ? "%rd3" : "%r6") +
                  "], %r11;\n E: st.global.u32 [%rd1+4096], " + "%r11;\n");
  };
  for (const auto& [kinds, space] : {std::pair{"all", "shared"}, std::pair{"race", "global"}}) {
    SCOPED_TRACE(space);
    const std::vector<std::string> parts = {"data race", "kernel.cu:5", "kernel.cu:9"};
    finds(kinds, text("31", "32", "", space), parts);
    finds(kinds, text("7", "56", "", space), parts);
    clean(kinds, text("31", "32", kBarrier, space));
    // A warp barrier orders both groups of a warp before the write, but not those of another one.
    clean(kinds, text("15", "16", "bar.warp.sync 0xffffffff;\n", space), {1}, {32});
    finds(kinds, text("31", "32", "bar.warp.sync 0xffffffff;\n", space), parts);
  }
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, RacesOnElementsOfEightBytesAreFound) {
  const std::string write =
      "mov.u32 %r5, s; mad.lo.u32 %r5, %r2, 8, %r5; cvt.u64.u32 %rd4, %r3;\n"
      "mov.u32 %r10, 0; L: st.shared.u64 [%r5], %rd4; add.u32 %r10, %r10, 1; setp.lt.u32 %p1, "
      "%r10, "
      "3; @%p1 bra L;\n";
  const std::string read =
      "xor.b32 %r6, %r2, 32; mov.u32 %r7, s; mad.lo.u32 %r7, %r6, 8, %r7; ld.shared.u64 %rd5, "
      "[%r7]; cvt.u32.u64 %r8, %rd5; st.global.u32 [%rd1], %r8;\n";
  clean("race", kernel(write + kBarrier + read), {2});
  finds("race", kernel(write + read), {"data race", "of 8 bytes after a", "by thread ("}, {2});
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, BlocksThatWriteTheSameRowsRace) {
  const std::string same = "mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd0, %rd3;";
  finds("race", kernel(same + "st.global.u32 [%rd3], %r3;"), {"data race", "of block (0, 0, 0)"},
        {2});
  finds("race",
        kernel(same + "ld.global.u32 %r5, [%rd3]; add.u32 %r5, %r5, %r3; add.u32 %r5, %r5, "
                      "1; st.global.u32 [%rd3], %r5;"),
        {"data race", "of block (0, 0, 0)"}, {2});
  clean("race", kernel(same + "ld.global.u32 %r5, [%rd3]; st.global.u32 [%rd1+2048], %r5;"), {4});
}

// The last block to arrive reads what the others wrote.
std::string last_block(const std::string& fence) {
  return kernel(R"(
    st.global.u32 [%rd1+1024], %r3;
    )" + fence + R"(
    bar.sync 0;
    setp.ne.u32 %p1, %r2, 0; @%p1 bra W;
    atom.global.add.u32 %r8, [%rd0], 1; st.shared.u32 [s], %r8;
    W: bar.sync 0; ld.shared.u32 %r8, [s]; setp.ne.u32 %p1, %r8, 3; @%p1 bra E;
    )" + fence + R"(
    xor.b32 %r9, %r3, 64; mul.wide.u32 %rd3, %r9, 4; add.u64 %rd3, %rd0, %rd3; ld.global.u32 %r10, [%rd3+1024];
    st.global.u32 [%rd1+4096], %r10;
    E:)");
}

// promise: Check mode reports nothing for correct kernels
TEST_F(Check, FencesAndAtomicsOrderBlocks) {
  std::fill(words_.begin(), words_.end(), 0);
  clean("race", last_block("membar.gl;"), {4}, {32});
  std::fill(words_.begin(), words_.end(), 0);
  finds("race", last_block(""), {"data race"}, {4}, {32});
}

// promise: Check mode finds data races and names both accesses
TEST_F(Check, AFlagOrdersBlocksOnlyIfItIsReleasedAndAcquired) {
  const auto handover =
      [](const char* store, const char* load) {
        return kernel(std::string{R"(
      setp.ne.u32 %p1, %r0, 0; @%p1 bra C;
      st.global.u32 [%rd0+512], 42;
      )"} + store + R"( [%rd0], 1; bra E;
      C: )" + load + R"( %r5, [%rd0]; setp.eq.u32 %p2, %r5, 0; @%p2 bra C;
      ld.global.u32 %r6, [%rd0+512]; st.global.u32 [%rd0+516], %r6;
      E:)");
      };
  words_[0] = 0;
  clean("race", handover("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), {2}, {1});
  EXPECT_EQ(words_[129], 42U);
  words_[0] = 0;
  finds("race", handover("st.relaxed.gpu.global.u32", "ld.relaxed.gpu.global.u32"), {"data race"},
        {2}, {1});
}

// promise: Check mode finds reads of uninitialized memory
TEST_F(Check, ReadsOfUninitializedSharedAndLocalMemoryAreFound) {
  finds("init", kernel(kRead), {"uninitialized read", "shared memory", "kernel.cu:9"});
  clean("init", kernel(kWrite + kBarrier + kRead));
  const std::string local = ".local .align 8 .b8 l[64]; mov.u64 %rd5, l;";
  finds("init", kernel(local + "ld.local.u32 %r7, [%rd5+8]; st.global.u32 [%rd1], %r7;"),
        {"uninitialized read", "local memory", "thread (0, 0, 0)"});
  clean("init",
        kernel(local +
               "st.local.u32 [%rd5+8], 3; ld.local.u32 %r7, [%rd5+8]; st.global.u32 [%rd1], %r7;"));
}

// promise: Check mode finds accesses out of bounds, into a neighbouring allocation and after the
// free
TEST_F(Check, AccessesOutsideSharedAndLocalArraysAreFound) {
  clean("memory", kernel("st.shared.u32 [s+508], 1;"));
  finds("memory", kernel("st.shared.u32 [s+512], 1;"),
        {"out-of-bounds access", "offset 512 of shared memory"});
  const std::string local =
      ".local .align 8 .b8 l[64]; mov.u64 %rd5, l; mul.wide.u32 %rd6, %r2, 4; add.u64 %rd6, %rd5, "
      "%rd6;";
  clean("memory",
        kernel(local +
               "st.local.u32 [%rd6], 3; ld.local.u32 %r5, [%rd5]; st.global.u32 [%rd1], %r5;"),
        {1}, {16});
  finds("memory",
        kernel(local +
               "st.local.u32 [%rd6], 3; ld.local.u32 %r5, [%rd5]; st.global.u32 [%rd1], %r5;"),
        {"out-of-bounds access", "local array of 64 bytes"}, {1}, {17});
}

// Memory checks compare accesses at constant distances together: each of them is found, and named.
// promise: Check mode finds accesses out of bounds, into a neighbouring allocation and after the
// free
TEST_F(Check, EachOfSeveralAccessesAtConstantDistancesIsFound) {
  // Threads 0 to 63 access s[tid + distance] of 128 words.
  const auto text = [](const std::vector<int>& distances, bool uniform) {
    std::string body = "st.shared.u32 [%r4], %r2; st.shared.u32 [%r4+256], %r2; bar.sync 0;\n";
    if (uniform) body += "mov.u32 %r4, s; and.b32 %r5, %r1, 64; add.u32 %r4, %r4, %r5;\n";
    body += "mov.u32 %r7, 0;\n";
    for (std::size_t i = 0; i < distances.size(); ++i)
      body += ".loc 1 " + std::to_string(i + 5) + " 1\n ld.shared.u32 %r6, [%r4+" +
              std::to_string(4 * distances[i]) + "]; add.u32 %r7, %r7, %r6;\n";
    return kernel(body + "st.global.u32 [%rd1], %r7;\n");
  };
  for (const char* kinds : {"memory", "all"}) {
    clean(kinds, text({0, 1, 64, 2, 33}, false));
    finds(kinds, text({0, 1, 65, 2, 33}, false), {"out-of-bounds access", "kernel.cu:7"});
    finds(kinds, text({0, 1, 64, 2, 33, 70}, false), {"out-of-bounds access", "kernel.cu:10"});
    finds(kinds, text({3, -1, 2}, false),
          {"out-of-bounds access", "kernel.cu:6", "thread (0, 0, 0)"});
    clean(kinds, text({0, 111, 5}, true));  // from word 16 on
    finds(kinds, text({0, 112, 5}, true), {"out-of-bounds access", "kernel.cu:6"});
    finds(kinds, text({0, 5, -17}, true), {"out-of-bounds access", "kernel.cu:7"});
  }
}

// promise: Check mode finds barriers that threads miss or confuse
TEST_F(Check, BarriersThatAWarpDoesNotReachTogetherAreFound) {
  const std::string divergent = R"(
    and.b32 %r5, %r2, 1; setp.eq.u32 %p1, %r5, 0; @%p1 bra A;
    .loc 1 20 1
    bar.sync 0; st.global.u32 [%rd1], 1; bra E;
    .loc 1 22 1
    A: st.shared.u32 [%r4], 7; bar.sync 0; ld.shared.u32 %r6, [%r4]; st.global.u32 [%rd1], %r6; E:)";
  finds("sync", kernel(divergent), {"divergent barrier", "kernel.cu:20", "kernel.cu:22"});
  finds("sync",
        kernel("setp.gt.u32 %p1, %r2, 40; @%p1 bra E; bar.sync 0; st.global.u32 [%rd1], 1; E:"),
        {"reached by 41 of 64 threads; thread 41 had exited"});
  clean("sync", kernel(kWrite + kBarrier + kRead));
}

// promise: Check mode finds barriers that threads miss or confuse
TEST_F(Check, WarpMasksWithExitedOrMissingLanesAreFound) {
  finds("sync", kernel("vote.sync.ballot.b32 %r5, 1, 0x0000ffff; st.global.u32 [%rd1], %r5;"),
        {"wrong warp mask", "lane 16"});
  finds("sync",
        kernel("setp.lt.u32 %p1, %r2, 8; @%p1 bra E; activemask.b32 %r6; vote.sync.ballot.b32 %r5, "
               "1, 0xffffffff;"
               " st.global.u32 [%rd1], %r5; E:"),
        {"wrong warp mask", "lanes that have exited: 0x000000ff"}, {1}, {32});
  clean("sync", kernel("vote.sync.ballot.b32 %r5, 1, 0xffffffff; st.global.u32 [%rd1], %r5;"));
}

TEST_F(Check, FindingsAreSuppressedByKernelAndLine) {
  std::string racy = kernel(kWrite + kRead);  // all in one line
  for (const char* line : {".loc 1 9 1", ".loc 1 10 1"})
    racy.erase(racy.find(line), std::strlen(line));
  racy.insert(racy.find("st.shared"), ".loc 1 5 1\n");
  for (const char* list : {"race:k", "race:kernel.cu:5", "all:kernel.cu", "init:x,race:kern*:5"}) {
    const Environment suppress{"CUCORE_CHECK_SUPPRESS", list};
    clean("race", racy);
  }
  const Environment other{"CUCORE_CHECK_SUPPRESS", "init:k,race:other,race:kernel.cu:9"};
  finds("race", racy, {"data race"});
}

TEST_F(Check, WithContinueKernelsContinueAndFindingsArePrintedOncePerLocation) {
  for (const char* width : {"1", "16"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run("race,continue", kernel(kWrite + kRead), {1}, {64}, width).code, 0);
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_NE(printed.find("cucore: check: kernel k: data race"), std::string::npos) << printed;
    EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2)
        << printed;  // the write after a read, and the read after a write
  }
}

TEST_F(Check, InvalidSettingsAreNamed) {
  for (const char* value : {"races", "memory,,x", "continue", "memory=1"}) {
    const Environment check{"CUCORE_CHECK", value};
    try {
      load("", memory_);
      ADD_FAILURE() << value;
    } catch (const LoadError& error) {
      EXPECT_EQ(error.code, 1);
      EXPECT_EQ(std::string{error.what()}.find(std::string{"CUCORE_CHECK="} + value + ": expected"),
                0U)
          << error.what();
    }
  }
  const Environment suppress{"CUCORE_CHECK_SUPPRESS", "nonsense"};
  EXPECT_THROW(load("", memory_), LoadError);
}

TEST_F(Check, CheckedCodeHasItsOwnCacheEntries) {
  unsetenv("CUCORE_CPU_CACHE");
  const cucore::test::TemporaryFolder folder;
  const Environment place{"CUCORE_CACHE_DIR", (folder.path() / "c").string()};
  const std::string racy = kernel(kWrite + kRead);
  for (int i = 0; i < 2; ++i) {
    clean("", racy);
    finds("race", racy, {"data race"});
  }
}

}  // namespace
}  // namespace cucpu::test
