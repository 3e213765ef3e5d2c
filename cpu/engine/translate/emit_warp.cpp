// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_warp.cpp: everything that waits for or talks to other threads.
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

Value* FunctionTranslator::barrier_threads(const Instruction& i, std::size_t operand) {
  return operand < i.operands.size() ? read(i.operands[operand], Type::b32) : b.getInt32(0);
}

/// Whether the constants among the number of a barrier and its number of threads are possible.
bool FunctionTranslator::check_barrier(const Operand& id, const Operand* threads) {
  constexpr std::uint64_t kBarriers = 16, kWarp = 32;
  if (id.kind == Kind::integer && id.value >= kBarriers) {
    error(id.where, "a block has the barriers 0 to 15");
    return false;
  }
  if (threads != nullptr && threads->kind == Kind::integer && threads->value % kWarp != 0) {
    error(threads->where, "the number of threads at a barrier is a multiple of 32");
    return false;
  }
  return true;
}

void FunctionTranslator::emit_bar(const Instruction& i) {
  if (!check_barrier(i.operands[0], i.operands.size() > 1 ? &i.operands[1] : nullptr)) return;
  const bool aligned = i.row->op == "bar" || i.has(Mod::aligned);
  Value* id = read(i.operands[0], Type::b32);
  call_marker(i.has(Mod::arrive) ? "barrier.arrive" : "barrier.sync", b.getVoidTy(),
              {id, barrier_threads(i, 1), b.getInt1(aligned)}, Effect::convergent);
}

void FunctionTranslator::emit_bar_red(const Instruction& i) {
  const bool aligned = i.row->op == "bar" || i.has(Mod::aligned);
  Value* id = read(i.operands[1], Type::b32);
  const bool counted = i.operands.size() == 4;
  if (!check_barrier(i.operands[1], counted ? &i.operands[2] : nullptr)) return;
  Value* threads = counted ? read(i.operands[2], Type::b32) : b.getInt32(0);
  Value* p = read_pred(i.operands[counted ? 3 : 2]);
  const llvm::StringRef name = i.has(Mod::popc)   ? "barrier.red.popc"
                               : i.has(Mod::and_) ? "barrier.red.and"
                                                  : "barrier.red.or";
  llvm::Type* t = i.has(Mod::popc) ? static_cast<llvm::Type*>(b.getInt32Ty()) : b.getInt1Ty();
  write(i.operands[0],
        call_marker(name, t, {id, threads, b.getInt1(aligned), p}, Effect::convergent));
}

void FunctionTranslator::emit_bar_warp(const Instruction& i) {
  call_marker("warp.sync", b.getVoidTy(), {read(i.operands[0], Type::b32)}, Effect::convergent);
}

void FunctionTranslator::emit_barrier_cluster(const Instruction& i) {
  call_marker(i.has(Mod::arrive) ? "cluster.arrive" : "cluster.wait", b.getVoidTy(),
              {b.getInt1(i.has(Mod::aligned))}, Effect::convergent);
}

// A block runs on one host thread: a block fence constrains only the compiler.
void FunctionTranslator::emit_fence(const Instruction& i) {
  const bool block = i.has(Mod::cta) || i.has(Mod::proxy) || i.has(Mod::mbarrier_init);
  auto order = llvm::AtomicOrdering::SequentiallyConsistent;
  if (i.has(Mod::acq_rel)) order = llvm::AtomicOrdering::AcquireRelease;
  if (i.has(Mod::acquire)) order = llvm::AtomicOrdering::Acquire;
  if (i.has(Mod::release)) order = llvm::AtomicOrdering::Release;
  b.CreateFence(order, block ? llvm::SyncScope::SingleThread : llvm::SyncScope::System);
}

void FunctionTranslator::write_pair(const Operand& d, Value* pair) {
  const Operand& first = d.kind == Kind::pair ? d.parts[0] : d;
  write(first, b.CreateExtractValue(pair, 0));
  if (d.kind == Kind::pair) write(d.parts[1], b.CreateExtractValue(pair, 1));
}

void FunctionTranslator::emit_activemask(const Instruction& i) {
  write(i.operands[0], call_marker("activemask", b.getInt32Ty(), {}, Effect::convergent));
}

void FunctionTranslator::emit_shfl(const Instruction& i) {
  const llvm::StringRef name = i.has(Mod::up)     ? "shfl.up"
                               : i.has(Mod::down) ? "shfl.down"
                               : i.has(Mod::bfly) ? "shfl.bfly"
                                                  : "shfl.idx";
  auto* t = llvm::StructType::get(b.getInt32Ty(), b.getInt1Ty());
  write_pair(i.operands[0],
             call_marker(name, t,
                         {read(i.operands[1], Type::b32), read(i.operands[2], Type::b32),
                          read(i.operands[3], Type::b32), read(i.operands[4], Type::b32)},
                         Effect::convergent));
}

void FunctionTranslator::emit_vote(const Instruction& i) {
  const bool ballot = i.has(Mod::ballot);
  const llvm::StringRef name = ballot            ? "vote.ballot"
                               : i.has(Mod::all) ? "vote.all"
                               : i.has(Mod::any) ? "vote.any"
                                                 : "vote.uni";
  llvm::Type* t = ballot ? static_cast<llvm::Type*>(b.getInt32Ty()) : b.getInt1Ty();
  write(i.operands[0],
        call_marker(name, t, {read_pred(i.operands[1]), read(i.operands[2], Type::b32)},
                    Effect::convergent));
}

void FunctionTranslator::emit_match(const Instruction& i) {
  const bool wide = i.types[0] == Type::b64;
  Value *a = read(i.operands[1], i.types[0]), *mask = read(i.operands[2], Type::b32);
  if (i.has(Mod::any)) {
    return write(i.operands[0], call_marker(wide ? "match.any.i64" : "match.any.i32",
                                            b.getInt32Ty(), {a, mask}, Effect::convergent));
  }
  auto* t = llvm::StructType::get(b.getInt32Ty(), b.getInt1Ty());
  write_pair(i.operands[0], call_marker(wide ? "match.all.i64" : "match.all.i32", t, {a, mask},
                                        Effect::convergent));
}

void FunctionTranslator::emit_redux(const Instruction& i) {
  const Type t = i.types[0];
  const bool max = i.has(Mod::max_);
  std::string name = "redux.";
  if (i.has(Mod::min_) || max) {
    name += is_signed(t) ? "s" : "u";
    name += max ? "max" : "min";
  } else {
    name += i.has(Mod::add) ? "add" : i.has(Mod::and_) ? "and" : i.has(Mod::or_) ? "or" : "xor";
  }
  Value* a = read(i.operands[1], t);
  write(i.operands[0],
        call_marker(name, a->getType(), {a, read(i.operands[2], Type::b32)}, Effect::convergent));
}

// The order of floats is that of integers once the other bits of negative ones are inverted; -0 is
// less than +0. A NaN becomes the key that never wins, or with .NaN always does; both ends of the
// range of keys are NaNs.
void FunctionTranslator::emit_redux_float(const Instruction& i) {
  const bool max = i.has(Mod::max_);
  Value* x = read(i.operands[1], Type::f32);
  Value* bits = as_bits(x);
  if (i.has(Mod::abs)) bits = b.CreateAnd(bits, 0x7fffffff);
  const auto exchange = [&](Value* v) {
    return b.CreateXor(v, b.CreateAnd(b.CreateAShr(v, 31), 0x7fffffff));
  };
  Value* nan_key = b.getInt32(max == i.has(Mod::NaN) ? 0x7fffffff : 0x80000000);
  Value* key = b.CreateSelect(is_nan(x), nan_key, exchange(bits));
  Value* r = call_marker(max ? "redux.smax" : "redux.smin", b.getInt32Ty(),
                         {key, read(i.operands[2], Type::b32)}, Effect::convergent);
  Value* none = b.CreateICmpEQ(r, nan_key);
  write(i.operands[0],
        as_type(b.CreateSelect(none, b.getInt32(0x7fffffff), exchange(r)), b.getFloatTy()));
}

void FunctionTranslator::emit_elect(const Instruction& i) {
  auto* t = llvm::StructType::get(b.getInt32Ty(), b.getInt1Ty());
  write_pair(i.operands[0],
             call_marker("elect", t, {read(i.operands[1], Type::b32)}, Effect::convergent));
}

llvm::AllocaInst* FunctionTranslator::in_memory(llvm::ArrayRef<Value*> values) {
  llvm::SmallVector<llvm::Type*, 16> types;
  for (Value* v : values) types.push_back(v->getType());
  auto* type = llvm::StructType::get(out.getContext(), types);
  llvm::AllocaInst* slot = nullptr;
  {
    const llvm::IRBuilder<>::InsertPointGuard guard{b};
    b.SetInsertPoint(entry_, entry_->getFirstInsertionPt());
    slot = b.CreateAlloca(type);
    slot->setAlignment(llvm::Align(16));
  }
  for (unsigned k = 0; k < values.size(); ++k)
    b.CreateStore(values[k], b.CreateStructGEP(type, slot, k));
  return slot;
}

/// A collective routine: the operands and the result of this lane are in memory, one after the
/// other, each with its own alignment.
Value* FunctionTranslator::warp_call(llvm::StringRef name, llvm::ArrayRef<Value*> in,
                                     llvm::Type* result) {
  llvm::AllocaInst* in_slot = in_memory(in);
  llvm::AllocaInst* out_slot = nullptr;
  {
    const llvm::IRBuilder<>::InsertPointGuard guard{b};
    b.SetInsertPoint(entry_, entry_->getFirstInsertionPt());
    out_slot = b.CreateAlloca(result->isVoidTy() ? b.getInt64Ty() : result);
    out_slot->setAlignment(llvm::Align(16));
  }
  call_marker(name, b.getVoidTy(), {in_slot, out_slot}, Effect::convergent);
  return result->isVoidTy() ? nullptr : b.CreateLoad(result, out_slot);
}

}  // namespace cucpu::ir
