// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/f64_nan.cpp
#include "cpu/engine/nan/f64_nan.hpp"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/TargetParser/Triple.h>

#include "cpu/engine/nan/splat.hpp"

namespace cucpu::nan {

using namespace llvm;

namespace {

constexpr std::uint64_t kDefaultNan = 0xfff8000000000000, kQuietBit = 0x0008000000000000;

/// Whether the result for a NaN is a NaN again; a number would reveal the sign bit of the NaN.
bool preserves_nan(const Instruction& i) {
  const APInt* c = nullptr;
  if (!i.isBitwiseLogicOp() || !PatternMatch::match(i.getOperand(1), PatternMatch::m_APInt(c)))
    return false;
  if (i.getOpcode() == Instruction::Or) return true;
  const APInt sign = APInt::getSignMask(c->getBitWidth());
  return i.getOpcode() == Instruction::Xor ? c->isSubsetOf(sign) : (~sign).isSubsetOf(*c);
}

/// Whether the bits of a double are used only to form a double again (quiet bit set, select).
bool becomes_double_again(const Value& bits, unsigned depth = 0) {
  if (depth > 4) return false;
  for (const User* user : bits.users()) {
    const auto* i = dyn_cast<Instruction>(user);
    if (!i) return false;
    if (isa<BitCastInst>(i) && is_double(i)) continue;
    const bool chosen = isa<SelectInst>(i) && i->getOperand(0) != &bits;
    if (!(preserves_nan(*i) || chosen) || !becomes_double_again(*i, depth + 1)) return false;
  }
  return true;
}

/// The bits of operand k as integers.
Value* bits_of(IRBuilderBase& b, Value* v) {
  Type* word = b.getInt64Ty();
  if (const auto* vector = dyn_cast<VectorType>(v->getType()))
    word = VectorType::get(word, vector->getElementCount());
  return b.CreateBitCast(v, word);
}

Value* is_nan(IRBuilderBase& b, Value* v) { return b.CreateFCmpUNO(v, v); }

/// A constant that is no NaN is never the NaN that propagates.
bool is_number(const Value* v) {
  const auto* number = dyn_cast_or_null<ConstantFP>(constant_of(v));
  return number && !number->isNaN();
}

/// `r`, or where it is a NaN the NaN that a GPU produces: the first NaN among the operands. The
/// select is between integers, because LLVM may treat all NaNs of a float select as equal.
Value* select_gpu_nan(IRBuilderBase& b, Value* r, ArrayRef<Value*> operands) {
  Value* bits = bits_of(b, r);
  bits = b.CreateSelect(is_nan(b, r), ConstantInt::get(bits->getType(), kDefaultNan), bits);
  for (Value* v : reverse(operands)) {
    if (is_number(v)) continue;
    Value* quiet = b.CreateOr(bits_of(b, v), ConstantInt::get(bits->getType(), kQuietBit));
    bits = b.CreateSelect(is_nan(b, v), quiet, bits);
  }
  return b.CreateBitCast(bits, r->getType());
}

/// A copy of the instruction with other operands, in another function.
Value* same(IRBuilderBase& b, const Instruction& i, ArrayRef<Value*> operands) {
  Instruction* copy = b.Insert(i.clone());
  copy->setDebugLoc({});
  copy->dropUnknownNonDebugMetadata();
  for (unsigned k = 0; k < operands.size(); ++k) copy->setOperand(k, operands[k]);
  return copy;
}

/// The operands of an instruction in the order in which a GPU looks for a NaN.
SmallVector<unsigned, 3> order_of(const Instruction& i) {
  const auto* call = dyn_cast<IntrinsicInst>(&i);
  if (call && call->getIntrinsicID() == Intrinsic::fma) return {1, 2, 0};
  if (call) return {0};
  if (i.getOpcode() == Instruction::FDiv) return {0, 1};
  return {1, 0};
}

/// A cold function that preserves all registers of its caller. On AArch64 only: the calling
/// convention cannot pass the largest vectors of x86-64.
Function* cold_function(Module& module, const Function& caller, const std::string& name, Type* type,
                        std::size_t operands) {
  auto* function =
      Function::Create(FunctionType::get(type, SmallVector<Type*>(operands, type), false),
                       Function::InternalLinkage, name, module);
  if (Triple{module.getTargetTriple()}.isAArch64())
    function->setCallingConv(CallingConv::PreserveAll);
  for (const Attribute::AttrKind kind :
       {Attribute::NoInline, Attribute::Cold, Attribute::NoUnwind, Attribute::WillReturn})
    function->addFnAttr(kind);
  function->setDoesNotAccessMemory();
  for (const char* kind : {"target-cpu", "target-features"})  // vectors are passed as these say
    if (caller.hasFnAttribute(kind)) function->addFnAttr(caller.getFnAttribute(kind));
  BasicBlock::Create(module.getContext(), "", function);
  return function;
}

/// The result of a vector instruction with the NaNs of a GPU, by a call, because the code for 16
/// lanes is long. The function executes the instruction; or, where operands are constants, which
/// are no NaNs, it selects between the result and the other operands.
Value* call_cold_function(IRBuilderBase& b, Instruction& i) {
  SmallVector<unsigned, 3> order = order_of(i);
  const std::size_t all = order.size();
  erase_if(order, [&](unsigned k) { return is_number(i.getOperand(k)); });
  const bool whole = order.size() == all;
  SmallVector<Value*> given;
  std::string name = "nan.";
  if (whole) {
    for (unsigned k = 0; k < all; ++k) given.push_back(i.getOperand(k));
    const auto* call = dyn_cast<IntrinsicInst>(&i);
    name += call ? Intrinsic::getBaseName(call->getIntrinsicID()) : StringRef{i.getOpcodeName()};
  } else {
    given.push_back(&i);
    for (const unsigned k : order) given.push_back(i.getOperand(k));
    name += "of" + std::to_string(order.size());
  }
  name += ".x" + std::to_string(cast<FixedVectorType>(i.getType())->getNumElements());
  const Function& caller = *i.getFunction();
  Function* function = caller.getParent()->getFunction(name);
  if (!function) {
    function = cold_function(*i.getModule(), caller, name, i.getType(), given.size());
    IRBuilder<> body{&function->getEntryBlock()};
    SmallVector<Value*> arguments(make_pointer_range(function->args())), ordered;
    for (unsigned k = 0; k < order.size(); ++k)
      ordered.push_back(arguments[whole ? order[k] : k + 1]);
    Value* r = whole ? same(body, i, arguments) : arguments[0];
    body.CreateRet(select_gpu_nan(body, r, ordered));
  }
  CallInst* made = b.CreateCall(function, given);
  made->setCallingConv(function->getCallingConv());
  return made;
}

}  // namespace

NanUse nan_use_of(const Instruction& i) {
  switch (i.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
      return is_double(&i) ? NanUse::produces : NanUse::ignores;
    case Instruction::FCmp:
    case Instruction::FPToSI:
    case Instruction::FPToUI:
      return NanUse::ignores;
    case Instruction::PHI:
    case Instruction::Select:
    case Instruction::ShuffleVector:
    case Instruction::InsertElement:
    case Instruction::ExtractElement:
    case Instruction::Freeze:
    case Instruction::FNeg:
      return is_double(&i) || becomes_double_again(i) ? NanUse::forwards : NanUse::observes;
    case Instruction::BitCast:
      return is_double(&i) || becomes_double_again(i) ? NanUse::forwards : NanUse::observes;
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
      return preserves_nan(i) && becomes_double_again(i) ? NanUse::forwards : NanUse::observes;
    case Instruction::Call:
      break;
    default:
      return NanUse::observes;
  }
  const auto* call = dyn_cast<IntrinsicInst>(&i);
  if (!call) return NanUse::observes;
  switch (call->getIntrinsicID()) {
    case Intrinsic::fma:
    case Intrinsic::sqrt:
    case Intrinsic::vector_reduce_fadd:
      return is_double(&i) ? NanUse::produces : NanUse::ignores;
    case Intrinsic::fabs:
    case Intrinsic::minnum:
    case Intrinsic::maxnum:
    case Intrinsic::minimum:
    case Intrinsic::maximum:
    case Intrinsic::floor:
    case Intrinsic::ceil:
    case Intrinsic::trunc:
    case Intrinsic::rint:
    case Intrinsic::nearbyint:
    case Intrinsic::roundeven:
      return is_double(&i) ? NanUse::forwards : NanUse::observes;
    case Intrinsic::fptosi_sat:
    case Intrinsic::fptoui_sat:
      return NanUse::ignores;
    default:
      return NanUse::observes;
  }
}

void replace_nan(Instruction& i) {
  IRBuilder<> b{i.getParent(), std::next(i.getIterator())};
  b.SetCurrentDebugLocation(i.getDebugLoc());
  // Redirect all existing uses first: the code created here uses the instruction itself.
  auto* held = cast<Instruction>(b.CreateFreeze(&i));
  i.replaceUsesWithIf(held, [&](llvm::Use& use) { return use.getUser() != held; });
  Value* r = nullptr;
  auto* call = dyn_cast<IntrinsicInst>(&i);
  const auto at = [&](unsigned k) { return i.getOperand(k); };
  if (call && call->getIntrinsicID() == Intrinsic::vector_reduce_fadd) {
    Value* sum = at(0);
    const unsigned lanes = cast<FixedVectorType>(at(1)->getType())->getNumElements();
    for (unsigned k = 0; k < lanes; ++k) {
      Value* lane = b.CreateExtractElement(at(1), k);
      sum = select_gpu_nan(b, b.CreateFAdd(sum, lane), {lane, sum});
    }
    Value* bits = b.CreateSelect(is_nan(b, &i), bits_of(b, sum), bits_of(b, &i));
    r = b.CreateBitCast(bits, i.getType());
  } else if (i.getType()->isVectorTy()) {
    r = call_cold_function(b, i);
  } else {
    SmallVector<Value*> operands;
    for (const unsigned k : order_of(i)) operands.push_back(i.getOperand(k));
    r = select_gpu_nan(b, &i, operands);
  }
  held->replaceAllUsesWith(r);
  held->eraseFromParent();
  if (i.use_empty()) i.eraseFromParent();
}

Value* any_nan(IRBuilderBase& b, ArrayRef<Value*> values) {
  const Module& module = *b.GetInsertBlock()->getModule();
  // AArch64 has a maximum that propagates NaNs, and no test of a whole vector.
  const bool maxima = Triple{module.getTargetTriple()}.isAArch64();
  MapVector<Type*, Value*> by_type;
  for (Value* v : values) {
    Value* known = b.CreateFreeze(v);  // inactive lanes may be poison
    if (!maxima) known = is_nan(b, known);
    Value*& all = by_type[v->getType()];
    all = !all ? known : maxima ? b.CreateMaximum(all, known) : b.CreateOr(all, known);
  }
  Value* any = nullptr;
  for (auto& [type, all] : by_type) {
    if (type->isVectorTy()) all = maxima ? b.CreateFPMaximumReduce(all) : b.CreateOrReduce(all);
    any = !any ? all : maxima ? b.CreateMaximum(any, all) : b.CreateOr(any, all);
  }
  return maxima ? is_nan(b, any) : any;
}

}  // namespace cucpu::nan
