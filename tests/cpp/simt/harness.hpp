// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/harness.hpp: runs thread code twice, as it is (every thread a host thread) and
// vectorized, for comparison.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpu/engine/simt/vectorize.hpp"

namespace simt_test {

/// What one grid reads and writes: parameters are pointers to these buffers, in order, then the
/// 32-bit numbers.
struct Work {
  std::vector<std::vector<std::uint32_t>> buffers;
  std::vector<std::uint32_t> numbers;
  cucpu::Dim3 grid{1, 1, 1};
  cucpu::Dim3 block{64, 1, 1};
  bool as_on_x86 = false;  ///< groups run by columns, and masks have the form for AVX2
};

/// Declarations of the markers tests use, for the head of textual thread code.
extern const char* const kMarkers;

using Build = std::function<std::unique_ptr<llvm::Module>(llvm::LLVMContext&)>;

/// Thread code from text; the kernel is the function `kernel`.
Build parse(const std::string& text);

/// Runs the kernel with one host thread per device thread.
void run_reference(const Build&, Work&);

/// Vectorizes and runs. Returns the report; when it refuses, nothing has run.
cucpu::simt::Report run_vectorized(const Build&, Work&, unsigned width,
                                   std::string* code = nullptr);

/// Both ways for each width; fails the current test when memory differs, or when the vectorizer
/// refuses for another reason than this. Returns the report of the last width.
cucpu::simt::Report compare(const Build&, const Work&,
                            std::vector<unsigned> widths = {4, 8, 16, 32},
                            const std::string& refusal = "");

}  // namespace simt_test
