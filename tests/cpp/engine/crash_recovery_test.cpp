// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/crash_recovery_test.cpp: a crash of the compiler is an exception, and the next
// compilation works.
#include "cpu/engine/run/crash_recovery.hpp"

#include <filesystem>

#include "../temporary_folder.hpp"
#include "ir_fixture.hpp"

namespace cucpu::test {
namespace {

std::string crash_of(const std::function<void()>& work) {
  try {
    run_with_crash_recovery(work);
  } catch (const Crashed& crashed) {
    return crashed.what();
  }
  return "no crash";
}

[[maybe_unused]] int deeper(volatile int* above) {
  volatile int here[64];
  here[0] = *above;
  return *above < 0 ? 0 : deeper(here) + here[0];
}

TEST(CrashRecovery, WorkCompletesOrItsExceptionIsRethrown) {
  int n = 0;
  run_with_crash_recovery([&] { n = 7; });
  EXPECT_EQ(n, 7);
  EXPECT_THROW(run_with_crash_recovery([] { throw std::out_of_range{"x"}; }), std::out_of_range);
}

// promise: A crash inside the PTX compiler is an error that names a file with its input; the
// process continues
TEST(CrashRecovery, FaultsAbortsAndOverflowsAreExceptions) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(crash_of([] {
                std::uintptr_t address = 8;
                asm volatile("" : "+r"(address));
                *reinterpret_cast<volatile int*>(address) = 1;
              }),
              "segmentation fault");
    EXPECT_EQ(crash_of([] { abort(); }), "abort");
    EXPECT_EQ(crash_of([] { __builtin_trap(); }), "illegal instruction");
    // The thread sanitizer keeps calls on a stack of its own, of 65,536 frames and without a bound:
    // half a gigabyte of frames runs out of that one first, inside the sanitizer.
#if !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(crash_of([] {
                volatile int start = 1;
                deeper(&start);
              }),
              "stack overflow");
#endif
    EXPECT_EQ(crash_of([] { raise_crash("given up"); }), "given up");
  }
  bool ran = false;
  run_with_crash_recovery([&] { ran = true; });
  EXPECT_TRUE(ran);
}

/// A kernel LLVM cannot make code for: an instruction of another machine. Its answer is to end the
/// process.
const char* const kImpossible = R"(define void @k() "cucpu.kernel" {
  call void @NAME()
  ret void
}
declare void @NAME()
)";

// promise: A crash inside the PTX compiler is an error that names a file with its input; the
// process continues
TEST(CrashRecovery, AFatalErrorOfLlvmIsALoadErrorThatKeepsItsInput) {
  std::string text = kImpossible;
#if defined(__aarch64__)
  const std::string name = "llvm.x86.sse2.pause";
#else
  const std::string name = "llvm.aarch64.clrex";
#endif
  for (std::size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, name);
  const cucore::test::TemporaryFolder folder;
  Settings settings;
  settings.cache_folder = folder.path().string();
  const std::string bitcode = bitcode_of(text);
  CompileJob job;
  job.bitcode = bitcode;
  job.kernel = "k";
  try {
    compile_kernel(job, settings);
    ADD_FAILURE() << "compiled";
  } catch (const LoadError& error) {
    EXPECT_EQ(error.code, 218);
    const std::string what = error.what();
    EXPECT_NE(what.find("kernel k: the compiler failed: Cannot select"), std::string::npos) << what;
    const std::size_t at = what.find("kept in ");
    ASSERT_NE(at, std::string::npos) << what;
    EXPECT_EQ(std::filesystem::file_size(what.substr(at + 8)), bitcode.size());
  }
  Compiled good{"define void @k() \"cucpu.kernel\" { ret void }"};
  EXPECT_EQ(good.run({1}, {32}, nullptr).code, 0);
}

}  // namespace
}  // namespace cucpu::test
