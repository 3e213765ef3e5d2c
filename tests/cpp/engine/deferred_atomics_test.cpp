// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/deferred_atomics_test.cpp: atomics at the end of a kernel are done for several
// blocks at once; what memory holds is what one atomic operation for each block could have left
// there.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

constexpr std::uint32_t kBlocks = 5000, kThreads = 64;

/// One thread of each block does `operation` to out[ctaid >> shift], then nothing more.
std::string kernel(const std::string& operation, const std::string& before = {}) {
  return R"(.visible .entry k(.param .u64 out, .param .u32 shift) {
  .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>; .reg .f32 %f<8>; .reg .f64 %d<8>;
  ld.param.u64 %rd0, [out]; ld.param.u32 %r9, [shift];
  mov.u32 %r0, %ctaid.x; mov.u32 %r2, %tid.x; shr.u32 %r3, %r0, %r9;
  mul.wide.u32 %rd1, %r3, 8; add.s64 %rd1, %rd0, %rd1;
  cvt.rn.f32.u32 %f0, %r0; cvt.rn.f64.u32 %d0, %r0;
  )" + before +
         R"(
  setp.ne.u32 %p0, %r2, 0; @%p0 bra END;
  )" + operation +
         "\nEND: ret;\n}\n";
}

class DeferredAtomics : public ::testing::Test {
 protected:
  /// Runs the kernel over memory that holds `start` in every place; the places afterwards.
  std::vector<std::uint64_t> run(const std::string& text, std::uint64_t start,
                                 std::uint32_t shift) {
    const auto module = load(text, memory_);
    std::vector<std::uint64_t> out((kBlocks >> shift) + 1, start);
    const Ended ended = launch(*module, "k", shape_of({kBlocks}, {kThreads}), out.data(), shift);
    EXPECT_EQ(ended.code, 0) << ended.report;
    return out;
  }

  Environment cache_{"CUCORE_CPU_CACHE", "0"};
  TestMemory memory_;
};

// Together the sums would be 5000 more. One by one each is rounded away.
TEST_F(DeferredAtomics, EverySumIsRoundedSeparately) {
  const auto one = kernel("red.global.add.f32 [%rd1], 0f3f800000;");
  EXPECT_EQ(run(one, std::bit_cast<std::uint32_t>(16777216.0f), 31)[0],
            std::bit_cast<std::uint32_t>(16777216.0f));
  EXPECT_EQ(run(one, 0, 31)[0], std::bit_cast<std::uint32_t>(5000.0f));
  const auto wide = kernel("red.global.add.f64 [%rd1], 0d3ff0000000000000;");
  EXPECT_EQ(run(wide, std::bit_cast<std::uint64_t>(0x1p53), 31)[0],
            std::bit_cast<std::uint64_t>(0x1p53));
  EXPECT_EQ(run(wide, 0, 31)[0], std::bit_cast<std::uint64_t>(5000.0));
}

TEST_F(DeferredAtomics, SubnormalsAndNansAreThoseOfAGpu) {
  const auto tiny = kernel("red.global.add.f32 [%rd1], 0f00000001;");
  EXPECT_EQ(run(tiny, 0, 31)[0], 0U);  // subnormals are zeros
  EXPECT_EQ(run(tiny, 0x80000001, 31)[0], 0U);
  const auto nan = kernel("red.global.add.f32 [%rd1], 0fffc01234;");
  EXPECT_EQ(run(nan, 0, 31)[0], 0x7fffffffU);
  const auto infinite = kernel(R"(and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 0;
    selp.f32 %f1, 0f7f800000, 0fff800000, %p1; red.global.add.f32 [%rd1], %f1;)");
  EXPECT_EQ(run(infinite, 0, 31)[0], 0x7fffffffU);
}

TEST_F(DeferredAtomics, AddressesThatDifferBetweenBlocksAllGetTheirSums) {
  for (const std::uint32_t shift : {0U, 1U, 3U, 6U, 10U}) {
    const auto floats = run(kernel("red.global.add.f32 [%rd1], %f0;"), 0, shift);
    const auto numbers = run(kernel("red.global.add.u64 [%rd1], 1;"), 3, shift);
    for (std::uint32_t place = 0; place < floats.size(); ++place) {
      float sum = 0;
      std::uint64_t count = 0;
      for (std::uint32_t b = place << shift; b < kBlocks && b < (place + 1) << shift; ++b, ++count)
        sum += static_cast<float>(b);  // below 2^24, so exact in any order
      ASSERT_EQ(floats[place], std::bit_cast<std::uint32_t>(sum)) << place << " of " << shift;
      ASSERT_EQ(numbers[place], 3 + count) << place << " of " << shift;
    }
  }
}

TEST_F(DeferredAtomics, IntegerOperationsGiveTheResultOfSingleAtomics) {
  const auto one = [&](const char* operation, std::uint64_t start) {
    return run(kernel(std::string{"red.global."} + operation + " [%rd1], %r0;"), start, 31)[0];
  };
  EXPECT_EQ(one("add.u32", 5), 5U + kBlocks * (kBlocks - 1) / 2);
  EXPECT_EQ(one("max.u32", 7), kBlocks - 1);
  EXPECT_EQ(one("max.s32", 0xffffffff), kBlocks - 1);
  EXPECT_EQ(one("min.u32", 0xffffffff), 0U);
  EXPECT_EQ(one("min.s32", 0xffffffff), 0xffffffffU);
  EXPECT_EQ(one("or.b32", 0x10000), 0x11fffU);
  EXPECT_EQ(one("and.b32", 0xffffffff), 0U);
  std::uint32_t parity = 9;
  for (std::uint32_t b = 0; b < kBlocks; ++b) parity ^= b;
  EXPECT_EQ(one("xor.b32", 9), parity);
}

TEST_F(DeferredAtomics, AnInvalidAddressIsAFaultOfTheKernel) {
  const auto module = load(kernel("red.global.add.f32 [%rd1], %f0;"), memory_);
  const std::uint64_t nowhere = 0;
  EXPECT_EQ(launch(*module, "k", shape_of({kBlocks}, {kThreads}), nowhere, 31U).code, 700);
}

std::string block_code(const std::string& text) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("deferred_atomics." + std::to_string(getpid()));
  std::stringstream code;
  {
    TestMemory memory;
    const Environment cache{"CUCORE_CPU_CACHE", "0"};
    const Environment what{"CUCORE_CPU_DUMP", "llvm"};
    const Environment where{"CUCORE_CPU_DUMP_DIR", folder};
    const auto module = load(text, memory);
    std::vector<std::uint64_t> out(1);
    EXPECT_EQ(launch(*module, "k", shape_of({1}, {kThreads}), out.data(), 31U).code, 0);
    code << std::ifstream{folder + "/k.block.ll"}.rdbuf();
  }
  std::filesystem::remove_all(folder);
  return code.str();
}

// What comes after it, or who may be waiting for it, forbids to put an atomic off.
TEST(DeferrableAtomics, AreThoseOrderedOnlyBeforeTheEndOfTheGrid) {
  const auto late = [](const std::string& text) {
    const std::string code = block_code(text);
    EXPECT_NE(code.find("cucpu_entry"), code.npos);
    return code.find("write_late") != code.npos;
  };
  const std::string sum = "red.global.add.f32 [%rd1], %f0;";
  EXPECT_TRUE(late(kernel(sum)));
  EXPECT_FALSE(late(kernel(sum + " ld.global.u32 %r5, [%rd1]; st.global.u32 [%rd1+4], %r5;")));
  EXPECT_FALSE(late(kernel(sum + " membar.gl;")));
  EXPECT_FALSE(late(kernel("red.release.gpu.global.add.f32 [%rd1], %f0;")));
  EXPECT_FALSE(late(kernel("red.sys.global.add.f32 [%rd1], %f0;")));
  EXPECT_FALSE(late(kernel("atom.global.add.f32 %f1, [%rd1], %f0; st.global.f32 [%rd1+4], %f1;")));
  EXPECT_FALSE(late(kernel(sum, "ld.volatile.global.u32 %r6, [%rd0]; add.u32 %r2, %r2, %r6;")));
}

}  // namespace
}  // namespace cucpu::test
