// SPDX-License-Identifier: Apache-2.0
// ptx_tool.cpp: parses, translates and verifies PTX files and prints the errors. --ir prints the
// thread code, --print the parsed PTX. tests/python/ptx/test_corpus.py runs it; it is also useful
// for inspecting one kernel.
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cpu/engine/pipeline.hpp"
#include "cpu/ptx/parser.hpp"
#include "cpu/ptx/printer.hpp"

int main(int argc, char** argv) {
  bool ir = false, print = false;
  int failures = 0;
  for (int a = 1; a < argc; ++a) {
    const std::string name = argv[a];
    if (name == "--ir") {
      ir = true;
      continue;
    }
    if (name == "--print") {
      print = true;
      continue;
    }
    std::ifstream file{name, std::ios::binary};
    std::stringstream text;
    text << file.rdbuf();
    cucpu::ptx::Diagnostics diagnostics{name};
    const cucpu::ptx::Parsed parsed = cucpu::ptx::parse(text.str(), diagnostics);
    if (!parsed.module) {
      std::cout << diagnostics.log();
      ++failures;
      continue;
    }
    // Printed PTX must parse, and print identically.
    const std::string printed = cucpu::ptx::print(*parsed.module);
    if (print) std::cout << printed;
    cucpu::ptx::Diagnostics again{name + " (printed)"};
    const cucpu::ptx::Parsed reparsed = cucpu::ptx::parse(printed, again);
    if (!reparsed.module || cucpu::ptx::print(*reparsed.module) != printed) {
      std::cout << name << ": the printed PTX does not parse to the same module\n" << again.log();
      ++failures;
    }
    llvm::LLVMContext context;
    try {
      const cucpu::ptx::Module* module = parsed.module.get();
      const cucpu::Translation t = cucpu::pipeline::thread_code({&module, 1}, context);
      std::string broken;
      llvm::raw_string_ostream out{broken};
      if (llvm::verifyModule(*t.module, &out)) {
        std::cout << name << ": broken IR: " << broken.substr(0, 2000) << '\n';
        ++failures;
      }
      if (ir) t.module->print(llvm::outs(), nullptr);
    } catch (const cucpu::LoadError& e) {
      std::cout << e.what();
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}
