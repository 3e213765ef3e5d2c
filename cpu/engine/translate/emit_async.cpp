// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_async.cpp: asynchronous copies (done at once), mbarriers, clusters,
// stack memory.
#include <llvm/IR/Intrinsics.h>

#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

// cp.async [dst], [src], size {, src-size or ignore-src} {, policy}: what the source does not give
// is zero.
void FunctionTranslator::emit_cp_async(const Instruction& i) {
  Value* to = pointer(i.operands[0], Space::shared);
  Value* from = pointer(i.operands[1], Space::global);
  const auto size = static_cast<unsigned>(i.operands[2].value);
  if (size != 4 && size != 8 && size != 16)
    return error(i.operands[2].where,
                 "cp.async copies 4, 8 or 16 bytes, not " + std::to_string(size));
  if (i.has(Mod::cg) && size != 16)
    return error(i.operands[2].where, "cp.async.cg copies 16 bytes");
  const std::size_t extra = i.has(Mod::L2_cache_hint) ? 4 : 3;
  if (i.operands.size() <= extra) {
    for (unsigned k = 0; k < size; k += 4) {
      auto* l = b.CreateAlignedLoad(b.getInt32Ty(), offset_pointer(from, k),
                                    llvm::Align(k == 0 ? size : 4));
      mark(l, Space::global);
      auto* s = b.CreateAlignedStore(l, offset_pointer(to, k), llvm::Align(k == 0 ? size : 4));
      mark(s, Space::shared);
    }
    return check_copy(to, size);
  }
  const Operand& o = i.operands[3];
  Value* bytes = nullptr;
  if (o.kind == Kind::reg && source.registers[o.index].type == Type::pred) {
    bytes = b.CreateSelect(read_pred(o), b.getInt32(0), b.getInt32(size));
  } else {
    bytes = read(o, Type::b32);
  }
  call_routine("copy_fill", b.getVoidTy(), {to, from, b.getInt32(size), bytes}, false);
  check_copy(to, size);
}

/// Check mode: copies are done at once, but what they write may be read after a wait only.
void FunctionTranslator::check_copy(Value* to, unsigned bytes) {
  if (!module.options.copies) return;
  call_routine("check_copy", b.getVoidTy(),
               {b.CreatePtrToInt(to, b.getInt64Ty()), b.getInt32(bytes)}, false);
}

void FunctionTranslator::emit_cp_async_group(const Instruction& i) {
  if (!module.options.copies) return;
  if (i.has(Mod::commit_group)) {
    call_routine("check_copy_commit", b.getVoidTy(), {}, false);
    return;
  }
  constexpr std::uint32_t kAll = 0xffffffff;
  const auto groups = i.has(Mod::wait_all) ? kAll : static_cast<std::uint32_t>(i.operands[0].value);
  call_routine("check_copy_wait", b.getVoidTy(), {b.getInt32(groups)}, false);
}

void FunctionTranslator::emit_cp_async_arrive(const Instruction& i) {
  if (module.options.copies)  // the wait for the mbarrier waits for the copies
    call_routine("check_copy_wait", b.getVoidTy(), {b.getInt32(0xffffffff)}, false);
  if (!i.has(Mod::noinc))
    return;  // the arrival was added to the expected count and has happened: nothing changes
  Value* at = pointer(i.operands[0], Space::shared);
  call_routine("mbarrier_arrive", b.getInt64Ty(), {at, b.getInt32(1), b.getInt32(0)}, false);
}

/// The order of a bulk copy: none, .weak, or .relaxed with a scope and the type .b128. Copies are
/// complete when they are issued, so that it changes nothing.
bool FunctionTranslator::bulk_order_fits(const Instruction& i) {
  const bool scope = i.has(Mod::cta) || i.has(Mod::cluster) || i.has(Mod::gpu) || i.has(Mod::sys);
  const bool typed = i.has(Mod::b128), relaxed = i.has(Mod::relaxed);
  const bool fits = relaxed ? scope && typed : !scope && !(i.has(Mod::weak) && typed);
  if (!fits) error(i.where, "'.relaxed' takes a scope and '.b128', and '.weak' takes neither");
  return fits;
}

void FunctionTranslator::emit_cp_bulk(const Instruction& i) {
  if (!bulk_order_fits(i)) return;
  const bool to_global = i.has(Mod::bulk_group);
  const bool from_shared = to_global || !i.has(Mod::global);
  Value* to =
      pointer(i.operands[0], to_global ? Space::global : Space::shared, i.has(Mod::shared_cluster));
  Value* from = pointer(i.operands[1], from_shared ? Space::shared : Space::global);
  Value* bytes = read(i.operands[2], Type::b32);
  if (to_global) {
    call_routine("copy_fill", b.getVoidTy(), {to, from, bytes, bytes}, false);
    return;
  }
  Value* barrier = pointer(i.operands[3], Space::shared, i.has(Mod::shared_cluster));
  const Operand* mask = i.has(Mod::multicast_cluster) ? &i.operands[4] : nullptr;
  multicast(i, to, barrier, mask, [&](Value* there, Value* signal) {
    call_routine("copy_fill", b.getVoidTy(), {there, from, bytes, bytes}, false);
    call_routine("mbarrier_complete_tx", b.getVoidTy(), {signal, bytes}, false);
  });
}

// cp.async.bulk.cp_mask [to], [from], size {, policy}, mask
void FunctionTranslator::emit_cp_bulk_mask(const Instruction& i) {
  if (!bulk_order_fits(i)) return;
  const bool hint = i.has(Mod::L2_cache_hint);
  if (i.operands.size() != (hint ? 5 : 4))
    return error(i.where, "expected [to], [from], size and a mask of 16 bits");
  Value* mask = b.CreateZExt(read(i.operands.back(), Type::b16), b.getInt32Ty());
  call_routine("copy_masked", b.getVoidTy(),
               {pointer(i.operands[0], Space::global), pointer(i.operands[1], Space::shared),
                read(i.operands[2], Type::b32), mask},
               false);
}

// cp.async.bulk.ignore_oob [to], [from], size, left, right, [mbarrier]: so many bytes at either end
// are not read; they may arrive as anything. All of the size counts.
void FunctionTranslator::emit_cp_bulk_ignore(const Instruction& i) {
  if (!bulk_order_fits(i)) return;
  Value *to = pointer(i.operands[0], Space::shared), *from = pointer(i.operands[1], Space::global);
  Value *bytes = read(i.operands[2], Type::b32), *left = read(i.operands[3], Type::b32);
  Value* given = b.CreateSub(b.CreateSub(bytes, left), read(i.operands[4], Type::b32));
  Value* skip = b.CreateZExt(left, b.getInt64Ty());
  call_routine(
      "copy_fill", b.getVoidTy(),
      {b.CreateGEP(b.getInt8Ty(), to, skip), b.CreateGEP(b.getInt8Ty(), from, skip), given, given},
      false);
  call_routine("mbarrier_complete_tx", b.getVoidTy(),
               {pointer(i.operands[5], Space::shared), bytes}, false);
}

// `.layout::v1` reserves space for reports, which this architecture does not make: the flag is only
// stored.
void FunctionTranslator::emit_mbarrier_init(const Instruction& i) {
  Value* at = pointer(i.operands[0], space_of(i));
  call_routine("mbarrier_init", b.getVoidTy(),
               {at, read(i.operands[1], Type::b32), b.getInt32(i.has(Mod::layout_v1) ? 1 : 0)},
               false);
}

void FunctionTranslator::emit_mbarrier_layout(const Instruction& i) {
  Value* second =
      call_routine("mbarrier_layout", b.getInt32Ty(), {pointer(i.operands[1], space_of(i))}, false);
  write(i.operands[0], b.CreateICmpEQ(second, b.getInt32(i.has(Mod::layout_v1) ? 1 : 0)));
}

void FunctionTranslator::emit_mbarrier_tx(const Instruction& i) {
  Value* at = pointer(i.operands[0], space_of(i), i.has(Mod::shared_cluster));
  call_routine(i.has(Mod::expect_tx) ? "mbarrier_expect_tx" : "mbarrier_complete_tx", b.getVoidTy(),
               {at, read(i.operands[1], Type::b32)}, false);
}

void FunctionTranslator::emit_mbarrier_arrive(const Instruction& i) {
  if (i.has(Mod::shared_cluster) && i.operands[0].kind != Kind::sink)
    return error(i.operands[0].where, "an arrival in another block has no result: write '_'");
  Value* at = pointer(i.operands[1], space_of(i), i.has(Mod::shared_cluster));
  Value *count = b.getInt32(1), *tx = b.getInt32(0);
  if (i.operands.size() > 2) (i.has(Mod::expect_tx) ? tx : count) = read(i.operands[2], Type::b32);
  Value* state = call_routine(i.has(Mod::arrive_drop) ? "mbarrier_arrive_drop" : "mbarrier_arrive",
                              b.getInt64Ty(), {at, count, tx}, false);
  write(i.operands[0], state);
}

// mbarrier.test_wait p{|reported} {, report}, [a], state {, time}. A wait that fails yields before
// it returns, so that a loop around it ends. Only operations of an NVLink fabric make reports:
// there are none, and so the conditional phase of a barrier is always that of the primary one.
void FunctionTranslator::emit_mbarrier_wait(const Instruction& i) {
  const std::size_t address = i.operands.size() > 1 && i.operands[1].kind != Kind::address ? 2 : 1;
  if (i.operands.size() < address + 2 || i.operands.size() > address + 3 ||
      i.operands[address].kind != Kind::address)
    return error(i.where, "expected p {, report}, [mbarrier], state or parity {, time}");
  if (i.has(Mod::test_wait) && i.operands.size() > address + 2)
    return error(i.operands[address + 2].where, "only try_wait takes a time");
  if (i.operands.size() > address + 2) (void)read(i.operands[address + 2], Type::b32);
  if (i.has(Mod::phase_type_primary) && address == 2 && i.operands[1].kind != Kind::sink &&
      (i.operands[1].kind != Kind::reg || source.registers[i.operands[1].index].type != Type::b8))
    return error(i.operands[1].where, "a report goes to a register of type .b8");
  Value* at = pointer(i.operands[address], space_of(i), i.has(Mod::shared_cluster));
  const Operand& state = i.operands[address + 1];
  const auto test = [&]() -> Value* {
    if (i.has(Mod::parity)) {
      return call_routine("mbarrier_test_parity", b.getInt1Ty(), {at, read(state, Type::b32)},
                          false);
    }
    return call_routine("mbarrier_test", b.getInt1Ty(), {at, read(state, Type::b64)}, false);
  };
  Value* first = test();
  auto* start = b.GetInsertBlock();
  auto* wait = llvm::BasicBlock::Create(out.getContext(), "");
  auto* after = llvm::BasicBlock::Create(out.getContext(), "");
  b.CreateCondBr(first, after, wait);
  start_block(wait);
  call_marker("yield", b.getVoidTy(), {b.getInt32(0)}, Effect::convergent);
  Value* second = test();
  b.CreateBr(after);
  start_block(after);
  auto* p = b.CreatePHI(b.getInt1Ty(), 2);
  p->addIncoming(b.getTrue(), start);
  p->addIncoming(second, wait);
  if (address == 2) write(i.operands[1], b.getInt8(0));
  const Operand& d = i.operands[0];
  if (d.kind != Kind::pair) return write(d, p);
  write(d.parts[0], p);
  write(d.parts[1], b.getFalse());
}

// clusterlaunchcontrol.try_cancel [response], [mbarrier]
void FunctionTranslator::emit_try_cancel(const Instruction& i) {
  call_routine("try_cancel", b.getVoidTy(),
               {pointer(i.operands[0], space_of(i)), pointer(i.operands[1], space_of(i)),
                b.getInt32(i.has(Mod::multicast_cluster_all) ? 1 : 0)},
               false);
}

// clusterlaunchcontrol.query_cancel d, response: words of a CancelResponse.
void FunctionTranslator::emit_query_cancel(const Instruction& i) {
  Value* response = read(i.operands[1], Type::b128);
  const auto word = [&](unsigned n) {
    return b.CreateTrunc(b.CreateLShr(response, 32 * n), b.getInt32Ty());
  };
  const Operand& d = i.operands[0];
  if (i.has(Mod::is_canceled)) return write(d, b.CreateICmpNE(word(3), b.getInt32(0)));
  if (!i.has(Mod::v4)) {
    return write(d, word(i.has(Mod::get_first_ctaid_x)   ? 0
                         : i.has(Mod::get_first_ctaid_y) ? 1
                                                         : 2));
  }
  if (d.kind != Kind::vector || d.parts.size() != 4)
    return error(d.where, "expected four registers or _");
  for (unsigned n = 0; n < 4; ++n) write(d.parts[n], n == 3 ? b.getInt32(0) : word(n));
}

void FunctionTranslator::emit_mbarrier_pending(const Instruction& i) {
  if (i.operands[0].kind == Kind::sink) return error(i.operands[0].where, "expected a register");
  write(i.operands[0],
        call_routine("mbarrier_pending", b.getInt32Ty(), {read(i.operands[1], Type::b64)}));
}

// Whether the operand is a shared address rather than a generic one. A variable is its shared
// address in the generic forms too, as in ptxas.
bool FunctionTranslator::is_shared_address(const Instruction& i, const Operand& o) {
  return i.types[0] == Type::u32 || i.has(Mod::shared_cluster) || o.kind == Kind::local ||
         o.kind == Kind::global;
}

// A shared address gets the rank (see cluster_pointer()); a negative offset stays negative relative
// to the memory of the other block. A generic address becomes the generic address in the memory of
// the other block.
void FunctionTranslator::emit_mapa(const Instruction& i) {
  Value* rank = read(i.operands[2], Type::b32);
  if (is_shared_address(i, i.operands[1])) {
    Value* a = b.CreateTrunc(read(i.operands[1], i.types[0]), b.getInt32Ty());
    Value* offset = b.CreateAShr(b.CreateShl(a, 8), 8);
    Value* tag = b.CreateShl(b.CreateAdd(rank, b.getInt32(1)), 24);
    return write(i.operands[0], b.CreateZExt(b.CreateAdd(tag, offset), type_of(i.types[0])));
  }
  Value* a = read(i.operands[1], Type::b64);
  Value* offset = b.CreateSub(a, b.CreatePtrToInt(shared_base(), b.getInt64Ty()));
  Value* there = call_marker("cluster.shared", b.getPtrTy(), {rank}, Effect::none);
  write(i.operands[0], b.CreateAdd(b.CreatePtrToInt(there, b.getInt64Ty()), offset));
}

void FunctionTranslator::emit_getctarank(const Instruction& i) {
  Value* address = nullptr;
  if (is_shared_address(i, i.operands[1])) {
    address = b.CreatePtrToInt(cluster_pointer(read(i.operands[1], i.types[0])), b.getInt64Ty());
  } else {
    address = read(i.operands[1], Type::b64);
  }
  write(i.operands[0], call_routine("cluster_rank_of", b.getInt32Ty(), {address}, false));
}

void FunctionTranslator::emit_createpolicy(const Instruction& i) {
  write(i.operands[0], b.getInt64(0));
}

void FunctionTranslator::emit_alloca(const Instruction& i) {
  auto* a = b.CreateAlloca(b.getInt8Ty(),
                           b.CreateZExtOrTrunc(read(i.operands[1], i.types[0]), b.getInt64Ty()));
  a->setAlignment(
      llvm::Align(i.operands.size() > 2 ? std::max<std::uint64_t>(i.operands[2].value, 1) : 8));
  write(i.operands[0],
        b.CreateZExtOrTrunc(b.CreatePtrToInt(a, b.getInt64Ty()), type_of(i.types[0])));
}

void FunctionTranslator::emit_stacksave(const Instruction& i) {
  Value* p = b.CreateStackSave();
  write(i.operands[0],
        b.CreateZExtOrTrunc(b.CreatePtrToInt(p, b.getInt64Ty()), type_of(i.types[0])));
}

void FunctionTranslator::emit_stackrestore(const Instruction& i) {
  Value* a = b.CreateZExtOrTrunc(read(i.operands[0], i.types[0]), b.getInt64Ty());
  b.CreateStackRestore(b.CreateIntToPtr(a, b.getPtrTy()));
}

}  // namespace cucpu::ir
