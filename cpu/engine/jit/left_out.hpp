// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/left_out.hpp: functions in place of those of LLVM that left_out.txt lists.
// cpu/CMakeLists.txt writes a source with one macro per row: CUCPU_LEFT_OUT_<kind>(name).
#pragma once

#include <llvm/CodeGen/GlobalISel/CallLowering.h>
#include <llvm/CodeGen/GlobalISel/LegalizerInfo.h>
#include <llvm/Pass.h>
#include <llvm/Support/Error.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

namespace cucpu::left_out {

/// Returned like any other Expected<std::unique_ptr<...>>.
using Result = llvm::Expected<std::unique_ptr<char>>;

/// A pass that changes nothing.
class NoPass final : public llvm::FunctionPass {
 public:
  NoPass() : FunctionPass{kId} {}
  bool runOnFunction(llvm::Function& /*function*/) override { return false; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { usage.setPreservesAll(); }

 private:
  static inline char kId = 0;
};

}  // namespace cucpu::left_out

// NOLINTBEGIN: the names are those that ld --wrap redirects references to
#define CUCPU_LEFT_OUT(type, name, ...)       \
  extern "C" type __wrap_##name(__VA_ARGS__); \
  extern "C" type __wrap_##name(__VA_ARGS__)

#define CUCPU_LEFT_OUT_null(name) \
  CUCPU_LEFT_OUT(void*, name) { return nullptr; }
#define CUCPU_LEFT_OUT_error(name)                                       \
  CUCPU_LEFT_OUT(cucpu::left_out::Result, name) {                        \
    return llvm::createStringError("not an object file of this system"); \
  }
#define CUCPU_LEFT_OUT_never(name)                          \
  CUCPU_LEFT_OUT(void, name) {                              \
    std::fputs("cucore: " #name " was left out\n", stderr); \
    std::abort();                                           \
  }
#define CUCPU_LEFT_OUT_pass(name) \
  CUCPU_LEFT_OUT(llvm::FunctionPass*, name) { return new cucpu::left_out::NoPass; }
// Constructors: the object becomes one of the base class, which is no larger.
#define CUCPU_LEFT_OUT_legalizer(name) \
  CUCPU_LEFT_OUT(void, name, void* place) { new (place) llvm::LegalizerInfo; }
#define CUCPU_LEFT_OUT_lowering(name) \
  CUCPU_LEFT_OUT(void, name, void* place) { new (place) llvm::CallLowering{nullptr}; }
// NOLINTEND
