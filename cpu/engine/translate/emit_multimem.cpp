// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_multimem.cpp: multimem: memory of several devices at one address,
// by routines.
#include "cpu/engine/runtime/multimem.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Kind = Operand::Kind;

namespace {

/// Element k of a vector operand, or the operand itself.
const Operand& part(const Operand& o, std::size_t k) {
  return o.kind == Kind::vector ? o.parts[k] : o;
}

}  // namespace

bool FunctionTranslator::multimem_exists(const Instruction& i, std::size_t count) {
  const Type type = i.types[0];
  const bool half =
      type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
  const bool small = type == Type::e4m3 || type == Type::e5m2 || type == Type::e4m3x2 ||
                     type == Type::e5m2x2 || type == Type::e4m3x4 || type == Type::e5m2x4;
  const bool floating = half || small || type == Type::f32 || type == Type::f64;
  const bool bits = i.has(Mod::and_) || i.has(Mod::or_) || i.has(Mod::xor_);
  const bool ordered = i.has(Mod::min_) || i.has(Mod::max_);
  const bool untyped = type == Type::b32 || type == Type::b64;
  const auto no = [&](std::string text) {
    error(i.where, std::move(text));
    return false;
  };
  const bool moves = i.has(Mod::st) || i.has(Mod::cp);
  if (!moves && (bits != untyped ||
                 (ordered && floating && ((!half && !small) || (i.has(Mod::red) && count == 1)))))
    return no(ptx::cat("this reduction does not exist for .", ptx::name_of(type)));
  if (!moves && i.has(Mod::add) && type == Type::s64)
    return no("this reduction does not exist for .s64");
  if (i.has(Mod::acc_f16) && !i.has(Mod::add)) return no(".acc::f16 is for sums");
  if (i.has(Mod::acc_f32) && !half) return no(".acc::f32 is for 16-bit floats");
  if (i.has(Mod::async)) return true;
  const std::size_t bytes = count * ptx::bytes_of(type);
  if ((count > 1 && (!floating || type == Type::f64)) || bytes < 4 || bytes > 16)
    return no("floats come as 4, 8 or 16 bytes, other types one at a time");
  return true;
}

// multimem.ld_reduce d, [a]   multimem.st [a], b   multimem.red [a], b. With .async the last two
// are complete when they are issued.
void FunctionTranslator::emit_multimem(const Instruction& i) {
  const bool loads = i.has(Mod::ld_reduce);
  const Operand& values = i.operands[loads ? 0 : 1];
  const std::size_t count = values.kind == Kind::vector ? values.parts.size() : 1;
  const std::size_t wanted = i.has(Mod::v8) ? 8 : i.has(Mod::v4) ? 4 : i.has(Mod::v2) ? 2 : 1;
  if (count != wanted)
    return error(values.where, "expected " + std::to_string(wanted) + " registers");
  if (!multimem_exists(i, count)) return;
  const Type type = i.types[0];
  const unsigned bytes = ptx::bytes_of(type);
  std::uint32_t what =
      static_cast<std::uint32_t>(type) | static_cast<std::uint32_t>(reduction_of(i)) << 8;
  if (i.has(Mod::acc_f32)) what |= kMultimemWide;
  Value* base = b.CreatePtrToInt(pointer(i.operands[loads ? 1 : 0], Space::global), b.getInt64Ty());
  if (i.has(Mod::async)) b.CreateFence(llvm::AtomicOrdering::Release);
  for (std::size_t k = 0; k < count; ++k) {
    const auto align = static_cast<std::uint32_t>(k == 0 ? bytes * count : bytes);
    Value* at = b.CreateAdd(base, b.getInt64(k * bytes));
    Value* bits = b.getInt32(what | align << 16);
    if (loads) {
      Value* v = call_routine("multimem_load", b.getInt64Ty(), {at, bits}, false);
      write(part(values, k), as_type(b.CreateTrunc(v, b.getIntNTy(bytes * 8)), type_of(type)));
    } else {
      Value* v = b.CreateZExt(read_bits(part(values, k), bytes * 8), b.getInt64Ty());
      call_routine(i.has(Mod::st) ? "multimem_store" : "multimem_reduce", b.getVoidTy(),
                   {at, v, bits}, false);
    }
  }
}

// multimem.cp.async.bulk [to], [from], bytes   multimem.cp.reduce.async.bulk: the same, with an
// operation and a type
void FunctionTranslator::emit_multimem_copy(const Instruction& i) {
  if (!i.has(Mod::reduce) && !bulk_order_fits(i)) return;
  const Type type = i.has(Mod::reduce) ? i.types[0] : Type::none;
  std::uint32_t what =
      static_cast<std::uint32_t>(type) | static_cast<std::uint32_t>(reduction_of(i)) << 8;
  if (type == Type::f32 || type == Type::f64) {
    if (!i.has(Mod::add))
      return error(i.where, ptx::cat("this reduction does not exist for .", ptx::name_of(type)));
  }
  Value* to = b.CreatePtrToInt(pointer(i.operands[0], Space::global), b.getInt64Ty());
  Value* from = pointer(i.operands[1], Space::shared);
  Value* mask = i.has(Mod::cp_mask) ? b.CreateZExt(read(i.operands[3], Type::b16), b.getInt32Ty())
                                    : b.getInt32(0xffff);
  call_routine("multimem_copy", b.getVoidTy(),
               {to, from, read(i.operands[2], Type::b32), b.getInt32(what), mask}, false);
}

}  // namespace cucpu::ir
