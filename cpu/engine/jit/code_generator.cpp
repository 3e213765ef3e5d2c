// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/code_generator.cpp
#include "cpu/engine/jit/code_generator.hpp"

#include <llvm/Transforms/Utils/Cloning.h>

#include <atomic>
#include <stdexcept>

#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/jit/llvm_once.hpp"

namespace cucpu {
namespace {

/// Code generators of initialize_codegen_passes() by optimization level, until they are used.
std::atomic<CodeGenerator*> g_spare[3];

std::atomic<CodeGenerator*>& spare(int optimization) {
  return g_spare[optimization <= 0 ? 0 : optimization == 1 ? 1 : 2];
}

}  // namespace

CodeGenerator::CodeGenerator(int optimization)
    : target_{make_target_machine(optimization)},
      passes_{std::make_unique<llvm::legacy::PassManager>()} {
  if (target_->addPassesToEmitFile(*passes_, out_, nullptr, llvm::CodeGenFileType::ObjectFile))
    throw std::runtime_error{"this host's code generator cannot write objects"};
}

std::unique_ptr<CodeGenerator> CodeGenerator::make(int optimization) {
  if (CodeGenerator* const made = spare(optimization).exchange(nullptr))
    return std::unique_ptr<CodeGenerator>{made};
  return std::make_unique<CodeGenerator>(optimization);
}

std::string CodeGenerator::object(llvm::Module& module) {
  passes_->run(module);
  passes_.reset();  // passes may access the module until they are destroyed
  return text_.str().str();
}

std::string emit_assembly(llvm::Module& module, llvm::TargetMachine* target) {
  const std::unique_ptr<llvm::Module> copy =
      llvm::CloneModule(module);  // codegen changes its input
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out{text};
  llvm::legacy::PassManager passes;
  if (target->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw std::runtime_error{"this host's code generator cannot write assembly"};
  passes.run(*copy);
  return text.str().str();
}

void initialize_codegen_passes(int optimization) {
  static LlvmOnce once[2];
  once[optimization <= 0 ? 0 : 1](
      [&] { spare(optimization) = std::make_unique<CodeGenerator>(optimization).release(); });
}

}  // namespace cucpu
