// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/partial_group_edge.cpp: groups at an edge. If an index determines that only
// neighboring lanes continue, at the border of an image for example, and at least those of a piece,
// the group runs as full code: its pieces of four or eight lanes are moved to lie between the first
// and the last of these lanes. Where pieces overlap, two lanes compute the same thread at the same
// time. No masks are needed, nothing is accessed for inactive threads, and contiguous accesses stay
// contiguous.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kLeastPiece = 4;    // lanes
constexpr unsigned kMostPieces = 4;    // of a group: each is a load and an insertion
constexpr std::size_t kLongest = 200;  // the largest number of instructions to copy

}  // namespace

/// Whether two lanes may execute this instruction for the same thread.
bool PartialGroupEmitter::same_twice(Instruction& inst) const {
  if (auto* phi = dyn_cast<PHINode>(&inst)) return phi->getNumIncomingValues() == 1;
  if (isa<BinaryOperator, UnaryOperator, CastInst, GetElementPtrInst, CmpInst, SelectInst,
          FreezeInst>(inst))
    return true;
  if (auto* load = dyn_cast<LoadInst>(&inst)) return load->isSimple();
  if (auto* store = dyn_cast<StoreInst>(&inst)) return store->isSimple();
  if (StringRef name = marker_name(&inst); !name.empty()) {
    if (name == "check.align") {
      auto& call = cast<CallInst>(inst);
      Shape s = plan_.full[call.getArgOperand(0)];
      auto mask = cast<ConstantInt>(call.getArgOperand(1))->getZExtValue();
      return s.kind <= Shape::Uniform ||
             (s.kind == Shape::Strided && (static_cast<std::uint64_t>(s.stride) & mask) == 0);
    }
    if (name.starts_with("sreg.tid.")) return plan_.full[&inst].scalar();
    return name.starts_with("sreg.ctaid.") || name.starts_with("sreg.nctaid.") ||
           name.starts_with("sreg.ntid.") || name == "params";
  }
  if (auto* intrinsic = dyn_cast<IntrinsicInst>(&inst))
    return isa<DbgInfoIntrinsic>(inst) ||
           (!inst.mayReadOrWriteMemory() && isTriviallyVectorizable(intrinsic->getIntrinsicID()));
  return false;
}

/// The blocks on the path of a thread that reaches `block` and continues to `to`, from the start to
/// the return; empty if there is more than one path, or if two lanes must not execute one of the
/// blocks for the same thread.
SmallVector<BasicBlock*> PartialGroupEmitter::straight_way(BasicBlock* block,
                                                           BasicBlock* to) const {
  SmallVector<BasicBlock*> way;
  if (!all_groups_come(block)) return {};
  for (BasicBlock* at = block; at; at = at->getSinglePredecessor()) {
    way.push_back(at);
    if (at == parts_.regions.current()->start) break;
  }
  if (way.back() != parts_.regions.current()->start) return {};
  std::reverse(way.begin(), way.end());
  for (BasicBlock* at = to; at; at = at->getSingleSuccessor()) {
    if (way.size() > 16 || (at == to && at->getSinglePredecessor() != block)) return {};
    way.push_back(at);
  }
  if (!isa<ReturnInst>(way.back()->getTerminator())) return {};
  std::size_t size = 0;
  for (BasicBlock* at : way) {
    size += at->size();
    for (Instruction& inst : *at)
      if (!inst.isTerminator() && !same_twice(inst)) return {};
  }
  return size <= kLongest ? way : SmallVector<BasicBlock*>{};
}

/// Whether the target accesses memory for single lanes in all blocks.
bool PartialGroupEmitter::has_masked_accesses(ArrayRef<BasicBlock*> blocks) const {
  return all_of(blocks, [&](BasicBlock* block) {
    return all_of(*block, [&](Instruction& inst) {
      return !isa<LoadInst, StoreInst>(inst) ||
             shape(getLoadStorePointerOperand(&inst)).kind <= Shape::Uniform ||
             plan_.target.has_masked_access(*getLoadStoreType(&inst));
    });
  });
}

/// Narrows the range of lanes for which the condition is `wanted`. False: it may be empty.
bool PartialGroupEmitter::narrow_range(Value* condition, bool wanted, LaneRange& range) {
  using namespace PatternMatch;
  if (shape(condition).scalar()) return true;  // it is as wanted, otherwise lanes would not diverge
  Value *a, *c;
  if (match(condition, m_Not(m_Value(a)))) return narrow_range(a, !wanted, range);
  if (wanted ? match(condition, m_LogicalAnd(m_Value(a), m_Value(c)))
             : match(condition, m_LogicalOr(m_Value(a), m_Value(c))))
    return narrow_range(a, wanted, range) && narrow_range(c, wanted, range);
  auto* compare = dyn_cast<ICmpInst>(condition);
  if (!compare) return false;
  Value *index = compare->getOperand(0), *bound = compare->getOperand(1);
  CmpInst::Predicate predicate = compare->getPredicate();
  if (shape(index).kind <= Shape::Uniform) {
    std::swap(index, bound);
    predicate = CmpInst::getSwappedPredicate(predicate);
  }
  if (!wanted) predicate = CmpInst::getInversePredicate(predicate);
  Shape s = shape(index);
  if (s.kind != Shape::Strided || s.stride != 1 || shape(bound).kind > Shape::Uniform ||
      !index->getType()->isIntegerTy() || index->getType()->getIntegerBitWidth() > 32)
    return false;
  Type* number = b_.getInt64Ty();
  if (predicate == CmpInst::ICMP_NE) {  // one lane does not continue: the first or the last
    Value* lane = b_.CreateZExt(b_.CreateSub(scalar(bound), scalar(index)), number);
    auto is = [&](std::uint64_t n) { return b_.CreateICmpEQ(lane, b_.getInt64(n)); };
    range.first =
        b_.CreateBinaryIntrinsic(Intrinsic::smax, range.first, b_.CreateZExt(is(0), number));
    range.end = b_.CreateSelect(
        is(width_ - 1),
        b_.CreateBinaryIntrinsic(Intrinsic::smin, range.end, b_.getInt64(width_ - 1)), range.end);
    range.broken = b_.CreateOr(range.broken, b_.CreateICmpULT(b_.CreateSub(lane, b_.getInt64(1)),
                                                              b_.getInt64(width_ - 2)));
    return true;
  }
  if (CmpInst::isEquality(predicate)) return false;
  bool is_signed = CmpInst::isSigned(predicate);
  bool below = ICmpInst::isLT(predicate) || ICmpInst::isLE(predicate);
  bool exact = is_signed ? s.no_signed_wrap : s.no_unsigned_wrap;
  if (!exact && (is_signed || !below)) return false;
  auto wide = [&](Value* v) {
    return is_signed ? b_.CreateSExt(scalar(v), number) : b_.CreateZExt(scalar(v), number);
  };
  Value *from = wide(index), *most = wide(bound);
  if (CmpInst::isStrictPredicate(predicate) != below) most = b_.CreateAdd(most, b_.getInt64(1));
  auto limit = [&](Value*& to, Intrinsic::ID id, Value* lane) {
    to = b_.CreateBinaryIntrinsic(id, to, lane);
  };
  if (!exact) {
    // x - 1 < n is how LLVM writes 1 <= x && x <= n: the index may wrap inside the group. The
    // lanes before that have too large numbers; otherwise there are two ranges.
    auto around = b_.getInt64(std::uint64_t{1} << index->getType()->getIntegerBitWidth());
    Value* wraps = b_.CreateICmpUGT(b_.CreateAdd(from, b_.getInt64(width_ - 1)),
                                    b_.CreateSub(around, b_.getInt64(1)));
    range.broken = b_.CreateOr(range.broken, b_.CreateAnd(wraps, b_.CreateICmpSLT(from, most)));
    from = b_.CreateSelect(wraps, b_.CreateSub(from, around), from);
    limit(range.first, Intrinsic::smax, b_.CreateNeg(from));
  }
  Value* lane = b_.CreateSub(most, from);  // whose index is the bound
  limit(below ? range.end : range.first, below ? Intrinsic::smin : Intrinsic::smax, lane);
  return true;
}

/// For a group that diverges at the end of `block` while one side has nothing more to do: emits the
/// other side for groups that can run as full code, and leaves the insertion point where they
/// cannot.
void PartialGroupEmitter::emit_edge(BasicBlock* block) {
  auto* branch = cast<BranchInst>(block->getTerminator());
  const unsigned piece = std::max(width_ / kMostPieces, kLeastPiece);
  if (parts_.regions.all().size() != 1 || width_ <= piece || width_ % piece != 0 ||
      ends_the_grid(block))
    return;
  const bool on_yes = plain_exit(branch->getSuccessor(1)).found;
  if (!on_yes && !plain_exit(branch->getSuccessor(0)).found) return;
  auto way = straight_way(block, branch->getSuccessor(on_yes ? 0 : 1));
  if (way.empty() || has_masked_accesses(way)) return;
  LaneRange range{b_.getInt64(0), b_.getInt64(width_), b_.getFalse()};
  if (!narrow_range(branch->getCondition(), on_yes, range)) return;
  ++report_.edges;
  BasicBlock *edge = new_block(block->getName() + ".edge"),
             *apart = new_block(block->getName() + ".apart");
  Value* count = b_.CreateSub(range.end, range.first);
  Value* fits =
      b_.CreateAnd(b_.CreateICmpSGE(count, b_.getInt64(piece)), b_.CreateNot(range.broken));
  b_.CreateCondBr(fits, edge, apart, MDBuilder{context_}.createBranchWeights(100, 1));
  const ValueMap::Known saved = parts_.values.known();
  b_.SetInsertPoint(edge);
  begin_block(Full);
  edge_.emplace();
  edge_->first = b_.CreateTrunc(range.first, b_.getInt32Ty());
  edge_->piece = piece;
  for (unsigned lane = 0; lane < width_; lane += piece)
    edge_->pieces.push_back(b_.CreateBinaryIntrinsic(
        Intrinsic::smin, b_.CreateSub(count, b_.getInt64(piece)), b_.getInt64(lane)));
  for (BasicBlock* at : way) {
    if (auto guard = plan_.guards.find(at); guard != plan_.guards.end()) {
      BasicBlock* fine = new_block(at->getName() + ".fine");
      parts_.strips.branch_if_wrapped(guard->second, apart, fine);
      b_.SetInsertPoint(fine);
    }
    for (Instruction& inst : *at) {
      if (inst.isTerminator()) continue;
      if (auto* phi = dyn_cast<PHINode>(&inst)) {
        Value* same = phi->getIncomingValue(0);
        if (shape(phi).scalar())
          parts_.values.set_scalar(phi, scalar(same));
        else
          parts_.values.set_vector(phi, vec(same));
      } else {
        parts_.instructions.emit(inst);
      }
    }
  }
  parts_.regions.leave_region(nullptr);
  edge_.reset();
  if (parts_.regions.masks_are_rare(block)) parts_.masks.set_rare(true);
  begin_block(Full);
  parts_.values.restore(saved);
  b_.SetInsertPoint(apart);
}

/// The distance of each lane from the first thread that continues, as a vector.
Value* PartialGroupEmitter::edge_lanes(Type* number) {
  const auto pieces = static_cast<unsigned>(edge_->pieces.size());
  Value* first = PoisonValue::get(FixedVectorType::get(number, pieces));
  SmallVector<int> spread;
  SmallVector<Constant*> within;
  for (unsigned i = 0; i < pieces; ++i) {
    Value* piece = b_.CreateZExtOrTrunc(edge_->pieces[i], number);
    first = b_.CreateInsertElement(first, piece, i);
    for (unsigned lane = 0; lane < edge_->piece; ++lane) {
      spread.push_back(static_cast<int>(i));
      within.push_back(ConstantInt::get(number, lane));
    }
  }
  return b_.CreateAdd(b_.CreateShuffleVector(first, spread), ConstantVector::get(within));
}

/// The address of a lane at an edge.
Value* PartialGroupEmitter::edge_pointer(Value* base, unsigned lane, std::int64_t stride) {
  Value* offset = b_.CreateMul(edge_->pieces[lane / edge_->piece],
                               b_.getInt64(static_cast<std::uint64_t>(stride)));
  return parts_.memory.lane_pointer(b_.CreateGEP(b_.getInt8Ty(), base, offset), lane % edge_->piece,
                                    stride);
}

Value* PartialGroupEmitter::load_pieces(Type* element, Value* base, std::int64_t size,
                                        Align align) {
  SmallVector<Value*> parts;
  Type* part = FixedVectorType::get(element, edge_->piece);
  for (unsigned lane = 0; lane < width_; lane += edge_->piece)
    parts.push_back(b_.CreateAlignedLoad(part, edge_pointer(base, lane, size), align));
  return concatenateVectors(b_, parts);
}

void PartialGroupEmitter::store_pieces(Value* all, Value* base, std::int64_t size, Align align) {
  for (unsigned lane = 0; lane < width_; lane += edge_->piece) {
    SmallVector<int> numbers;
    for (unsigned i = 0; i < edge_->piece; ++i) numbers.push_back(static_cast<int>(lane + i));
    b_.CreateAlignedStore(b_.CreateShuffleVector(all, numbers), edge_pointer(base, lane, size),
                          align);
  }
}

}  // namespace cucpu::simt
