// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/ptx_test.cpp: PTX end to end, on the scalar path and on whatever the engine
// chooses.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "../temporary_folder.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

const char* const kIndex = R"(
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .f32 %f<8>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r0, %r1, %r2;
)";

std::string kernel(const std::string& name, const std::string& params, const std::string& body) {
  return ".visible .entry " + name + "(" + params + ") {" + kIndex + body + "\n ret;\n}\n";
}

/// Loads the parameter `out` and points %rd1 at out[global thread index].
const char* const kOut =
    "ld.param.u64 %rd0, [out]; mul.wide.s32 %rd1, %r3, 4; add.s64 %rd1, %rd0, %rd1;";

class Ptx : public ::testing::TestWithParam<const char*> {
 protected:
  Environment width_{"CUCORE_CPU_W", GetParam()};
  Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
};
INSTANTIATE_TEST_SUITE_P(Width, Ptx, ::testing::Values("1", ""),
                         [](const auto& info) { return *info.param ? "scalar" : "chosen"; });

TEST_P(Ptx, EveryThreadRunsOnce) {
  const auto module = load(
      kernel("k", ".param .u64 out",
             std::string{kOut} + "red.global.add.u32 [%rd1], %r3; red.global.add.u32 [%rd1], 1;"),
      memory_);
  std::vector<std::uint32_t> out(5 * 77);
  EXPECT_EQ(launch(*module, "k", shape_of({5}, {77}), out.data()).code, 0);
  for (std::uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i + 1);
}

TEST_P(Ptx, ABarrierSeparatesSharedWritesFromReads) {
  const auto module = load(kernel("k", ".param .u64 out", std::string{kOut} + R"(
    .shared .align 4 .b8 s[1024];
    mov.u32 %r4, s; mad.lo.s32 %r5, %r2, 4, %r4; st.shared.u32 [%r5], %r3;
    bar.sync 0;
    sub.s32 %r6, %r1, %r2; sub.s32 %r6, %r6, 1; mad.lo.s32 %r7, %r6, 4, %r4; ld.shared.u32 %r8, [%r7];
    st.global.u32 [%rd1], %r8;)"),
                           memory_);
  std::vector<std::uint32_t> out(6 * 256);
  const Ended ended = launch(*module, "k", shape_of({6}, {256}), out.data());
  EXPECT_EQ(ended.code, 0) << ended.report;
  for (std::uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i / 256 * 256 + 255 - i % 256);
}

TEST_P(Ptx, AGridStrideLoopAndATreeOverSharedMemoryReduce) {
  const auto module = load(kernel("k", ".param .u64 in, .param .u64 out, .param .u32 n", R"(
    .shared .align 4 .b8 s[512];
    ld.param.u64 %rd0, [in]; ld.param.u64 %rd5, [out]; ld.param.u32 %r4, [n];
    mov.u32 %r5, %nctaid.x; mul.lo.s32 %r6, %r5, %r1; mov.u32 %r7, 0; mov.u32 %r8, %r3;
    setp.ge.s32 %p1, %r8, %r4; @%p1 bra SUMMED;
  NEXT:
    mul.wide.s32 %rd1, %r8, 4; add.s64 %rd2, %rd0, %rd1; ld.global.u32 %r9, [%rd2]; add.s32 %r7, %r7, %r9; add.s32 %r8, %r8, %r6;
    setp.lt.s32 %p2, %r8, %r4; @%p2 bra NEXT;
  SUMMED:
    mov.u32 %r10, s; shl.b32 %r11, %r2, 2; add.s32 %r12, %r10, %r11; st.shared.u32 [%r12], %r7;
    bar.sync 0; mov.u32 %r13, 64;
  TREE:
    setp.ge.s32 %p3, %r2, %r13; @%p3 bra SKIP;
    shl.b32 %r14, %r13, 2; add.s32 %r15, %r12, %r14; ld.shared.u32 %r16, [%r15]; ld.shared.u32 %r17, [%r12]; add.s32 %r17, %r17, %r16; st.shared.u32 [%r12], %r17;
  SKIP:
    bar.sync 0; shr.u32 %r13, %r13, 1; setp.ne.s32 %p4, %r13, 0; @%p4 bra TREE;
    setp.ne.s32 %p5, %r2, 0; @%p5 bra END;
    ld.shared.u32 %r18, [s]; red.global.add.u32 [%rd5], %r18;
  END:)"),
                           memory_);
  std::vector<std::uint32_t> in(10'000);
  std::uint32_t expected = 0, out = 0;
  for (std::uint32_t i = 0; i < in.size(); ++i) expected += in[i] = i * 7919 % 1009;
  const Ended ended = launch(*module, "k", shape_of({9}, {128}), in.data(), &out,
                             static_cast<std::uint32_t>(in.size()));
  EXPECT_EQ(ended.code, 0) << ended.report;
  EXPECT_EQ(out, expected);
}

TEST_P(Ptx, WarpReductionsByShuffle) {
  const auto module = load(kernel("k", ".param .u64 out", std::string{kOut} + R"(
    mov.u32 %r9, %r2;
    shfl.sync.bfly.b32 %r10, %r9, 16, 31, -1; add.s32 %r9, %r9, %r10;
    shfl.sync.bfly.b32 %r10, %r9, 8, 31, -1; add.s32 %r9, %r9, %r10;
    shfl.sync.bfly.b32 %r10, %r9, 4, 31, -1; add.s32 %r9, %r9, %r10;
    shfl.sync.bfly.b32 %r10, %r9, 2, 31, -1; add.s32 %r9, %r9, %r10;
    shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1; add.s32 %r9, %r9, %r10;
    st.global.u32 [%rd1], %r9;)"),
                           memory_);
  std::vector<std::uint32_t> out(128);
  EXPECT_EQ(launch(*module, "k", shape_of({1}, {128}), out.data()).code, 0);
  for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], i / 32 * 1024 + 496);
}

TEST_P(Ptx, VariablesAreFoundAndShared) {
  const auto module = load(
      ".visible .global .align 4 .u32 counter = 5;\n.visible .const .align 4 .u32 step = 3;\n" +
          kernel("k", ".param .u64 out",
                 "ld.const.u32 %r4, [step]; red.global.add.u32 [counter], %r4;"),
      memory_);
  const Variable* counter = module->find_variable("counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter->size, 4);
  EXPECT_EQ(launch(*module, "k", shape_of({2}, {40}), static_cast<void*>(nullptr)).code, 0);
  EXPECT_EQ(*static_cast<std::uint32_t*>(counter->address), 5 + 3 * 80);
  EXPECT_EQ(module->find_variable("nothing"), nullptr);
}

TEST_P(Ptx, ASpinLockIsFair) {
  const auto module = load(kernel("k", ".param .u64 out", R"(
    ld.param.u64 %rd0, [out];
  TRY:
    atom.global.acquire.gpu.cas.b32 %r4, [%rd0], 0, 1;
    setp.ne.s32 %p1, %r4, 0;
    @%p1 bra TRY;
    ld.volatile.global.u32 %r5, [%rd0+4]; add.s32 %r5, %r5, 1; st.volatile.global.u32 [%rd0+4], %r5;
    atom.global.release.gpu.exch.b32 %r6, [%rd0], 0;)"),
                           memory_);
  std::uint32_t state[2] = {0, 0};
  EXPECT_EQ(launch(*module, "k", shape_of({4}, {64}), &state[0]).code, 0);
  EXPECT_EQ(state[1], 256);
}

TEST_P(Ptx, AnIllegalStoreIsAFaultAndTheNextLaunchWorks) {
  const auto module = load(kernel("k", ".param .u64 out, .param .u32 who", std::string{kOut} + R"(
    ld.param.u32 %r4, [who]; setp.eq.s32 %p1, %r3, %r4; @%p1 st.global.u32 [64], %r3; st.global.u32 [%rd1], %r3;)"),
                           memory_);
  std::vector<std::uint32_t> out(256);
  const Ended bad = launch(*module, "k", shape_of({4}, {64}), out.data(), std::uint32_t{70});
  EXPECT_EQ(bad.code, 700);
  EXPECT_NE(bad.report.find("kernel k: illegal memory access at 0x40"), std::string::npos)
      << bad.report;
  EXPECT_NE(bad.report.find("block (1, 0, 0)"), std::string::npos) << bad.report;
  EXPECT_EQ(launch(*module, "k", shape_of({4}, {64}), out.data(), ~0U).code, 0);
  EXPECT_EQ(out[255], 255);
}

// promise: A trap is error 719 and a failed assertion error 710, whichever thread raised it
TEST_P(Ptx, TrapAndAssertHaveTheirCodes) {
  const auto module = load(R"(
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 what[4] = {120, 62, 48, 0};
.global .align 1 .b8 where[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 who[2] = {102, 0};
)" + kernel("t", "", "trap;") + kernel("a", "", R"(
    mov.u64 %rd1, what; cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, where; cvta.global.u64 %rd2, %rd2; mov.u64 %rd3, who; cvta.global.u64 %rd3, %rd3;
    mov.u32 %r4, 12; mov.u64 %rd4, 1;
    { .param .b64 p0; st.param.b64 [p0], %rd1; .param .b64 p1; st.param.b64 [p1], %rd2; .param .b32 p2; st.param.b32 [p2], %r4;
      .param .b64 p3; st.param.b64 [p3], %rd3; .param .b64 p4; st.param.b64 [p4], %rd4; call.uni __assertfail, (p0, p1, p2, p3, p4); })"),
                           memory_);
  EXPECT_EQ(launch(*module, "t", shape_of({1}, {32})).code, 719);
  const Ended failed = launch(*module, "a", shape_of({1}, {32}));
  EXPECT_EQ(failed.code, 710);
  EXPECT_NE(failed.report.find("a.cu:12: f: Assertion `x>0` failed"), std::string::npos)
      << failed.report;
}

TEST_P(Ptx, PrintfFormatsItsArguments) {
  static std::string printed;
  printed.clear();
  Hooks hooks;
  hooks.print = [](std::string_view text) { printed += text; };
  set_hooks(hooks);
  std::string format = "%d|%5.2f|%s|%c|%lld|%%|%-4x|%p|%*d\n", bytes;
  for (const char c : format) bytes += std::to_string(static_cast<int>(c)) + ", ";
  const auto module = load(R"(
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 fmt[)" + std::to_string(format.size() + 1) +
                               "] = {" + bytes + R"(0};
.global .align 1 .b8 str[3] = {104, 105, 0};
)" + kernel("k", ".param .u64 out", R"(
    .local .align 8 .b8 buf[72];
    mov.u64 %rd9, buf; cvta.local.u64 %rd8, %rd9;
    mov.u32 %r4, -7; st.local.u32 [%rd9], %r4; mov.u64 %rd2, 0d400921FB54442D18; st.local.u64 [%rd9+8], %rd2;
    mov.u64 %rd3, str; cvta.global.u64 %rd3, %rd3; st.local.u64 [%rd9+16], %rd3; mov.u32 %r5, 65; st.local.u32 [%rd9+24], %r5;
    mov.u64 %rd4, -1234567890123; st.local.u64 [%rd9+32], %rd4; mov.u32 %r6, 255; st.local.u32 [%rd9+40], %r6;
    mov.u64 %rd5, 4096; st.local.u64 [%rd9+48], %rd5; mov.u32 %r7, 6; st.local.u32 [%rd9+56], %r7; st.local.u32 [%rd9+60], %r6;
    mov.u64 %rd6, fmt; cvta.global.u64 %rd6, %rd6;
    { .param .b64 p0; st.param.b64 [p0], %rd6; .param .b64 p1; st.param.b64 [p1], %rd8; .param .b32 q; call.uni (q), vprintf, (p0, p1); ld.param.b32 %r8, [q]; }
    ld.param.u64 %rd0, [out]; st.global.u32 [%rd0], %r8;)"),
                           memory_);
  std::uint32_t count = 0;
  EXPECT_EQ(launch(*module, "k", shape_of({1}, {1}), &count).code, 0);
  EXPECT_EQ(printed, "-7| 3.14|hi|A|-1234567890123|%|ff  |0x1000|   255\n");
  EXPECT_EQ(count, 9);
}

// promise: Malformed PTX is error 218 with line and column
// promise: PTX of an unknown version or with an unknown instruction is an error that names it;
// no kernel is skipped
TEST(PtxLoad, ErrorsHaveCodeAndLocation) {
  TestMemory memory;
  try {
    load(".visible .entry k() { frobnicate.u32 1; ret; }", memory);
    FAIL() << "loaded";
  } catch (const LoadError& error) {
    EXPECT_EQ(error.code, 218);
    EXPECT_NE(std::string{error.what()}.find("ptx:4:"), std::string::npos) << error.what();
  }
  const std::string_view too_new[] = {".version 99.0\n.target sm_90\n.address_size 64\n"};
  try {
    Module::load(too_new, {}, memory);
    FAIL() << "loaded";
  } catch (const LoadError& error) {
    EXPECT_EQ(error.code, 222);
  }
}

TEST(PtxLoad, AnInvalidSettingIsNamed) {
  TestMemory memory;
  const Environment bad{"CUCORE_CPU_W", "7"};
  try {
    load("", memory);
    FAIL() << "loaded";
  } catch (const LoadError& error) {
    EXPECT_STREQ(error.what(), "CUCORE_CPU_W=7: expected 1, 4, 8, 16 or 32");
  }
}

TEST(PtxLoad, OnlyFeaturesOfTheHostCanBeLeftOut) {
  TestMemory memory;
  for (const char* value : {"avx2", "+neon", "-no-such-feature", "-"}) {
    const Environment bad{"CUCORE_CPU_FEATURES", value};
    try {
      load("", memory);
      FAIL() << "loaded";
    } catch (const LoadError& error) {
      EXPECT_EQ(error.what(),
                "CUCORE_CPU_FEATURES=" + std::string{value} +
                    ": expected a list of -NAME, where NAME is a feature of this host, such as "
                    "-avx512f");
    }
  }
}

TEST(PtxLoad, IntermediateFormsAreDumpedUnderBothNames) {
  for (const char* list : {"ptx,thread,block,asm", "ptx,ssa,llvm,asm"}) {
    const cucore::test::TemporaryFolder folder;
    {
      TestMemory memory;
      const Environment cache{"CUCORE_CPU_CACHE", "0"};
      const Environment what{"CUCORE_CPU_DUMP", list};
      const Environment where{"CUCORE_CPU_DUMP_DIR", folder.path().string()};
      const auto module = load(kernel("k", "", ""), memory);
      EXPECT_EQ(launch(*module, "k", shape_of({2}, {32})).code, 0);
    }
    for (const char* form : {"k.thread.ll", "k.block.ll", "k.s"})
      EXPECT_TRUE(std::filesystem::exists(folder.path() / form)) << list << ": " << form;
  }
}

TEST(PtxLoad, DumpedPtxIsTheTextOfEachInput) {
  const cucore::test::TemporaryFolder folder;
  const std::string header = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const std::string first = header + kernel("k", "", ""), second = header + kernel("l", "", "");
  {
    TestMemory memory;
    const Environment what{"CUCORE_CPU_DUMP", "ptx"};
    const Environment where{"CUCORE_CPU_DUMP_DIR", folder.path().string()};
    const std::string_view both[] = {first, second};
    Module::load(both, {}, memory);
  }
  std::set<std::string> dumped;
  for (const auto& entry : std::filesystem::directory_iterator{folder.path()}) {
    std::ifstream file{entry.path()};
    dumped.emplace(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
  }
  EXPECT_EQ(dumped, (std::set{first, second}));
}

// promise: A kernel that exceeds the time limit is error 702
TEST(PtxLoad, TheTimeLimitIs702) {
  TestMemory memory;
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const Environment limit{"CUCORE_CPU_TIMEOUT", "0.05"};
  const auto module = load(kernel("k", "", "L: bra L;"), memory);
  const Ended ended = launch(*module, "k", shape_of({2}, {32}));
  EXPECT_EQ(ended.code, 702);
}

class DiskCacheTest : public ::testing::Test {
 protected:
  const cucore::test::TemporaryFolder own_;
  const std::string folder_ = (own_.path() / "c").string();

  /// One launch in a fresh module; how many entries the folder then holds.
  std::size_t run_once() {
    TestMemory memory;
    const Environment folder{"CUCORE_CACHE_DIR", folder_};
    const auto module = load(
        kernel("k", ".param .u64 out", std::string{kOut} + "st.global.u32 [%rd1], %r3;"), memory);
    std::vector<std::uint32_t> out(64);
    EXPECT_EQ(launch(*module, "k", shape_of({2}, {32}), out.data()).code, 0);
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i);
    return entries().size();
  }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator{folder_, none})
      if (entry.path().extension() == ".o") found.push_back(entry.path());
    return found;
  }
};

TEST_F(DiskCacheTest, EntriesAreWrittenOnceWithOwnerOnlyAccess) {
  const std::size_t first = run_once();
  EXPECT_GE(first, 1);
  const auto written = std::filesystem::last_write_time(entries()[0]);
  struct stat info {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
  EXPECT_EQ(run_once(), first);
  EXPECT_GE(std::filesystem::last_write_time(entries()[0]), written);
}

TEST_F(DiskCacheTest, ACorruptEntryIsCompiledAgain) {
  run_once();
  for (const auto& path : entries()) {
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(-3, std::ios::end);
    file.put('\x5a').put('\x5a');
  }
  run_once();
}

// promise: A damaged, truncated or swapped cache entry is compiled again, never run
TEST_F(DiskCacheTest, ARenamedEntryIsNotRun) {
  run_once();
  const auto mine = entries();
  {
    TestMemory memory;
    const Environment folder{"CUCORE_CACHE_DIR", folder_};
    const auto other = load(
        kernel("k", ".param .u64 out", std::string{kOut} + "st.global.u32 [%rd1], 7;"), memory);
    std::vector<std::uint32_t> out(64);
    launch(*other, "k", shape_of({2}, {32}), out.data());
  }
  for (const auto& path : entries())
    if (std::find(mine.begin(), mine.end(), path) == mine.end())
      for (const auto& target : mine)
        std::filesystem::copy_file(path, target, std::filesystem::copy_options::overwrite_existing);
  run_once();
}

TEST_F(DiskCacheTest, AFolderWithAccessForOthersOrALinkIsNotUsed) {
  std::filesystem::create_directories(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::all);
  EXPECT_EQ(run_once(), 0);
  std::filesystem::remove_all(folder_);
  const std::string elsewhere = folder_ + ".real";
  std::filesystem::create_directories(elsewhere);
  std::filesystem::permissions(elsewhere, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(elsewhere, folder_);
  EXPECT_EQ(run_once(), 0);
}

}  // namespace
}  // namespace cucpu::test
