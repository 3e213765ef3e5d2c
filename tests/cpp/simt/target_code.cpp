// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/target_code.cpp
#include "target_code.hpp"

#include <gtest/gtest.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>

#include <iterator>
#include <regex>

#include "cpu/engine/jit/instrument.hpp"
#include "cpu/engine/nan/canonical_select.hpp"
#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/nan/saturating_convert.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/engine/simt/dot_products.hpp"
#include "cpu/engine/simt/lower_gathers.hpp"
#include "cpu/engine/simt/widen_masks.hpp"
#include "cpu/ptx/parser.hpp"

using namespace llvm;

std::unique_ptr<TargetMachine> machine(const char* cpu, const std::string& triple,
                                       const char* features) {
  static const bool ready = [] {
    InitializeAllTargetInfos();
    InitializeAllTargets();
    InitializeAllTargetMCs();
    InitializeAllAsmPrinters();
    return true;
  }();
  (void)ready;
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(triple, error);
  if (!target) return nullptr;
  return std::unique_ptr<TargetMachine>{
      target->createTargetMachine(triple, cpu, features, TargetOptions{}, Reloc::PIC_)};
}

Made compile(const std::string& ptx, const std::string& kernel, cucpu::Dim3 block,
             TargetMachine& target, unsigned check) {
  cucpu::ptx::Diagnostics diagnostics{"test"};
  auto parsed = cucpu::ptx::parse(ptx, diagnostics);
  EXPECT_FALSE(diagnostics.failed()) << diagnostics.log();
  const cucpu::ptx::Module* modules[] = {parsed.module.get()};
  LLVMContext context;
  cucpu::TranslateOptions options;
  options.native_half = false;
  options.shared_variables = check != 0;
  auto translation = cucpu::pipeline::thread_code(modules, context, options);
  Module& module = *translation.module;
  if (check != 0) cucpu::instrument(module, /*lanes=*/true);
  module.setTargetTriple(target.getTargetTriple().str());
  module.setDataLayout(target.createDataLayout());
  cucpu::simt::Options how;
  how.block = block;
  how.target = &target;
  how.check = check;
  auto made = cucpu::pipeline::vectorize(*module.getFunction(kernel), how);
  EXPECT_EQ(made.report.refusal, "") << kernel;
  if (!made.function) return {made.report, ""};
  for (Function& function : module)
    if (&function != made.function && !function.isDeclaration()) function.deleteBody();
  EXPECT_FALSE(verifyModule(module, &errs())) << kernel;
  cucpu::pipeline::optimize_block(*made.function, &target);
  cucpu::lower_min_max(*made.function, &target);
  cucpu::lower_saturating_conversions(*made.function, &target);
  cucpu::simt::form_dot_products(*made.function, &target);
  cucpu::fold_canonical_selects(*made.function, &target);
  cucpu::simt::lower_gathers(*made.function, cucpu::simt::VectorTarget::of(&target));
  cucpu::simt::widen_masks(*made.function, cucpu::simt::MaskForm::of(&target));
  EXPECT_FALSE(verifyModule(module, &errs())) << kernel;
  SmallString<0> text;
  raw_svector_ostream out{text};
  legacy::PassManager passes;
  EXPECT_FALSE(target.addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile));
  passes.run(module);
  return {made.report, text.str().str()};
}

std::size_t matches(const std::string& text, const std::string& pattern) {
  const std::regex regex{pattern};
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}
