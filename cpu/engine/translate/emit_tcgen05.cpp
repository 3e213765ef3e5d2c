// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_tcgen05.cpp: tensor memory and its matrix products (tcgen05). All of it
// is done by routines, when it is issued: wait and fence need no code.
#include "cpu/engine/runtime/tcgen05.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

namespace {

std::uint32_t ctas_of(const Instruction& i) { return i.has(Mod::cta_group_2) ? 2 : 1; }

TensorShape shape_of(const Instruction& i) {
  if (i.has(Mod::m_16x64b)) return TensorShape::m16x64b;
  if (i.has(Mod::m_16x128b)) return TensorShape::m16x128b;
  if (i.has(Mod::m_16x256b)) return TensorShape::m16x256b;
  return i.has(Mod::m_16x32bx2) ? TensorShape::m16x32bx2 : TensorShape::m32x32b;
}

std::uint32_t times_of(const Instruction& i) {
  constexpr Mod kTimes[] = {Mod::x1,  Mod::x2,  Mod::x4,  Mod::x8,
                            Mod::x16, Mod::x32, Mod::x64, Mod::x128};
  for (std::uint32_t power = 0; power < 8; ++power)
    if (i.has(kTimes[power])) return 1U << power;
  return 0;
}

}  // namespace

/// Tensor memory addresses are in 32-bit registers.
Value* FunctionTranslator::tensor_address(const Operand& address) {
  const Operand& base = address.parts[0];
  if (base.kind != Kind::reg || address.parts.size() != 1) {
    error(address.where, "expected a 32-bit register with an address of tensor memory");
    return b.getInt32(0);
  }
  return b.CreateAdd(read(base, Type::b32), b.getInt32(static_cast<std::uint32_t>(address.value)));
}

/// ptxas refuses functions that use both groups.
bool FunctionTranslator::one_cta_group(const Instruction& i) {
  if (cta_group_ == 0) cta_group_ = ctas_of(i);
  if (cta_group_ == ctas_of(i)) return true;
  error(i.where, "a function uses either '.cta_group::1' or '.cta_group::2', not both");
  return false;
}

bool FunctionTranslator::tensor_columns(const Instruction& i) {
  const Operand& o = i.operands[1];
  const std::uint64_t n = o.value;
  const bool exclusive = i.has(Mod::exclusive);
  if (!o.is_constant()) return true;
  if (exclusive ? n != 0 && n % 32 == 0 : n >= 32 && n <= 512 && (n & (n - 1)) == 0) return true;
  error(o.where,
        std::string{exclusive ? "expected a multiple of 32" : "expected 32, 64, 128, 256 or 512"} +
            " columns, not " + std::to_string(n));
  return false;
}

// tcgen05.alloc [shared], columns: waits until there are enough.
void FunctionTranslator::emit_tcgen05_alloc(const Instruction& i) {
  if (!one_cta_group(i) || !tensor_columns(i)) return;
  Value* columns = read(i.operands[1], Type::b32);
  Value* place = pointer(i.operands[0], space_of(i));
  auto* again = llvm::BasicBlock::Create(out.getContext(), "");
  auto* wait = llvm::BasicBlock::Create(out.getContext(), "");
  auto* after = llvm::BasicBlock::Create(out.getContext(), "");
  auto* write = llvm::BasicBlock::Create(out.getContext(), "");
  auto* end = llvm::BasicBlock::Create(out.getContext(), "");
  b.CreateBr(again);
  start_block(again);
  Value* warp = call_marker("sreg.warpid", b.getInt32Ty(), {}, Effect::none);
  Value* address = warp_call("warp.tcgen05_alloc",
                             {columns, b.getInt32(ctas_of(i)), warp,
                              b.getInt32(i.has(Mod::exclusive) ? 1 : 0), b.getInt32(0)},
                             b.getInt32Ty());
  b.CreateCondBr(b.CreateICmpEQ(address, b.getInt32(kTensorNotYet)), wait, after);
  start_block(wait);
  call_marker("yield", b.getVoidTy(), {b.getInt32(0)}, Effect::convergent);
  b.CreateBr(again);
  start_block(after);  // one lane writes the result
  Value* lane = call_marker("sreg.laneid", b.getInt32Ty(), {}, Effect::none);
  b.CreateCondBr(b.CreateICmpEQ(lane, b.getInt32(0)), write, end);
  start_block(write);
  store(address, place, 4, space_of(i), i);
  b.CreateBr(end);
  start_block(end);
}

void FunctionTranslator::emit_tcgen05_dealloc(const Instruction& i) {
  if (!one_cta_group(i) || !tensor_columns(i)) return;
  Value* warp = call_marker("sreg.warpid", b.getInt32Ty(), {}, Effect::none);
  warp_call("warp.tcgen05_dealloc",
            {read(i.operands[1], Type::b32), b.getInt32(ctas_of(i)), warp,
             b.getInt32(i.has(Mod::exclusive) ? 1 : 0), read(i.operands[0], Type::b32)},
            b.getVoidTy());
}

void FunctionTranslator::emit_tcgen05_relinquish(const Instruction& i) {
  if (one_cta_group(i)) warp_call("warp.tcgen05_relinquish", {b.getInt32(0)}, b.getVoidTy());
}

/// The operands of a move (TensorMove); empty after an error. `split`: the constant of .16x32bx2.
llvm::SmallVector<Value*, 136> FunctionTranslator::tensor_move(const Instruction& i,
                                                               const Operand& registers,
                                                               const Operand& address,
                                                               const Operand* split,
                                                               std::uint32_t flags) {
  const TensorShape shape = shape_of(i);
  const std::uint32_t count = times_of(i) * registers_of(shape);
  if (count > 128) {
    error(i.where, "this shape does not exist so many times: 128 registers are the most");
    return {};
  }
  if (registers.kind != Kind::vector || registers.parts.size() != count) {
    error(registers.where, "expected " + std::to_string(count) + " registers in braces");
    return {};
  }
  const bool wants = shape == TensorShape::m16x32bx2;
  if (wants != (split != nullptr) || (wants && !split->is_constant())) {
    error(i.where, wants ? "'.16x32bx2' takes a constant, the column of the second half"
                         : "only '.16x32bx2' takes the column of a second half");
    return {};
  }
  return {tensor_address(address),
          b.getInt32(static_cast<std::uint32_t>(shape)),
          b.getInt32(count),
          b.getInt32(flags),
          b.getInt32(wants ? static_cast<std::uint32_t>(split->value) : 0),
          call_marker("sreg.warpid", b.getInt32Ty(), {}, Effect::none)};
}

// tcgen05.ld{.red} registers {, result}, [address] {, split}
void FunctionTranslator::emit_tcgen05_ld(const Instruction& i) {
  const bool reduces = i.has(Mod::red);
  const std::size_t at = reduces ? 2 : 1;
  const bool floats = i.types[0] == Type::f32;
  if (reduces && !floats && (i.has(Mod::abs) || i.has(Mod::NaN)))
    return error(i.where, "'.abs' and '.NaN' are for .f32");
  std::uint32_t flags = i.has(Mod::pack_16b) ? kTensorPack : 0;
  if (reduces)
    flags |= (i.has(Mod::min_) ? kTensorMin : kTensorMax) | (i.has(Mod::abs) ? kTensorAbs : 0) |
             (i.has(Mod::NaN) ? kTensorNan : 0) | (floats ? kTensorFloat : 0) |
             (i.types[0] == Type::s32 ? kTensorSigned : 0);
  const Operand* split = i.operands.size() > at + 1 ? &i.operands[at + 1] : nullptr;
  const auto in = tensor_move(i, i.operands[0], i.operands[at], split, flags);
  if (in.empty()) return;
  for (const Operand& part : i.operands[0].parts)
    if (part.kind != Kind::reg) return error(part.where, "expected a register");
  const std::size_t count = i.operands[0].parts.size();
  Value* words = warp_call("warp.tcgen05_ld", in,
                           llvm::ArrayType::get(b.getInt32Ty(), count + (reduces ? 1 : 0)));
  write_fragment(i.operands[0], words);
  if (reduces) write(i.operands[1], b.CreateExtractValue(words, static_cast<unsigned>(count)));
}

// tcgen05.st [address] {, split}, registers
void FunctionTranslator::emit_tcgen05_st(const Instruction& i) {
  const bool has_split = i.operands.size() > 2;
  const Operand& registers = i.operands[has_split ? 2 : 1];
  auto in = tensor_move(i, registers, i.operands[0], has_split ? &i.operands[1] : nullptr,
                        i.has(Mod::unpack_16b) ? kTensorPack : 0);
  if (in.empty()) return;
  fragment_words(registers, in);
  warp_call("warp.tcgen05_st", in, b.getVoidTy());
}

// tcgen05.commit [mbarrier] {, mask}: what was issued before has completed.
void FunctionTranslator::emit_tcgen05_commit(const Instruction& i) {
  if (!one_cta_group(i)) return;
  const bool masked = i.has(Mod::multicast_cluster);
  if (masked != (i.operands.size() > 1))
    return error(i.where, "'.multicast::cluster' and a mask of blocks belong together");
  const bool cluster = i.has(Mod::shared_cluster);
  Value* barrier = pointer(i.operands[0], cluster ? Space::shared : Space::generic, cluster);
  if (!masked) {
    call_routine("mbarrier_arrive", b.getInt64Ty(), {barrier, b.getInt32(1), b.getInt32(0)}, false);
    return;
  }
  Value* mask = b.CreateZExt(read(i.operands[1], Type::b16), b.getInt32Ty());
  call_routine("tcgen05_commit", b.getVoidTy(), {barrier, mask}, false);
}

void FunctionTranslator::emit_tcgen05_cp(const Instruction& i) {
  if (!one_cta_group(i)) return;
  struct Shape {
    Mod word;
    std::uint32_t rows, chunks;
  };
  constexpr Shape kShapes[] = {{Mod::m_128x256b, 128, 2},
                               {Mod::m_4x256b, 4, 2},
                               {Mod::m_128x128b, 128, 1},
                               {Mod::m_64x128b, 64, 1},
                               {Mod::m_32x128b, 32, 1}};
  std::uint32_t rows = 0, flags = ctas_of(i) == 2 ? kCopyPair : 0;
  for (const Shape& shape : kShapes)
    if (i.has(shape.word)) rows = shape.rows, flags |= shape.chunks << kCopyChunks;
  const bool pairs = i.has(Mod::warpx2_02_13) || i.has(Mod::warpx2_01_23);
  if (pairs != (rows == 64) || i.has(Mod::warpx4) != (rows == 32))
    return error(i.where,
                 "'.64x128b' takes '.warpx2::02_13' or '.warpx2::01_23', '.32x128b' takes "
                 "'.warpx4', and other shapes none of them");
  const bool fours = i.has(Mod::b4x16_p64), sixes = i.has(Mod::b6x16_p32);
  if (i.has(Mod::b8x16) != (fours || sixes))
    return error(i.where, "'.b8x16' goes with '.b6x16_p32' or '.b4x16_p64'");
  const CopyLanes lanes = rows == 4                  ? CopyLanes::every_32
                          : rows == 32               ? CopyLanes::four
                          : i.has(Mod::warpx2_02_13) ? CopyLanes::pairs_02_13
                          : i.has(Mod::warpx2_01_23) ? CopyLanes::pairs_01_23
                                                     : CopyLanes::once;
  flags |= (fours ? kCopyFours : 0) | (sixes ? kCopySixes : 0) |
           static_cast<std::uint32_t>(lanes) << kCopyLanes | rows << kCopyRows;
  call_routine("tcgen05_cp", b.getVoidTy(),
               {tensor_address(i.operands[0]), read(i.operands[1], Type::b64), b.getInt32(flags)},
               false);
}

void FunctionTranslator::emit_tcgen05_shift(const Instruction& i) {
  if (!one_cta_group(i)) return;
  if (module.source.target_suffix != 'a')
    return error(i.where, "'tcgen05.shift' needs .target sm_100a, sm_103a or sm_110a");
  call_routine("tcgen05_shift", b.getVoidTy(),
               {tensor_address(i.operands[0]), b.getInt32(ctas_of(i))}, false);
}

/// The number of scale factors along k; 0 after an error.
std::uint32_t FunctionTranslator::scale_factors(const Instruction& i) {
  const bool half = i.has(Mod::block16) || i.has(Mod::scale_vec_4X);
  const bool named =
      half || i.has(Mod::block32) || i.has(Mod::scale_vec_1X) || i.has(Mod::scale_vec_2X);
  const bool bytes = i.has(Mod::kind_mxf8f6f4), nvf4 = i.has(Mod::kind_mxf4nvf4);
  if (nvf4 && !named) {
    error(i.where, "'.kind::mxf4nvf4' needs '.block16', '.block32' or a '.scale_vec'");
    return 0;
  }
  if ((half && !nvf4) || (i.has(Mod::scale_vec_1X) && !bytes) ||
      (i.has(Mod::scale_vec_2X) && bytes)) {
    error(i.where, "this '.kind' does not have this number of scale factors");
    return 0;
  }
  const bool counted =
      i.has(Mod::scale_vec_1X) || i.has(Mod::scale_vec_2X) || i.has(Mod::scale_vec_4X);
  if (counted && module.source.target_suffix != 'a') {
    error(i.where, "'.scale_vec' needs .target sm_100a, sm_103a or sm_110a");
    return 0;
  }
  return half ? 4 : bytes ? 1 : 2;
}

// tcgen05.mma [d], a-descriptor or [a], b-descriptor {, [metadata]}, instruction {, [scale a],
// [scale b]}
// {, {disabled lanes}}, add {, scale of d, or of .ws the zero columns}
void FunctionTranslator::emit_tcgen05_mma(const Instruction& i) {
  constexpr std::pair<Mod, MmaKind> kKinds[] = {
      {Mod::kind_f16, MmaKind::f16},           {Mod::kind_tf32, MmaKind::tf32},
      {Mod::kind_f8f6f4, MmaKind::f8f6f4},     {Mod::kind_i8, MmaKind::i8},
      {Mod::kind_mxf8f6f4, MmaKind::mxf8f6f4}, {Mod::kind_mxf4, MmaKind::mxf4},
      {Mod::kind_mxf4nvf4, MmaKind::mxf4nvf4}};
  if (!one_cta_group(i)) return;
  const bool sparse = i.has(Mod::sp), stationary = i.has(Mod::ws), scaled = i.has(Mod::block_scale);
  MmaKind kind = MmaKind::f16;
  for (const auto& [word, named] : kKinds)
    if (i.has(word)) kind = named;
  const std::uint32_t target = module.source.target;
  const bool specific = module.source.target_suffix == 'a';
  if (kind == MmaKind::i8 && (!specific || target == 103))
    return error(i.where, "'.kind::i8' needs .target sm_100a or sm_110a");
  if (sparse && kind >= MmaKind::mxf4 && !specific)
    return error(i.where, "this '.kind' with '.sp' needs .target sm_100a, sm_103a or sm_110a");
  std::uint32_t flags = static_cast<std::uint32_t>(kind) | (sparse ? kMmaSparse : 0) |
                        (stationary ? kMmaStationary : 0) | (ctas_of(i) == 2 ? kMmaPair : 0);
  if (target == 103 && specific) flags |= kMmaLong;
  if (scaled) {
    const std::uint32_t factors = scale_factors(i);
    if (factors == 0) return;
    flags |= factors << kMmaScales;
  }
  // The operands one after the other; null at the end of the list.
  std::size_t next = 1;
  const auto take = [&]() -> const Operand* {
    return next < i.operands.size() ? &i.operands[next++] : nullptr;
  };
  const auto take_address = [&]() -> Value* {
    const Operand* o = take();
    if (o != nullptr && o->kind == Kind::address) return tensor_address(*o);
    error(o == nullptr ? i.where : o->where, "expected an address of tensor memory in brackets");
    return b.getInt32(0);
  };
  const Operand *a = take(), *right = take();
  if (a == nullptr || right == nullptr) return error(i.where, "expected matrices a and b");
  const bool in_tensor_memory = a->kind == Kind::address;
  if (in_tensor_memory) flags |= kMmaTensorA;
  if (i.has(Mod::ashift)) {
    if (!in_tensor_memory || i.has(Mod::collector_a_use) || i.has(Mod::collector_a_fill))
      return error(i.where, "'.ashift' is for a in tensor memory that is not kept");
    flags |= kMmaShift;
  }
  Value* first =
      in_tensor_memory ? b.CreateZExt(tensor_address(*a), b.getInt64Ty()) : read(*a, Type::b64);
  Value* second = read(*right, Type::b64);
  Value* metadata = sparse ? take_address() : b.getInt32(0);
  const Operand* descriptor = take();
  if (descriptor == nullptr) return error(i.where, "expected an instruction descriptor");
  Value* instruction = read(*descriptor, Type::b32);
  Value *scale_a = b.getInt32(0), *scale_b = b.getInt32(0);
  if (scaled) scale_a = take_address(), scale_b = take_address();
  llvm::SmallVector<Value*, 8> disabled;
  const std::size_t lanes = 4 * ctas_of(i);
  const Operand* add = take();
  if (add != nullptr && add->kind == Kind::vector && !scaled && !stationary) {
    if (add->parts.size() != lanes)
      return error(add->where, "expected " + std::to_string(lanes) + " words of disabled lanes");
    fragment_words(*add, disabled);
    add = take();
  }
  if (add == nullptr || add->kind == Kind::vector || add->kind == Kind::address)
    return error(i.where, "expected the predicate that adds to d");
  disabled.append(8 - disabled.size(), b.getInt32(0));
  Value *scale_d = b.getInt32(0), *zero_columns = b.getInt64(0);
  if (const Operand* last = take()) {
    if (stationary) {
      zero_columns = read(*last, Type::b64);
    } else {
      if (scaled || (kind != MmaKind::f16 && kind != MmaKind::tf32) || target >= 110)
        return error(last->where, "only '.kind::f16' and '.kind::tf32' of sm_100 scale d");
      if (!last->is_constant() || last->value > 15)
        return error(last->where, "expected a constant from 0 to 15");
      scale_d = b.getInt32(static_cast<std::uint32_t>(last->value));
    }
  }
  if (next < i.operands.size()) return error(i.operands[next].where, "too many operands");
  llvm::SmallVector<Value*, 24> fields{first,        second,
                                       zero_columns, tensor_address(i.operands[0]),
                                       instruction,  b.getInt32(flags),
                                       scale_a,      scale_b,
                                       metadata,     b.CreateZExt(read_pred(*add), b.getInt32Ty()),
                                       scale_d};
  fields.append(disabled);
  call_routine("tcgen05_mma", b.getVoidTy(), {in_memory(fields)}, false);
}

}  // namespace cucpu::ir
