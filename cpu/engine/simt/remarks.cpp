// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/remarks.cpp
#include "cpu/engine/simt/remarks.hpp"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cpu/engine/simt/flow.hpp"
#include "cpu/engine/simt/markers.hpp"
#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {
namespace {

using namespace llvm;

RemarkPlace place_of(const Instruction& instruction, const Flow& flow) {
  RemarkPlace place;
  place.depth = flow.loops.getLoopDepth(instruction.getParent());
  if (const DILocation* at = instruction.getDebugLoc()) {
    const StringRef folder = at->getDirectory();
    place.file = (folder.empty() ? "" : folder.str() + "/") + at->getFilename().str();
    place.line = at->getLine();
    place.column = at->getColumn();
  }
  return place;
}

const char* pattern_of(const Shape& shape, std::uint64_t bytes) {
  if (shape.kind == Shape::Varying) return "varying";
  if (shape.kind != Shape::Strided || shape.stride == 0) return "uniform";
  return shape.stride == static_cast<std::int64_t>(bytes) ? "contiguous" : "strided";
}

struct Access {
  const char* what;
  const Value* pointer;
  Type* type;
};

Access access_of(const Instruction& instruction) {
  if (const auto* load = dyn_cast<LoadInst>(&instruction))
    return {"load", load->getPointerOperand(), load->getType()};
  if (const auto* store = dyn_cast<StoreInst>(&instruction))
    return {"store", store->getPointerOperand(), store->getValueOperand()->getType()};
  if (const auto* rmw = dyn_cast<AtomicRMWInst>(&instruction))
    return {"atomic", rmw->getPointerOperand(), rmw->getType()};
  if (const auto* exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
    return {"atomic", exchange->getPointerOperand(), exchange->getCompareOperand()->getType()};
  return {nullptr, nullptr, nullptr};
}

}  // namespace

Remarks find_remarks(Function& thread, unsigned width, const Dim3& block) {
  const Flow flow{thread};
  const Lanes lanes{width, block};
  const Shapes shapes{flow, lanes, Shapes::Scope::FullGroup};
  const DataLayout& layout = thread.getParent()->getDataLayout();
  Remarks remarks;
  std::map<std::pair<std::string, unsigned>, LineRemark> lines;
  for (BasicBlock* at : flow.order) {
    for (Instruction& instruction : *at) {
      if (isa<DbgInfoIntrinsic>(instruction)) continue;
      const RemarkPlace place = place_of(instruction, flow);
      if (place.line != 0) {
        LineRemark& line = lines[{place.file, place.line}];
        const unsigned depth = std::max(line.place.depth, place.depth);
        line.place = place;
        line.place.depth = depth;
        const Shape::Kind kind =
            instruction.getType()->isVoidTy() ? Shape::None : shapes[&instruction].kind;
        line.varying += kind == Shape::Varying;
        line.strided += kind == Shape::Strided;
        line.uniform += kind == Shape::Uniform;
        const StringRef marker = marker_name(&instruction);
        line.barriers += is_barrier(marker);
        if (const auto* call = dyn_cast<CallInst>(&instruction);
            call && marker.empty() && !isa<IntrinsicInst>(call))
          ++line.calls;
      }
      if (const Access access = access_of(instruction); access.what != nullptr) {
        const std::uint64_t bytes = layout.getTypeStoreSize(access.type);
        const Shape shape = shapes[access.pointer];
        const StringRef space = space_of(instruction);
        remarks.accesses.push_back({place, access.what, space.str(), pattern_of(shape, bytes),
                                    shape.kind == Shape::Strided ? shape.stride : 0, bytes});
      }
    }
    if (const auto* branch = dyn_cast<BranchInst>(at->getTerminator());
        branch && branch->isConditional()) {
      const Loop* const loop = flow.loop_of(at);
      const bool leaves = loop && loop->isLoopExiting(at);
      remarks.branches.push_back({place_of(*branch, flow), leaves,
                                  shapes.diverges(at) || (leaves && shapes.diverges(loop))});
    }
  }
  for (auto& [key, line] : lines) remarks.lines.push_back(std::move(line));
  return remarks;
}

}  // namespace cucpu::simt
