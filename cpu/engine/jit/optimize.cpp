// cpu/engine/jit/optimize.cpp
#include "cpu/engine/jit/optimize.hpp"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Target/TargetMachine.h>

#include <stdexcept>

#include "cpu/engine/simt/analyses.hpp"

namespace cucpu {

using namespace llvm;

void run_module_passes(Module& module, TargetMachine* target,
                       const std::function<void(ModulePassManager&)>& add) {
  TargetLibraryInfoImpl library{Triple{module.getTargetTriple()}};
  library.disableAllFunctions();
  for (const LibFunc f : {LibFunc_memcpy, LibFunc_memmove, LibFunc_memset}) library.setAvailable(f);
  simt::Analyses analyses{target, &library};
  ModulePassManager passes;
  add(passes);
  passes.run(module, analyses.modules);
}

void optimize_module(Module& module, TargetMachine* target, int level) {
  const OptimizationLevel o = level <= 0   ? OptimizationLevel::O0
                              : level == 1 ? OptimizationLevel::O1
                                           : OptimizationLevel::O2;
  PassBuilder builder{target};
  run_module_passes(module, target, [&](ModulePassManager& passes) {
    passes = o == OptimizationLevel::O0 ? builder.buildO0DefaultPipeline(o)
                                        : builder.buildPerModuleDefaultPipeline(o);
  });
}

std::string emit_assembly(Module& module, TargetMachine* target) {
  const std::unique_ptr<Module> copy =
      CloneModule(module);  // code generation changes what it reads
  SmallString<0> text;
  raw_svector_ostream out{text};
  legacy::PassManager passes;
  if (target->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile))
    throw std::runtime_error{"this host's code generator cannot write assembly"};
  passes.run(*copy);
  return text.str().str();
}

void verify(Module& module, const char* stage) {
  std::string text;
  raw_string_ostream out{text};
  if (verifyModule(module, &out))
    throw std::runtime_error{std::string{"invalid code after "} + stage + ": " + out.str()};
}

}  // namespace cucpu
