// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/vector_target_test.cpp: which vector instructions code uses on which processors.
#include "cpu/engine/simt/vector_target.hpp"

#include <gtest/gtest.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Type.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "cpu/engine/jit/host_target.hpp"

namespace cucpu::test {
namespace {

using simt::VectorTarget;

/// What code for a processor may use; nothing on hosts of another architecture.
VectorTarget of_x86(const std::string& cpu, const std::string& more = "") {
  (void)host_target();  // registers LLVM's native target
  std::string error;
  const std::string triple = "x86_64-pc-linux-gnu";
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return {};
  const std::string features =
      (has_slow_gathers(cpu) ? "+prefer-no-gather" : "") + (more.empty() ? "" : "," + more);
  const std::unique_ptr<llvm::TargetMachine> machine{
      target->createTargetMachine(triple, cpu, features, {}, llvm::Reloc::PIC_)};
  return VectorTarget::of(machine.get());
}

TEST(SlowGathers, AreThoseOfIntelsProcessorsFromSkylakeToTigerLake) {
  for (const char* cpu : {"skylake", "skylake-avx512", "cascadelake", "icelake-server"})
    EXPECT_TRUE(has_slow_gathers(cpu)) << cpu;
  for (const char* cpu : {"haswell", "alderlake", "sapphirerapids", "znver4", "neoverse-v1", ""})
    EXPECT_FALSE(has_slow_gathers(cpu)) << cpu;
}

#if defined(__x86_64__)
TEST(VectorTarget, UsesGathersWhereTheyAreFast) {
  llvm::LLVMContext context;
  llvm::Type* number = llvm::Type::getFloatTy(context);
  EXPECT_TRUE(of_x86("sapphirerapids").has_gather(*number));
  EXPECT_TRUE(of_x86("alderlake").has_gather(*number));
  EXPECT_FALSE(of_x86("cascadelake").has_gather(*number));
  EXPECT_FALSE(of_x86("cascadelake", "-avx512f").has_gather(*number));
  EXPECT_TRUE(of_x86("cascadelake").has_scatter(*number));
  EXPECT_TRUE(of_x86("cascadelake").has_masked_access(*number));
}
#endif

}  // namespace
}  // namespace cucpu::test
