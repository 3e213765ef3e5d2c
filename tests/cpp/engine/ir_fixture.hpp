// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/ir_fixture.hpp: runs hand-written thread code.
#pragma once

#include <llvm/AsmParser/Parser.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include "cpu/engine/compile.hpp"
#include "cpu/engine/jit/link.hpp"
#include "grid_fixture.hpp"

namespace cucpu::test {

inline std::string bitcode_of(const std::string& text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  const auto module = llvm::parseAssemblyString(text, problem, context);
  if (!module)
    throw std::runtime_error{problem.getMessage().str() + " in line " +
                             std::to_string(problem.getLineNo())};
  std::string bitcode;
  llvm::raw_string_ostream out{bitcode};
  llvm::WriteBitcodeToFile(*module, out);
  return bitcode;
}

/// The kernel @k of some thread code, compiled the scalar way.
struct Compiled {
  explicit Compiled(const std::string& text, std::vector<SymbolAddress> symbols = {}) {
    const std::string bitcode = bitcode_of(text);
    const FunctionsObject pointed_at = compile_functions(bitcode, {}, 4, Settings{});
    if (!pointed_at.names.empty()) {
      functions = LinkedCode::link(pointed_at.object, symbols, pointed_at.names);
      for (std::size_t i = 0; i < pointed_at.names.size(); ++i)
        symbols.push_back(
            {pointed_at.names[i], reinterpret_cast<std::uint64_t>(functions->address(i))});
    }
    CompileJob job;
    job.bitcode = bitcode;
    job.kernel = "k";
    object = *compile_kernel(job, Settings{});
    const std::string wanted[] = {kEntry};
    linked = LinkedCode::link(object.object, symbols, wanted);
    code.kernel = "k";
    void* entry = linked->address(0);
    (object.fibers ? reinterpret_cast<void*&>(code.thread) : reinterpret_cast<void*&>(code.block)) =
        entry;
    code.stack_bytes = object.stack_bytes;
    code.recursive = object.recursive;
    code.waits_for_blocks = object.waits_for_blocks;
  }
  Outcome run(Dim3 grid, Dim3 block, const void* params, int threads = 1,
              std::uint32_t shared = 0) {
    LaunchShape shape;
    shape.grid = grid;
    shape.block = block;
    shape.dynamic_shared_bytes = shared;
    return test::run(code, shape, params, threads);
  }
  ObjectCode object;
  std::unique_ptr<LinkedCode> functions, linked;
  Code code;
};

}  // namespace cucpu::test
