// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/warp_emitter.cpp
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

/// shfl.sync for one lane, as in the PTX manual: the source lane, and whether it is in range.
struct Source {
  std::uint32_t lane;
  bool in_range;
};

Source shuffle_source(StringRef kind, std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  std::uint32_t clamp = c & 31, segment = c >> 8 & 31,
                highest = (lane & segment) | (clamp & ~segment);
  b &= 31;
  Source source{};
  if (kind == "up") {
    source.lane = lane - b;
    source.in_range = static_cast<std::int32_t>(source.lane) >= static_cast<std::int32_t>(highest);
  } else {
    source.lane = kind == "down"   ? lane + b
                  : kind == "bfly" ? lane ^ b
                                   : (lane & segment) | (b & ~segment);
    source.in_range = source.lane <= highest;
  }
  if (!source.in_range) source.lane = lane;
  return source;
}

}  // namespace

void WarpEmitter::emit_warp(CallInst& call, StringRef name) {
  ++report_.warp_operations;
  if (name == "warp.sync") return;  // lanes of a group run in lockstep
  if (width_ != 32) return refuse("warp operation in groups smaller than a warp");
  Value* active = mask() ? bits(mask()) : b_.getInt32(~0u);
  if (name == "activemask") return define(&call, active);
  if (name.consume_front("shfl.")) return emit_shuffle(call, name);
  if (name.consume_front("vote.")) return emit_vote(call, name);
  if (name.consume_front("match.")) return emit_match(call, name);
  if (name.consume_front("redux.")) return emit_reduction(call, name);
  if (name == "elect") {
    Value* members = b_.CreateAnd(vec(call.getArgOperand(0)), splat(active));
    Value* leader = b_.CreateBinaryIntrinsic(Intrinsic::cttz, members, b_.getFalse());
    Value* pair = b_.CreateInsertValue(PoisonValue::get(vector_type(call.getType())), leader, 0);
    return define(&call, b_.CreateInsertValue(
                             pair, b_.CreateICmpEQ(leader, lane_numbers(b_.getInt32Ty())), 1));
  }
  if (!is_matrix_operation(name)) return refuse("cucpu." + name);
  name.consume_front("warp.");
  emit_matrix(call, name.split('.').first);
}

void WarpEmitter::emit_shuffle(CallInst& call, StringRef kind) {
  if (!kind.starts_with("up") && !kind.starts_with("down") && !kind.starts_with("bfly") &&
      !kind.starts_with("idx"))
    return refuse("cucpu.shfl." + kind);
  kind = kind.take_while([](char c) { return c != '.'; });
  Value* a = vec(call.getArgOperand(0));
  if (mask()) a = b_.CreateFreeze(a);  // inactive lanes may hold poison
  auto* b = dyn_cast<ConstantInt>(call.getArgOperand(1));
  auto* c = dyn_cast<ConstantInt>(call.getArgOperand(2));
  Value *moved, *valid;
  if (b && c) {
    SmallVector<int> lanes;
    SmallVector<Constant*> flags;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      Source source = shuffle_source(kind, lane, static_cast<std::uint32_t>(b->getZExtValue()),
                                     static_cast<std::uint32_t>(c->getZExtValue()));
      lanes.push_back(static_cast<int>(source.lane));
      flags.push_back(b_.getInt1(source.in_range));
    }
    moved = b_.CreateShuffleVector(a, lanes);
    valid = ConstantVector::get(flags);
  } else {
    Value* lane = lane_numbers(b_.getInt32Ty());
    Value* limits = vec(call.getArgOperand(2));
    Value* clamp = b_.CreateAnd(limits, splat(b_.getInt32(31)));
    Value* segment =
        b_.CreateAnd(b_.CreateLShr(limits, splat(b_.getInt32(8))), splat(b_.getInt32(31)));
    Value* distance = b_.CreateAnd(vec(call.getArgOperand(1)), splat(b_.getInt32(31)));
    Value* lowest = b_.CreateAnd(lane, segment);
    Value* highest = b_.CreateOr(lowest, b_.CreateAnd(clamp, b_.CreateNot(segment)));
    Value* from = kind == "up"     ? b_.CreateSub(lane, distance)
                  : kind == "down" ? b_.CreateAdd(lane, distance)
                  : kind == "bfly"
                      ? b_.CreateXor(lane, distance)
                      : b_.CreateOr(lowest, b_.CreateAnd(distance, b_.CreateNot(segment)));
    valid = kind == "up" ? b_.CreateICmpSGE(from, highest) : b_.CreateICmpULE(from, highest);
    from = b_.CreateSelect(valid, from, lane);
    if (mask()) from = b_.CreateAnd(b_.CreateFreeze(from), splat(b_.getInt32(31)));
    Value* memory = spill(a, "shuffled");
    Type* element = cast<VectorType>(a->getType())->getElementType();
    Value* pointers = b_.CreateGEP(element, memory, from);
    moved = b_.CreateMaskedGather(a->getType(), pointers, Align{4}, all_lanes());
  }
  Value* pair = b_.CreateInsertValue(PoisonValue::get(vector_type(call.getType())), moved, 0);
  define(&call, b_.CreateInsertValue(pair, valid, 1));
}

void WarpEmitter::emit_vote(CallInst& call, StringRef kind) {
  Value* p = vec(call.getArgOperand(0));
  if (mask()) p = b_.CreateSelect(mask(), p, Constant::getNullValue(p->getType()));
  bool one = shape(&call).scalar();
  auto spread = [&](Value* v) { return one ? v : splat(v); };
  Value* members = one ? scalar(call.getArgOperand(1)) : vec(call.getArgOperand(1));
  Value* present = b_.CreateAnd(members, spread(mask() ? bits(mask()) : b_.getInt32(~0u)));
  Value* set = b_.CreateAnd(spread(bits(p)), members);
  Constant* zero = Constant::getNullValue(set->getType());
  Value* result = set;
  if (kind == "all")
    result = b_.CreateICmpEQ(set, present);
  else if (kind == "any")
    result = b_.CreateICmpNE(set, zero);
  else if (kind == "uni")
    result = b_.CreateOr(b_.CreateICmpEQ(set, present), b_.CreateICmpEQ(set, zero));
  else if (kind != "ballot")
    return refuse("cucpu.vote." + kind);
  define(&call, result);
}

void WarpEmitter::emit_match(CallInst& call, StringRef kind) {
  Value* key = vec(call.getArgOperand(0));
  if (mask()) key = b_.CreateFreeze(key);
  Type* type = call.getArgOperand(0)->getType();
  Value* keys = spill(key, "keys");
  Type* words = vector_type(b_.getInt32Ty());
  AllocaInst* same = temporary(words, "same");
  b_.CreateStore(Constant::getNullValue(words), same);
  for_each_lane([&](Value* lane) {
    Value* equal = b_.CreateICmpEQ(key, splat(lane_of(keys, lane, type)));
    Value* bit = b_.CreateTrunc(b_.CreateShl(b_.getInt64(1), lane), b_.getInt32Ty());
    Value* add = b_.CreateSelect(equal, splat(bit), Constant::getNullValue(words));
    b_.CreateStore(b_.CreateOr(b_.CreateLoad(words, same), add), same);
  });
  Value* members =
      b_.CreateAnd(vec(call.getArgOperand(1)), splat(mask() ? bits(mask()) : b_.getInt32(~0u)));
  Value* matching = b_.CreateAnd(b_.CreateLoad(words, same), members);
  if (kind.starts_with("any")) return define(&call, matching);
  Value* all = b_.CreateICmpEQ(matching, members);
  Value* pair = PoisonValue::get(vector_type(call.getType()));
  pair =
      b_.CreateInsertValue(pair, b_.CreateSelect(all, members, Constant::getNullValue(words)), 0);
  define(&call, b_.CreateInsertValue(pair, all, 1));
}

void WarpEmitter::emit_reduction(CallInst& call, StringRef kind) {
  Value* a = vec(call.getArgOperand(0));
  Constant* neutral;
  if (kind == "and" || kind == "umin") {
    neutral = b_.getInt32(~0u);
  } else if (kind == "smin") {
    neutral = b_.getInt32(0x7fffffffu);
  } else if (kind == "smax") {
    neutral = b_.getInt32(0x80000000u);
  } else if (kind == "add" || kind == "or" || kind == "xor" || kind == "umax") {
    neutral = b_.getInt32(0);
  } else {
    return refuse("cucpu.redux." + kind);
  }
  auto fold = [&](Value* included) -> Value* {  // included: i1 vector, or null for all lanes
    Value* lanes = included ? b_.CreateSelect(included, a, splat(neutral)) : a;
    if (kind == "add") return b_.CreateAddReduce(lanes);
    if (kind == "and") return b_.CreateAndReduce(lanes);
    if (kind == "or") return b_.CreateOrReduce(lanes);
    if (kind == "xor") return b_.CreateXorReduce(lanes);
    if (kind == "umin" || kind == "smin") return b_.CreateIntMinReduce(lanes, kind == "smin");
    return b_.CreateIntMaxReduce(lanes, kind == "smax");
  };
  auto lanes_of = [&](Value* members) -> Value* {
    Value* present = mask() ? b_.CreateAnd(members, bits(mask())) : members;
    if (auto* constant = dyn_cast<ConstantInt>(present); constant && constant->isMinusOne())
      return nullptr;
    return b_.CreateBitCast(present, all_lanes()->getType());
  };
  if (shape(&call).scalar()) return define(&call, fold(lanes_of(scalar(call.getArgOperand(1)))));
  Value* members = spill(vec(call.getArgOperand(1)), "members");
  AllocaInst* results = temporary(vector_type(call.getType()), "reduced");
  for_each_lane([&](Value* lane) {
    Value* result = fold(lanes_of(lane_of(members, lane, b_.getInt32Ty())));
    b_.CreateStore(result, b_.CreateInBoundsGEP(call.getType(), results, lane));
  });
  define(&call, b_.CreateLoad(results->getAllocatedType(), results));
}

// An operation on matrices calls a routine that reads the vectors of all operands from memory and
// writes those of the results. The first operands are constants.
void WarpEmitter::emit_matrix(CallInst& call, StringRef name) {
  const unsigned constants = name == "mma" ? 4 : name == "movmatrix" ? 0 : 2;
  auto* const results = dyn_cast<StructType>(call.getType());
  const unsigned made = results ? results->getNumElements() : 0;
  Type* const words = vector_type(b_.getInt32Ty());
  const auto place = [&](AllocaInst*& memory, unsigned count) {
    if (!memory || cast<ArrayType>(memory->getAllocatedType())->getNumElements() < count) {
      memory = temporary(ArrayType::get(words, count), "fragments");
      memory->setAlignment(Align{64});
    }
    return memory;
  };
  unsigned operands = 0;  // in words
  for (unsigned i = constants; i < call.arg_size(); ++i)
    operands += call.getArgOperand(i)->getType()->getIntegerBitWidth() / 32;
  AllocaInst* const in = place(operands_, operands);
  AllocaInst* const out = place(results_, std::max(made, 1U));
  AllocaInst* const head =
      temporary(ArrayType::get(b_.getInt32Ty(), std::max(constants, 1U)), "constants");
  for (unsigned i = 0; i < constants; ++i)
    entry_.CreateStore(call.getArgOperand(i),
                       entry_.CreateConstInBoundsGEP1_64(b_.getInt32Ty(), head, i));
  unsigned at = 0;
  for (unsigned i = constants; i < call.arg_size(); ++i) {
    Value* word = vec(call.getArgOperand(i));
    if (mask()) word = b_.CreateFreeze(word);  // inactive lanes may hold poison
    b_.CreateAlignedStore(word, b_.CreateConstInBoundsGEP1_64(words, in, at), Align{64});
    at += call.getArgOperand(i)->getType()->getIntegerBitWidth() / 32;
  }
  FunctionCallee routine = module_.getOrInsertFunction(
      ("cucpu_rt_warp_" + name + "_words").str(),
      FunctionType::get(b_.getVoidTy(),
                        {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), b_.getInt32Ty()}, false));
  auto* const callee = cast<Function>(routine.getCallee());
  callee->setDoesNotThrow();
  // Others access the memory of the program.
  if (name == "mma" || name == "movmatrix")
    callee->setMemoryEffects(MemoryEffects::inaccessibleOrArgMemOnly());
  for (unsigned i = 0; i < 3; ++i) callee->addParamAttr(i, Attribute::NoCapture);
  b_.CreateCall(routine, {head, in, out, b_.getInt32(operands)});
  if (!results) return;
  Value* all = PoisonValue::get(vector_type(results));
  for (unsigned i = 0; i < made; ++i)
    all = b_.CreateInsertValue(
        all, b_.CreateLoad(words, b_.CreateConstInBoundsGEP1_64(words, out, i)), i);
  define(&call, all);
}

}  // namespace cucpu::simt
