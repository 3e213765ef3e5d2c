// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/instruction_emitter.cpp: arithmetic, calls, special registers.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/coverage/coverage_map.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/divide_lanes.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

void InstructionEmitter::emit(Instruction& inst) {
  if (isa<PHINode>(inst) || is_lazy(&inst)) return;
  b_.SetCurrentDebugLocation(inst.getDebugLoc());
  at_ = inst.getParent();
  if (auto known = parts_.strips.decided().find(&inst); known != parts_.strips.decided().end())
    return define(&inst, b_.getInt1(known->second));
  if (auto* load = dyn_cast<LoadInst>(&inst)) return parts_.memory.emit_load(*load);
  if (auto* store = dyn_cast<StoreInst>(&inst)) return parts_.memory.emit_store(*store);
  if (auto* alloca = dyn_cast<AllocaInst>(&inst)) return parts_.memory.emit_alloca(*alloca);
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst)) return parts_.memory.emit_atomic(inst);
  if (auto* call = dyn_cast<CallInst>(&inst)) return emit_call(*call);
  if (isa<FenceInst>(inst)) {
    b_.Insert(inst.clone());
    return;
  }
  Shape s = shape(&inst);
  if (!s.scalar()) return emit_vector(inst);
  if (mode() == Full && inst.isIntDivRem() && plan_.full.needs_guard(&inst)) {
    const bool remainder =
        inst.getOpcode() == Instruction::URem || inst.getOpcode() == Instruction::SRem;
    return define(&inst, parts_.flow.divide_first_lane(inst, remainder));
  }
  // The condition of such a select may differ between threads: there is no scalar for it.
  if (auto* select = dyn_cast<SelectInst>(&inst);
      select && select->getTrueValue() == select->getFalseValue())
    return define(&inst, scalar(select->getTrueValue()));
  Instruction* copy = inst.clone();
  copy->setName(inst.getName());
  for (Use& operand : copy->operands()) operand.set(scalar(operand.get()));
  copy->dropUnknownNonDebugMetadata();
  copy->setDebugLoc({});
  // The base of a strided value is that of lane 0, which may be off: flags that hold for active
  // threads need not hold for it.
  if (s.kind == Shape::Strided) copy->dropPoisonGeneratingFlags();
  b_.Insert(copy);
  define(&inst, copy);
}

namespace {

/// Whether lanes that are off may divide by zero, or the smallest number by -1. Division by another
/// constant is a multiplication.
bool may_trap(const Instruction& inst) {
  const auto* divisor = inst.isIntDivRem() ? dyn_cast<ConstantInt>(inst.getOperand(1)) : nullptr;
  return inst.isIntDivRem() && (!divisor || divisor->isZero() || divisor->isMinusOne());
}

}  // namespace

/// Whether a vector is divided by one number that is known at run time only.
bool InstructionEmitter::divides_by_uniform(const Instruction& inst) const {
  return inst.isIntDivRem() && inst.getType()->getIntegerBitWidth() <= 32 &&
         !isa<Constant>(inst.getOperand(1)) && shape(inst.getOperand(1)).kind == Shape::Uniform;
}

void InstructionEmitter::emit_vector(Instruction& inst) {
  if (auto* intrinsic = dyn_cast<IntrinsicInst>(&inst))
    return emit_intrinsic(*intrinsic, intrinsic->getIntrinsicID());
  auto operand = [&](unsigned i) { return vec(inst.getOperand(i)); };
  Value* result = nullptr;
  if (divides_by_uniform(inst)) {
    result = divide_lanes(b_, inst.getOpcode(), operand(0), scalar(inst.getOperand(1)));
  } else if (auto* binary = dyn_cast<BinaryOperator>(&inst)) {
    Value *left = operand(0), *right = operand(1);
    if (may_trap(inst)) {
      Constant* const one = ConstantInt::get(right->getType(), 1);
      if (mask()) {
        right = b_.CreateSelect(mask(), b_.CreateFreeze(right), one);
        left = b_.CreateSelect(mask(), left, ConstantInt::get(left->getType(), 0));
      }
      // Divisors of lanes that are on are not zero, but LLVM simplifies a quotient for either side
      // of a select, and drops a side that is a constant vector with a zero in any lane as
      // undefined in all lanes: <0, 1, 2, ...> of `x / lane`, where lane 0 is off.
      right = b_.CreateBinaryIntrinsic(Intrinsic::umax, right, one);
    }
    result = b_.CreateBinOp(binary->getOpcode(), left, right, inst.getName());
    if (auto* made = dyn_cast<Instruction>(result)) made->copyIRFlags(&inst);
  } else if (auto* unary = dyn_cast<UnaryOperator>(&inst)) {
    result = b_.CreateUnOp(unary->getOpcode(), operand(0), inst.getName());
    if (auto* made = dyn_cast<Instruction>(result)) made->copyIRFlags(&inst);
  } else if (auto* cast = dyn_cast<CastInst>(&inst)) {
    result =
        b_.CreateCast(cast->getOpcode(), operand(0), vector_type(inst.getType()), inst.getName());
    if (auto* made = dyn_cast<Instruction>(result)) made->copyIRFlags(&inst);
  } else if (auto* compare = dyn_cast<CmpInst>(&inst)) {
    result = b_.CreateCmp(compare->getPredicate(), operand(0), operand(1), inst.getName());
    if (auto* made = dyn_cast<Instruction>(result); made && isa<FCmpInst>(inst))
      made->copyIRFlags(&inst);
  } else if (auto* select = dyn_cast<SelectInst>(&inst)) {
    Value* condition = select->getCondition();
    result = shape(condition).scalar()
                 ? b_.CreateSelect(scalar(condition), operand(1), operand(2), inst.getName())
                 : blend_lanes(operand(0), operand(1), operand(2));
    if (auto* made = dyn_cast<Instruction>(result); made && isa<FPMathOperator>(inst))
      made->copyIRFlags(&inst);
  } else if (auto* gep = dyn_cast<GetElementPtrInst>(&inst)) {
    auto part = [&](Value* v) { return shape(v).kind <= Shape::Uniform ? scalar(v) : vec(v); };
    SmallVector<Value*> indices;
    for (Value* index : gep->indices()) indices.push_back(part(index));
    result = b_.CreateGEP(gep->getSourceElementType(), part(gep->getPointerOperand()), indices,
                          inst.getName());
    if (!result->getType()->isVectorTy()) result = splat(result);
  } else if (isa<FreezeInst>(inst)) {
    result = b_.CreateFreeze(operand(0), inst.getName());
  } else if (auto* extract = dyn_cast<ExtractValueInst>(&inst)) {
    result = b_.CreateExtractValue(operand(0), extract->getIndices(), inst.getName());
  } else if (auto* insert = dyn_cast<InsertValueInst>(&inst)) {
    result = b_.CreateInsertValue(operand(0), operand(1), insert->getIndices(), inst.getName());
  } else {
    refuse(Twine{"instruction "} + inst.getOpcodeName());
    result = PoisonValue::get(vector_type(inst.getType()));
  }
  // Lane 0 of a value that is strided in full code is read even if that lane is off.
  if (auto* made = dyn_cast<Instruction>(result); made && mask() && plan_.full[&inst].scalar())
    made->dropPoisonGeneratingFlags();
  define(&inst, result);
}

void InstructionEmitter::emit_call(CallInst& call) {
  StringRef name = marker_name(&call);
  if (!name.empty()) return emit_marker(call, name);
  if (auto* intrinsic = dyn_cast<IntrinsicInst>(&call))
    return emit_intrinsic(call, intrinsic->getIntrinsicID());
  if (call.isInlineAsm()) return refuse("inline assembly");
  if (shape(&call).scalar() && !call.getType()->isVoidTy()) {
    auto* copy = cast<CallInst>(call.clone());
    for (Use& operand : copy->args()) operand.set(scalar(operand.get()));
    copy->setDebugLoc({});
    b_.Insert(copy);
    return define(&call, copy);
  }
  ++report_.lane_calls;
  call_per_lane(call);
}

void InstructionEmitter::emit_intrinsic(CallInst& call, unsigned number) {
  auto id = static_cast<Intrinsic::ID>(number);
  switch (id) {
    case Intrinsic::assume:
    case Intrinsic::donothing:
    case Intrinsic::sideeffect:
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
    case Intrinsic::experimental_noalias_scope_decl:
    case Intrinsic::dbg_value:
    case Intrinsic::dbg_declare:
    case Intrinsic::prefetch:
      return;
    default:
      break;
  }
  if (!call.getType()->isVoidTy() && shape(&call).scalar()) {
    auto* copy = cast<CallInst>(call.clone());
    for (Use& operand : copy->args())
      if (!isa<MetadataAsValue>(operand.get())) operand.set(scalar(operand.get()));
    copy->setDebugLoc({});
    b_.Insert(copy);
    return define(&call, copy);
  }
  bool overflow = isa<WithOverflowInst>(call);
  if (!overflow && !isTriviallyVectorizable(id)) {
    ++report_.lane_calls;
    return call_per_lane(call);
  }
  SmallVector<Value*> arguments;
  SmallVector<Type*> types;
  if (overflow)
    types.push_back(vector_type(call.getArgOperand(0)->getType()));
  else if (isVectorIntrinsicWithOverloadTypeAtArg(id, -1))
    types.push_back(vector_type(call.getType()));
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    Value* argument = call.getArgOperand(i);
    Value* value = isVectorIntrinsicWithScalarOpAtArg(id, i) ? scalar(argument) : vec(argument);
    arguments.push_back(value);
    if (!overflow && isVectorIntrinsicWithOverloadTypeAtArg(id, static_cast<int>(i)))
      types.push_back(value->getType());
  }
  Function* declaration = Intrinsic::getDeclaration(&module_, id, types);
  CallInst* made = b_.CreateCall(declaration, arguments, call.getName());
  if (isa<FPMathOperator>(made)) made->copyIRFlags(&call);
  define(&call, made);
}

void InstructionEmitter::call_per_lane(CallInst& call) {
  SmallVector<std::pair<Value*, bool>> arguments;
  for (Value* argument : call.args()) {
    bool one = isa<Constant>(argument) || shape(argument).kind <= Shape::Uniform;
    arguments.push_back({one ? scalar(argument) : spill(vec(argument), "argument"), one});
  }
  bool yields = !call.getType()->isVoidTy() && !call.use_empty();
  if (yields && call.getType()->isStructTy()) return refuse("call that returns a structure");
  AllocaInst* results = yields ? temporary(slot_type(call.getType()), "results") : nullptr;
  // A call that may fault stores which thread it runs for.
  const bool may_fault = !call.doesNotAccessMemory();
  for_each_lane([&](Value* lane) {
    if (may_fault) set_current(b_.CreateTrunc(lane, b_.getInt32Ty()));
    auto* copy = cast<CallInst>(call.clone());
    for (unsigned i = 0; i < arguments.size(); ++i) {
      auto [value, one] = arguments[i];
      copy->setArgOperand(i, one ? value : lane_of(value, lane, call.getArgOperand(i)->getType()));
    }
    copy->setDebugLoc({});
    b_.Insert(copy);
    if (!yields) return;
    Value* value = copy;
    if (value->getType()->isIntegerTy(1)) value = b_.CreateSExt(value, b_.getInt32Ty());
    b_.CreateStore(value, b_.CreateInBoundsGEP(value->getType(), results, lane));
  });
  if (may_fault) set_current(nullptr);
  if (yields)
    define(&call,
           from_slot_form(b_.CreateLoad(results->getAllocatedType(), results), call.getType()));
}

// Faults in the first active lane whose address is misaligned.
void InstructionEmitter::check_align(CallInst& call) {
  Value* address = call.getArgOperand(0);
  std::uint64_t low_bits = cast<ConstantInt>(call.getArgOperand(1))->getZExtValue();
  Shape s = shape(address);
  bool one = s.kind <= Shape::Uniform ||
             (s.kind == Shape::Strided && (static_cast<std::uint64_t>(s.stride) & low_bits) == 0);
  Value* lanes = one ? nullptr : vec(address);
  Value* low = one ? b_.CreateAnd(scalar(address), b_.getInt64(low_bits))
                   : b_.CreateAnd(lanes, splat(b_.getInt64(low_bits)));
  Value* wrong = b_.CreateICmpNE(low, Constant::getNullValue(low->getType()));
  if (!one && mask()) wrong = b_.CreateAnd(mask(), b_.CreateFreeze(wrong));
  BasicBlock *fault = new_block("misaligned"), *after = new_block("aligned");
  b_.CreateCondBr(one ? wrong : b_.CreateOrReduce(wrong), fault, after,
                  MDBuilder{context_}.createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(fault);
  Value* which = one ? mask() : wrong;
  Value* lane = b_.getInt32(0);
  if (which)
    lane = b_.CreateZExtOrTrunc(
        b_.CreateBinaryIntrinsic(Intrinsic::cttz, bits(which), b_.getFalse()), b_.getInt32Ty());
  Value* at = one ? scalar(address) : b_.CreateExtractElement(lanes, lane);
  if (one && s.kind == Shape::Strided)
    at = b_.CreateAdd(at, b_.CreateMul(b_.CreateZExt(lane, b_.getInt64Ty()),
                                       b_.getInt64(static_cast<std::uint64_t>(s.stride))));
  set_current(lane);
  b_.CreateCall(module_.getOrInsertFunction("cucpu_rt_misaligned", b_.getVoidTy(), b_.getInt64Ty()),
                {at})
      ->setDoesNotReturn();
  b_.CreateUnreachable();
  b_.SetInsertPoint(after);
}

Value* InstructionEmitter::counters() {
  Value*& counters = registers_["coverage"];
  if (!counters) counters = emit_counters(entry_, module_, true);
  return counters;
}

/// The number of lanes that are on, as an i64.
Value* InstructionEmitter::active_lanes() {
  if (!mask()) return b_.getInt64(width_);
  return b_.CreateUnaryIntrinsic(Intrinsic::ctpop, b_.CreateZExt(bits(mask()), b_.getInt64Ty()));
}

void InstructionEmitter::count_block(CallInst& call) {
  emit_count(b_, counters(), call.getArgOperand(0), active_lanes());
}

// The usual case is cheap: all lanes on the same side, often known from the first and last lane.
void InstructionEmitter::count_branch(CallInst& call) {
  const auto first =
      static_cast<std::uint32_t>(cast<ConstantInt>(call.getArgOperand(0))->getZExtValue());
  const auto index = [&](std::uint32_t n) { return b_.getInt32(first + n); };
  const auto count_side = [&](Value* is_true, Value* lanes) {
    emit_count(
        b_, counters(),
        b_.CreateSelect(is_true, index(CoverageBranch::kTrue), index(CoverageBranch::kFalse)),
        lanes);
  };
  Value* const condition = call.getArgOperand(1);
  Value* const base = counters();
  emit_count(b_, base, index(CoverageBranch::kWarps), b_.getInt64(1));
  if (shape(condition).scalar()) return count_side(scalar(condition), active_lanes());
  const auto count_sides = [&] {
    Value* yes = vec(condition);
    if (mask()) yes = b_.CreateSelect(mask(), yes, Constant::getNullValue(yes->getType()));
    Value* const taken =
        b_.CreateUnaryIntrinsic(Intrinsic::ctpop, b_.CreateZExt(bits(yes), b_.getInt64Ty()));
    Value* const others = b_.CreateSub(active_lanes(), taken);
    emit_count(b_, base, index(CoverageBranch::kTrue), taken);
    emit_count(b_, base, index(CoverageBranch::kFalse), others);
    Value* const none = b_.getInt64(0);
    Value* const both = b_.CreateAnd(b_.CreateICmpNE(taken, none), b_.CreateICmpNE(others, none));
    emit_count(b_, base, index(CoverageBranch::kDivergent), b_.CreateZExt(both, b_.getInt64Ty()));
  };
  if (mask()) return count_sides();
  const FlowEmitter::Tests tests = parts_.flow.tests_of(condition);
  const ValueMap::Known saved = parts_.values.known();
  BasicBlock *agree = new_block("counted.agree"), *differ = new_block("counted.differ"),
             *after = new_block("counted");
  b_.CreateCondBr(b_.CreateOr(tests.all, tests.none), agree, differ);
  b_.SetInsertPoint(agree);
  count_side(tests.all, b_.getInt64(width_));
  b_.CreateBr(after);
  b_.SetInsertPoint(differ);
  count_sides();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  parts_.values.restore(saved);
}

// For fault reports: the thread of one lane, or the threads of the group (or of the block).
void InstructionEmitter::set_current(Value* lane) {
  auto field = [&](std::size_t offset) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_.block_context, offset);
  };
  Value* first = lane || parts_.regions.says_group() ? first_thread() : b_.getInt32(0);
  b_.CreateStore(lane ? b_.CreateAdd(first, lane) : first,
                 field(offsetof(BlockContext, current_thread)), true);
  if (lane && parts_.strips.strip()) {
    b_.CreateStore(b_.CreateLoad(b_.getInt32Ty(), parts_.strips.strip()->column),
                   field(offsetof(BlockContext, index)), true);
    b_.CreateStore(b_.getInt32(1), field(offsetof(BlockContext, current_blocks)), true);
  }
  const unsigned lanes = lane ? 1 : parts_.regions.says_group() ? width_ : plan_.lanes.threads();
  b_.CreateStore(b_.getInt32(lanes), field(offsetof(BlockContext, current_lanes)), true);
}

// Registers that are uniform over the block are loaded once, in the entry block.
Value* InstructionEmitter::special_register(StringRef name, Type* type) {
  if (parts_.strips.strip() && name == "sreg.ctaid.x")
    return b_.CreateLoad(type, parts_.strips.strip()->column);
  if (Value* known = registers_.lookup(name)) return known;
  struct Row {
    StringRef name;
    std::size_t offset;
  };
  static constexpr Row kRows[] = {
      {"sreg.ctaid.x", offsetof(BlockContext, index)},
      {"sreg.ctaid.y", offsetof(BlockContext, index) + 4},
      {"sreg.ctaid.z", offsetof(BlockContext, index) + 8},
      {"sreg.nctaid.x", offsetof(BlockContext, grid)},
      {"sreg.nctaid.y", offsetof(BlockContext, grid) + 4},
      {"sreg.nctaid.z", offsetof(BlockContext, grid) + 8},
      {"sreg.cluster_ctaid.x", offsetof(BlockContext, cluster_index)},
      {"sreg.cluster_ctaid.y", offsetof(BlockContext, cluster_index) + 4},
      {"sreg.cluster_ctaid.z", offsetof(BlockContext, cluster_index) + 8},
      {"sreg.cluster_nctaid.x", offsetof(BlockContext, cluster)},
      {"sreg.cluster_nctaid.y", offsetof(BlockContext, cluster) + 4},
      {"sreg.cluster_nctaid.z", offsetof(BlockContext, cluster) + 8},
      {"sreg.cluster_ctarank", offsetof(BlockContext, cluster_rank)},
      {"sreg.dynamic_smem_size", offsetof(BlockContext, dynamic_shared_bytes)},
      {"sreg.total_smem_size", offsetof(BlockContext, shared_bytes)},
      {"sreg.reserved_smem_offset_1", offsetof(BlockContext, reserved_shared_offset)},
      {"sreg.smid", offsetof(BlockContext, smid)},
      {"sreg.nsmid", offsetof(BlockContext, nsmid)},
      {"sreg.gridid", offsetof(BlockContext, grid_id)},
      {"params", offsetof(BlockContext, params)},
      {"shared", offsetof(BlockContext, shared)},
  };
  for (const Row& row : kRows)
    if (row.name == name) return registers_[name] = context_field(type, row.offset, name);
  StringRef cluster = name;
  if (cluster.consume_front("sreg.clusterid.") || cluster.consume_front("sreg.nclusterid.")) {
    bool count = name.starts_with("sreg.n");
    Value* blocks =
        special_register((Twine{count ? "sreg.nctaid." : "sreg.ctaid."} + cluster).str(), type);
    Value* size = special_register(("sreg.cluster_nctaid." + cluster).str(), type);
    return registers_[name] = entry_.CreateUDiv(blocks, size);
  }
  if (name == "sreg.cluster_nctarank") {
    Value* volume = special_register("sreg.cluster_nctaid.x", type);
    for (const char* other : {"sreg.cluster_nctaid.y", "sreg.cluster_nctaid.z"})
      volume = entry_.CreateMul(volume, special_register(other, type));
    return registers_[name] = volume;
  }
  if (name == "sreg.envreg1" || name == "sreg.envreg2") {
    Value* whole =
        context_field(entry_.getInt64Ty(), offsetof(BlockContext, grid_workspace), "workspace");
    if (name.ends_with("1")) whole = entry_.CreateLShr(whole, 32);
    return registers_[name] = entry_.CreateTrunc(whole, type);
  }
  return nullptr;
}

// The number of the group's first thread (at an edge, of the first active one), within its row if
// rows run separately.
Value* InstructionEmitter::first_in_row() {
  Value* group = b_.CreateLoad(b_.getInt32Ty(), parts_.regions.group());
  Value* first = b_.CreateMul(group, b_.getInt32(width_), "", true, true);
  if (plan_.by_columns) {
    const std::uint32_t row = plan_.lanes.block.x, rows = plan_.lanes.threads() / row;
    first = b_.CreateAdd(
        b_.CreateMul(b_.CreateURem(group, b_.getInt32(rows)), b_.getInt32(row), "", true, true),
        b_.CreateMul(b_.CreateUDiv(group, b_.getInt32(rows)), b_.getInt32(width_), "", true, true),
        "", true, true);
  }
  return parts_.partial.edge() ? b_.CreateAdd(first, parts_.partial.edge()->first, "", true, true)
                               : first;
}

Value* InstructionEmitter::first_thread() {
  if (!parts_.strips.strip()) return first_in_row();
  Value* row = b_.CreateLoad(b_.getInt32Ty(), parts_.strips.strip()->row);
  return b_.CreateAdd(b_.CreateMul(row, b_.getInt32(plan_.lanes.block.x), "", true, true),
                      first_in_row(), "", true, true);
}

void InstructionEmitter::emit_marker(CallInst& call, StringRef name) {
  StringRef which = name;
  if (which.consume_front("sreg.tid.")) {
    unsigned d = static_cast<unsigned>(which[0] - 'x');
    const std::uint32_t size[3] = {plan_.lanes.block.x, plan_.lanes.block.y, plan_.lanes.block.z};
    std::uint32_t below = 1;
    for (unsigned i = 0; i < d; ++i) below *= size[i];
    if (parts_.strips.strip() && d == 0) return define(&call, first_in_row());
    if (parts_.strips.strip()) {
      Value* row = b_.CreateLoad(b_.getInt32Ty(), parts_.strips.strip()->row);
      return define(&call, d == 1 ? b_.CreateURem(row, b_.getInt32(size[1]))
                                  : b_.CreateUDiv(row, b_.getInt32(size[1])));
    }
    Value* linear = first_thread();
    if (!shape(&call).scalar())
      linear = b_.CreateAdd(splat(linear), lane_numbers(b_.getInt32Ty()), "", true, true);
    Type* type = linear->getType();
    Value* index = below == 1 ? linear : b_.CreateUDiv(linear, ConstantInt::get(type, below));
    if (plan_.lanes.threads() > below * size[d])
      index = b_.CreateURem(index, ConstantInt::get(type, size[d]));
    return define(&call, index);
  }
  if (name == "sreg.laneid") return define(&call, b_.CreateAnd(first_thread(), b_.getInt32(31)));
  if (name == "sreg.warpid") return define(&call, b_.CreateLShr(first_thread(), b_.getInt32(5)));
  if (name.starts_with("sreg.lanemask_")) {
    Value* lane = b_.CreateAdd(splat(b_.CreateAnd(first_thread(), b_.getInt32(31))),
                               lane_numbers(b_.getInt32Ty()));
    Value* one = splat(b_.getInt32(1));
    Value* eq = b_.CreateShl(one, lane);
    Value* lt = b_.CreateSub(eq, one);
    Value* result = name.ends_with("eq")   ? eq
                    : name.ends_with("lt") ? lt
                    : name.ends_with("le") ? b_.CreateOr(lt, eq)
                    : name.ends_with("ge") ? b_.CreateNot(lt)
                                           : b_.CreateNot(b_.CreateOr(lt, eq));
    return define(&call, result);
  }
  if (Value* known = special_register(name, call.getType())) return define(&call, known);
  if (name.starts_with("sreg.clock") || name.starts_with("sreg.globaltimer")) {
    const char* routine =
        name.starts_with("sreg.clock") ? "cucpu_rt_clock64" : "cucpu_rt_globaltimer";
    Value* now = b_.CreateCall(module_.getOrInsertFunction(routine, b_.getInt64Ty()));
    if (name.ends_with("_hi")) now = b_.CreateLShr(now, 32);
    return define(&call, b_.CreateZExtOrTrunc(now, call.getType()));
  }
  if (name == "trap") {
    Value* lane = b_.getInt32(0);
    if (mask())
      lane = b_.CreateZExtOrTrunc(
          b_.CreateBinaryIntrinsic(Intrinsic::cttz, bits(mask()), b_.getTrue()), b_.getInt32Ty());
    set_current(lane);
    FunctionCallee trap =
        module_.getOrInsertFunction("cucpu_rt_trap", b_.getVoidTy(), b_.getInt32Ty());
    Value* code = call.getArgOperand(0);
    b_.CreateCall(trap, {isa<Constant>(code) ? code : parts_.memory.last_lane(code)});
    return;
  }
  if (name == "check.align") return check_align(call);
  if (name == "check.access") return parts_.checks.emit_access(call);
  if (name == "check.fence") return parts_.checks.emit_fence();
  if (name == "coverage.block") return count_block(call);
  if (name == "coverage.branch") return count_branch(call);
  if (name == "yield_block") {
    b_.CreateCall(module_.getOrInsertFunction("cucpu_rt_yield_block", b_.getVoidTy()));
    return;
  }
  if (name == "yield") {  // this host thread may run the block that is waited for
    Value* time = call.getArgOperand(0);
    if (auto* known = dyn_cast<ConstantInt>(time); known && known->isZero()) {
      b_.CreateCall(module_.getOrInsertFunction("cucpu_rt_yield", b_.getVoidTy()));
      return;
    }
    FunctionCallee sleep =
        module_.getOrInsertFunction("cucpu_rt_nanosleep", b_.getVoidTy(), b_.getInt32Ty());
    b_.CreateCall(sleep, {isa<Constant>(time) ? time : parts_.memory.last_lane(time)});
    return;
  }
  if (is_barrier(name)) {
    if (name == "barrier.sync") return;  // the end of a region
    if (!plan_.groups_agree)
      return refuse("barrier reduction in control flow that may differ between lane groups");
    AllocaInst*& sum = parts_.regions.accumulators()[&call];
    if (!sum) {
      sum = temporary(b_.getInt32Ty(), "accumulator");
      entry_.CreateStore(entry_.getInt32(0), sum);
    }
    Value* p = vec(call.getArgOperand(3));
    if (name.ends_with(".and")) p = b_.CreateNot(p);
    if (mask()) p = b_.CreateSelect(mask(), p, Constant::getNullValue(p->getType()));
    Value* count = b_.CreateZExtOrTrunc(
        b_.CreateUnaryIntrinsic(Intrinsic::ctpop, b_.CreateZExt(bits(p), b_.getInt64Ty())),
        b_.getInt32Ty());
    b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), sum), count), sum);
    return;
  }
  if (is_warp_operation(name)) {
    parts_.checks.emit_warp(call, name);
    return parts_.warps.emit_warp(call, name);
  }
  refuse("cucpu." + name);
  if (!call.getType()->isVoidTy()) {
    Type* type = shape(&call).scalar() ? call.getType() : vector_type(call.getType());
    define(&call, PoisonValue::get(type));
  }
}

}  // namespace cucpu::simt
