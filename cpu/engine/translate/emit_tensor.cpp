// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_tensor.cpp: bulk copies of tensors (done at once, by routines), bulk
// reductions, stores and reductions that complete at an mbarrier, tensormap.replace.
#include "cpu/engine/runtime/tensor_copy.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

namespace {

std::uint32_t rank_of(const Instruction& i) {
  constexpr Mod kRanks[] = {Mod::m_1d, Mod::m_2d, Mod::m_3d, Mod::m_4d, Mod::m_5d};
  for (std::uint32_t r = 0; r < 5; ++r)
    if (i.has(kRanks[r])) return r + 1;
  return 0;
}

}  // namespace

ReduceOp FunctionTranslator::reduction_of(const Instruction& i) {
  if (i.has(Mod::min_)) return ReduceOp::min;
  if (i.has(Mod::max_)) return ReduceOp::max;
  if (i.has(Mod::inc)) return ReduceOp::inc;
  if (i.has(Mod::dec)) return ReduceOp::dec;
  if (i.has(Mod::and_)) return ReduceOp::bit_and;
  if (i.has(Mod::or_)) return ReduceOp::bit_or;
  if (i.has(Mod::xor_)) return ReduceOp::bit_xor;
  return ReduceOp::add;
}

namespace {

/// The flags of a copy that its words say.
std::uint32_t tensor_mode(const Instruction& i) {
  if (i.has(Mod::im2col) || i.has(Mod::im2col_no_offs)) return kTensorIm2col;
  if (i.has(Mod::im2col_w)) return kTensorWide;
  if (i.has(Mod::im2col_w_128)) return kTensorWide128;
  return i.has(Mod::tile_gather4) || i.has(Mod::tile_scatter4) ? kTensorRows : 0;
}

}  // namespace

/// [map, {coordinates}] as the first operands of a tensor routine, `shared` and `what` between
/// them.
bool FunctionTranslator::tensor_operands(const Instruction& i, const Operand& address,
                                         Value* shared, std::uint32_t what,
                                         llvm::SmallVectorImpl<Value*>& args) {
  const std::uint32_t rank = rank_of(i);
  const Operand* list = address.parts.size() > 1 ? &address.parts[1] : nullptr;
  const std::size_t given = list == nullptr              ? 0
                            : list->kind == Kind::vector ? list->parts.size()
                                                         : 1;
  const std::uint32_t wanted = (what & kTensorRows) != 0 ? 5 : rank;  // a column and four rows
  if (given != wanted) {
    error(address.where, "expected a tensor map and " + std::to_string(wanted) + " coordinates");
    return false;
  }
  args.append({pointer(address, Space::generic), shared, b.getInt32(what | rank)});
  for (std::uint32_t k = 0; k < 5; ++k) {
    if (k >= wanted) {
      args.push_back(b.getInt32(0));
    } else {
      args.push_back(read(list->kind == Kind::vector ? list->parts[k] : *list, Type::b32));
    }
  }
  return true;
}

/// Calls make(destination, barrier) once, or with .multicast::cluster for every block of the mask,
/// at the same offsets.
void FunctionTranslator::multicast(const Instruction& i, Value* to, Value* barrier,
                                   const Operand* mask_operand,
                                   llvm::function_ref<void(Value*, Value*)> make) {
  if (mask_operand == nullptr) return make(to, barrier);
  const bool cluster = i.has(Mod::shared_cluster);
  Value* own =
      cluster ? call_marker("cluster.shared", b.getPtrTy(),
                            {call_marker("sreg.cluster_ctarank", b.getInt32Ty(), {}, Effect::none)},
                            Effect::none)
              : shared_base();
  Value* base = b.CreatePtrToInt(own, b.getInt64Ty());
  const auto offset = [&](Value* p) {
    return b.CreateSub(b.CreatePtrToInt(p, b.getInt64Ty()), base);
  };
  Value* mask = b.CreateZExt(read(*mask_operand, Type::b16), b.getInt32Ty());
  Value *to_offset = offset(to), *barrier_offset = offset(barrier);
  for (unsigned rank = 0; rank < 16; ++rank) {
    auto* then = llvm::BasicBlock::Create(out.getContext(), "");
    auto* after = llvm::BasicBlock::Create(out.getContext(), "");
    b.CreateCondBr(b.CreateICmpNE(b.CreateAnd(mask, b.getInt32(1U << rank)), b.getInt32(0)), then,
                   after);
    start_block(then);
    Value* there = call_marker("cluster.shared", b.getPtrTy(), {b.getInt32(rank)}, Effect::none);
    make(b.CreateGEP(b.getInt8Ty(), there, to_offset),
         b.CreateGEP(b.getInt8Ty(), there, barrier_offset));
    b.CreateBr(after);
    start_block(after);
  }
}

/// The offsets of .im2col at operand `next`, 16 bits each; null after an error.
Value* FunctionTranslator::pixel_offsets(const Instruction& i, std::size_t& next) {
  const std::uint32_t mode = tensor_mode(i);
  const bool wide = (mode & (kTensorWide | kTensorWide128)) != 0;
  Value* offsets = b.getInt64(0);
  if (mode != kTensorIm2col && !wide) return offsets;
  const std::size_t wanted = rank_of(i) < 3 ? 0 : wide ? 2 : rank_of(i) - 2;
  const Operand* list = i.operands.size() > next ? &i.operands[next++] : nullptr;
  const std::size_t given = list == nullptr              ? 0
                            : list->kind == Kind::vector ? list->parts.size()
                                                         : 1;
  if (wanted == 0 || given != wanted) {
    error(i.where, wide ? ".im2col::w takes a halo and an offset"
                        : ".im2col takes an offset for each spatial dimension of a tensor "
                          "of 3 to 5 dimensions");
    return nullptr;
  }
  for (std::size_t k = 0; k < wanted; ++k) {
    Value* v = read_bits(list->kind == Kind::vector ? list->parts[k] : *list, 16);
    offsets = b.CreateOr(offsets, b.CreateShl(b.CreateZExt(v, b.getInt64Ty()), 16 * k));
  }
  return offsets;
}

// cp.async.bulk.prefetch.tensor [map, {coordinates}] {, {im2col offsets}} {, policy}
void FunctionTranslator::emit_tensor_prefetch(const Instruction& i) {
  std::size_t next = 1;
  llvm::SmallVector<Value*, 12> args;
  if (pixel_offsets(i, next) == nullptr ||
      !tensor_operands(i, i.operands[0], b.getInt64(0), tensor_mode(i), args))
    return;
  if (i.operands.size() != next + (i.has(Mod::L2_cache_hint) ? 1 : 0))
    error(i.where, "a prefetch takes the offsets of .im2col and a cache policy, if any");
}

// cp.async.bulk.tensor [shared], [map, {coordinates}], [mbarrier] {, {im2col offsets}} {, mask} {,
// policy}
void FunctionTranslator::emit_tensor_load(const Instruction& i) {
  const std::uint32_t mode = tensor_mode(i);
  const bool cluster = i.has(Mod::shared_cluster);
  std::size_t next = 3;
  Value* offsets = pixel_offsets(i, next);
  if (offsets == nullptr) return;
  const Operand* mask = nullptr;
  if (i.has(Mod::multicast_cluster)) {
    if (i.operands.size() <= next)
      return error(i.where, ".multicast::cluster takes a mask of blocks");
    mask = &i.operands[next++];
  }
  if (i.operands.size() != next + (i.has(Mod::L2_cache_hint) ? 1 : 0))
    return error(i.where, "expected the offsets of .im2col, a mask and a cache policy, if any");
  llvm::SmallVector<Value*, 12> args;
  Value* to = pointer(i.operands[0], Space::shared, cluster);
  Value* barrier = pointer(i.operands[2], Space::shared, cluster);
  if (!tensor_operands(i, i.operands[1], to, mode, args)) return;
  args.push_back(offsets);
  multicast(i, to, barrier, mask, [&](Value* there, Value* signal) {
    args[1] = there;
    Value* bytes = call_routine("tensor_load", b.getInt32Ty(), args, false);
    call_routine("mbarrier_complete_tx", b.getVoidTy(), {signal, bytes}, false);
  });
}

void FunctionTranslator::emit_tensor_store(const Instruction& i) {
  llvm::SmallVector<Value*, 12> args;
  Value* from = pointer(i.operands[1], Space::shared);
  if (tensor_operands(i, i.operands[0], from, tensor_mode(i), args))
    call_routine("tensor_store", b.getVoidTy(), args, false);
}

void FunctionTranslator::emit_tensor_reduce(const Instruction& i) {
  llvm::SmallVector<Value*, 12> args;
  Value* from = pointer(i.operands[1], Space::shared);
  const std::uint32_t what = static_cast<std::uint32_t>(reduction_of(i)) << 16;
  if (tensor_operands(i, i.operands[0], from, what | tensor_mode(i), args))
    call_routine("tensor_reduce", b.getVoidTy(), args, false);
}

// cp.reduce.async.bulk [to], [from], bytes {, [mbarrier]} {, policy}
void FunctionTranslator::emit_cp_reduce(const Instruction& i) {
  const bool to_global = i.has(Mod::bulk_group);
  const Type type = i.types[0];
  const ReduceOp op = reduction_of(i);
  const bool floating = ptx::class_of(type) == ptx::Class::floating;
  const bool wide = type == Type::f32 || type == Type::f64;
  const bool arithmetic = op == ReduceOp::add || op == ReduceOp::min || op == ReduceOp::max;
  if (floating && (!arithmetic || (wide && op != ReduceOp::add)))
    return error(i.where, ptx::cat("this reduction does not exist for .", ptx::name_of(type)));
  Value* to =
      pointer(i.operands[0], to_global ? Space::global : Space::shared, i.has(Mod::shared_cluster));
  Value* from = pointer(i.operands[1], Space::shared);
  Value* bytes = read(i.operands[2], Type::b32);
  const std::uint32_t what = static_cast<std::uint32_t>(type) | static_cast<std::uint32_t>(op) << 8;
  call_routine("reduce_copy", b.getVoidTy(), {to, from, bytes, b.getInt32(what)}, false);
  if (to_global) return;
  Value* barrier = pointer(i.operands[3], Space::shared, true);
  call_routine("mbarrier_complete_tx", b.getVoidTy(), {barrier, bytes}, false);
}

// st.async [a], b, [mbarrier]
void FunctionTranslator::emit_st_async(const Instruction& i) {
  const Type type = i.types[0];
  Value* to = pointer(i.operands[0], Space::shared, true);
  Value* barrier = pointer(i.operands[2], Space::shared, true);
  const Operand& a = i.operands[1];
  const std::size_t count = a.kind == Kind::vector ? a.parts.size() : 1;
  const std::size_t wanted = i.has(Mod::v4) ? 4 : i.has(Mod::v2) ? 2 : 1;
  if (count != wanted) return error(a.where, "expected " + std::to_string(wanted) + " values");
  const unsigned bytes = ptx::bytes_of(type);
  for (std::size_t k = 0; k < count; ++k) {
    auto* s = b.CreateAlignedStore(read_bits(a.kind == Kind::vector ? a.parts[k] : a, bytes * 8),
                                   offset_pointer(to, k * bytes), llvm::Align(bytes));
    mark(s, Space::shared);
  }
  call_routine("mbarrier_complete_tx", b.getVoidTy(),
               {barrier, b.getInt32(static_cast<std::uint32_t>(count * bytes))}, false);
}

// red.async [a], b, [mbarrier]
void FunctionTranslator::emit_red_async(const Instruction& i) {
  Value* to = pointer(i.operands[0], Space::shared, true);
  Value* barrier = pointer(i.operands[2], Space::shared, true);
  (void)atomic(i, to, read(i.operands[1], i.types[0]), nullptr, i.types[0]);
  call_routine("mbarrier_complete_tx", b.getVoidTy(),
               {barrier, b.getInt32(ptx::bytes_of(i.types[0]))}, false);
}

// st.async.release [a], b
void FunctionTranslator::emit_st_async_release(const Instruction& i) {
  const unsigned bytes = ptx::bytes_of(i.types[0]);
  b.CreateFence(llvm::AtomicOrdering::Release);
  auto* s = b.CreateAlignedStore(read_bits(i.operands[1], bytes * 8),
                                 pointer(i.operands[0], Space::global), llvm::Align(bytes));
  s->setAtomic(llvm::AtomicOrdering::Monotonic);
  mark(s, Space::global);
}

// red.async.release [a], b
void FunctionTranslator::emit_red_async_release(const Instruction& i) {
  if (i.has(Mod::mmio) && !i.has(Mod::sys)) return error(i.where, "'.mmio' takes the scope '.sys'");
  (void)atomic(i, pointer(i.operands[0], Space::global), read(i.operands[1], i.types[0]), nullptr,
               i.types[0]);
}

void FunctionTranslator::emit_tensormap_replace(const Instruction& i) {
  constexpr std::pair<Mod, TensorField> kFields[] = {
      {Mod::global_address, TensorField::global_address},
      {Mod::rank, TensorField::rank},
      {Mod::box_dim, TensorField::box_dim},
      {Mod::global_dim, TensorField::global_dim},
      {Mod::global_stride, TensorField::global_stride},
      {Mod::element_stride, TensorField::element_stride},
      {Mod::elemtype, TensorField::elemtype},
      {Mod::interleave_layout, TensorField::interleave_layout},
      {Mod::swizzle_mode, TensorField::swizzle_mode},
      {Mod::fill_mode, TensorField::fill_mode},
      {Mod::swizzle_atomicity, TensorField::swizzle_atomicity},
  };
  for (const auto& [word, field] : kFields) {
    if (!i.has(word)) continue;
    constexpr std::uint64_t kMostAtoms = 3;
    if (word == Mod::swizzle_atomicity && i.operands[1].value > kMostAtoms)
      return error(i.operands[1].where, "a swizzle atomicity is 0 to 3");
    const bool indexed = i.operands.size() > 2;
    const bool wants_index = word == Mod::box_dim || word == Mod::global_dim ||
                             word == Mod::global_stride || word == Mod::element_stride;
    if (indexed != wants_index)
      return error(i.where, wants_index ? "expected the number of a dimension before the new value"
                                        : "this field takes one new value");
    Value* map = pointer(i.operands[0], space_of(i));
    Value* index = indexed ? read(i.operands[1], Type::b32) : b.getInt32(0);
    constexpr std::uint64_t kLastDimension = 4;
    if (indexed && i.operands[1].value > kLastDimension)
      return error(i.operands[1].where, "a tensor has the dimensions 0 to 4");
    const Type type = i.types[0];
    Value* value = b.CreateZExt(as_bits(read(i.operands[indexed ? 2 : 1], type)), b.getInt64Ty());
    call_routine("tensormap_replace", b.getVoidTy(),
                 {map, b.getInt32(static_cast<std::uint32_t>(field)), index, value}, false);
    return;
  }
}

// tensormap.cp_fenceproxy [to], [from], 128: every lane of the warp copies the same bytes.
void FunctionTranslator::emit_tensormap_copy(const Instruction& i) {
  constexpr std::uint64_t kMapBytes = 128;
  if (i.operands[2].value != kMapBytes)
    return error(i.operands[2].where, "a tensor map has 128 bytes");
  Value* to = pointer(i.operands[0], Space::global);
  Value* from = pointer(i.operands[1], Space::shared);
  Value* bytes = read(i.operands[2], Type::b32);
  call_routine("copy_fill", b.getVoidTy(), {to, from, bytes, bytes}, false);
  b.CreateFence(llvm::AtomicOrdering::Release);
}

}  // namespace cucpu::ir
