// tests/cpp/ptx/ptx_tool.cpp: reads PTX files, parses, translates and verifies each; prints what
// failed. With --ir, the thread code; with --print, the PTX again. The corpus test drives it; it is
// handy for looking at one kernel too.
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
    // What is printed must parse again, and print the same.
    const std::string printed = cucpu::ptx::print(*parsed.module);
    if (print) std::cout << printed;
    cucpu::ptx::Diagnostics again{name + " (printed)"};
    const cucpu::ptx::Parsed reparsed = cucpu::ptx::parse(printed, again);
    if (!reparsed.module || cucpu::ptx::print(*reparsed.module) != printed) {
      std::cout << name << ": does not survive printing\n" << again.log();
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
