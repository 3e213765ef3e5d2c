// cpu/engine/jit/generator.cpp
#include "cpu/engine/jit/generator.hpp"

#include <atomic>
#include <stdexcept>

#include "cpu/engine/jit/host.hpp"
#include "cpu/engine/jit/once.hpp"

namespace cucpu {
namespace {

/// From announce_passes(), by what LLVM tells apart of the optimization, until it is used.
std::atomic<Generator*> g_spare[3];

std::atomic<Generator*>& spare(int optimization) {
  return g_spare[optimization <= 0 ? 0 : optimization == 1 ? 1 : 2];
}

}  // namespace

Generator::Generator(int optimization)
    : target_{make_target_machine(optimization)},
      passes_{std::make_unique<llvm::legacy::PassManager>()} {
  if (target_->addPassesToEmitFile(*passes_, out_, nullptr, llvm::CodeGenFileType::ObjectFile))
    throw std::runtime_error{"this host's code generator cannot write objects"};
}

std::unique_ptr<Generator> Generator::make(int optimization) {
  if (Generator* const made = spare(optimization).exchange(nullptr))
    return std::unique_ptr<Generator>{made};
  return std::make_unique<Generator>(optimization);
}

std::string Generator::object(llvm::Module& module) {
  passes_->run(module);
  passes_.reset();  // they may look at the module as long as they live
  return text_.str().str();
}

void announce_passes(int optimization) {
  static Once once[2];
  once[optimization <= 0 ? 0 : 1](
      [&] { spare(optimization) = std::make_unique<Generator>(optimization).release(); });
}

}  // namespace cucpu
