// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/vector_target.cpp
#include "cpu/engine/simt/vector_target.hpp"

#include <llvm/IR/Type.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

namespace cucpu::simt {

using namespace llvm;

namespace {

bool is_word(const Type& element) {
  const unsigned bits = element.getScalarSizeInBits();
  return bits == 32 || bits == 64;
}

}  // namespace

// Four registers of four lanes keep a NEON or SSE pipeline busy. With sixteen registers of eight
// lanes (AVX2) or 32 registers of sixteen lanes (AVX-512), one or two registers per value fit. One
// register per value leaves an AVX2 pipeline waiting for results, so that two are faster if they
// fit.
VectorTarget VectorTarget::of(const TargetMachine* machine) {
  VectorTarget target;
  if (!machine || !machine->getTargetTriple().isX86()) return target;
  const MCSubtargetInfo* features = machine->getMCSubtargetInfo();
  const bool avx512 = features->checkFeatures("+avx512f,+avx512bw,+avx512vl");
  const bool avx2 = features->checkFeatures("+avx2");
  target.lanes = features->checkFeatures("+avx512f") ? 16 : avx2 ? 8 : 4;
  target.preferred = target.lanes == 16 ? 16 : 8;
  target.wide_masks = avx512;
  target.masks = avx2;
  target.gathers = (avx512 || (avx2 && features->checkFeatures("+fast-gather"))) &&
                   !features->checkFeatures("+prefer-no-gather");
  target.scatters = avx512;
  target.columns = true;
  return target;
}

bool VectorTarget::has_masked_access(const Type& element) const {
  return wide_masks ? element.getScalarSizeInBits() >= 8 : masks && is_word(element);
}

bool VectorTarget::has_gather(const Type& element) const { return gathers && is_word(element); }

bool VectorTarget::has_scatter(const Type& element) const { return scatters && is_word(element); }

}  // namespace cucpu::simt
