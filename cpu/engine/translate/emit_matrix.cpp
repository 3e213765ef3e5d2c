// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_matrix.cpp: tensor-core instructions. Products are collective routines
// (runtime/matrix.cpp). wmma fragments have a layout of our own, so loads and stores need no other
// lane. Register r of lane l of a and b is word 32 * r + l of the matrix as it is in memory;
// registers beyond the matrix repeat it. Element i of lane l of an accumulator is element 32 * i +
// l in row-major order. So neighbouring lanes access neighbouring words, and the registers of all
// lanes, one after the other, are the matrix.
#include <charconv>

#include "cpu/engine/runtime/matrix.hpp"
#include "cpu/engine/runtime/wgmma.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

namespace {

struct Shape {
  unsigned m = 0, n = 0, k = 0;
};

Shape shape_of(const Instruction& i) {
  for (Mod mod : i.mods) {
    const std::string_view text = ptx::text_of(mod);
    const std::size_t n = text.find('n'), k = text.find('k');
    if (text.size() < 6 || text[0] != 'm' || n == text.npos || k == text.npos || text[1] < '0' ||
        text[1] > '9')
      continue;
    Shape s;
    std::from_chars(text.data() + 1, text.data() + n, s.m);
    std::from_chars(text.data() + n + 1, text.data() + k, s.n);
    std::from_chars(text.data() + k + 1, text.data() + text.size(), s.k);
    return s;
  }
  return {};
}

/// Whether the k-th layout word of the opcode is .col.
bool is_col(const Instruction& i, unsigned k) {
  for (Mod m : i.mods) {
    if (m != Mod::row && m != Mod::col) continue;
    if (k-- == 0) return m == Mod::col;
  }
  return false;
}

/// Whether elements of 4 and 6 bits are in bytes.
bool has_byte_elements(const Instruction& i) {
  return i.has(Mod::kind_f8f6f4) || i.has(Mod::kind_mxf8f6f4);
}

/// The scales of a row of a and of a column of b; 0 where the product is not scaled.
unsigned scale_count(const Instruction& i) {
  if (!i.has(Mod::block_scale)) return 0;
  if (i.has(Mod::scale_vec_4X)) return 4;
  return i.has(Mod::scale_vec_2X) || i.has(Mod::kind_mxf4) ? 2 : 1;
}

unsigned element_bits(Type t) { return t == Type::tf32 ? 32 : ptx::bits_of(t); }

}  // namespace

/// The words of a fragment, 32 bits each.
void FunctionTranslator::fragment_words(const Operand& o, llvm::SmallVectorImpl<Value*>& words) {
  const auto add = [&](const Operand& part) {
    if (part.kind == Kind::reg && ptx::bits_of(source.registers[part.index].type) == 64) {
      Value* v = as_bits(read_register(part.index));
      words.push_back(b.CreateTrunc(v, b.getInt32Ty()));
      words.push_back(b.CreateTrunc(b.CreateLShr(v, 32), b.getInt32Ty()));
    } else if (part.kind == Kind::f64) {
      words.push_back(b.getInt32(static_cast<std::uint32_t>(part.value)));
      words.push_back(b.getInt32(static_cast<std::uint32_t>(part.value >> 32)));
    } else {
      words.push_back(read(part, Type::b32));
    }
  };
  if (o.kind == Kind::vector) {
    for (const Operand& p : o.parts) add(p);
  } else {
    add(o);
  }
}

void FunctionTranslator::write_fragment(const Operand& o, Value* words) {
  unsigned w = 0;
  const auto one = [&](const Operand& part) {
    if (part.kind == Kind::reg && ptx::bits_of(source.registers[part.index].type) == 64) {
      Value* low = b.CreateZExt(b.CreateExtractValue(words, w), b.getInt64Ty());
      Value* high = b.CreateZExt(b.CreateExtractValue(words, w + 1), b.getInt64Ty());
      write(part, b.CreateOr(low, b.CreateShl(high, 32)));
      w += 2;
    } else {
      write(part, b.CreateExtractValue(words, w++));
    }
  };
  if (o.kind == Kind::vector) {
    for (const Operand& p : o.parts) one(p);
  } else {
    one(o);
  }
}

namespace {

bool has_kind(const Instruction& i) {
  return i.has(Mod::kind_f8f6f4) || i.has(Mod::kind_mxf8f6f4) || i.has(Mod::kind_mxf4) ||
         i.has(Mod::kind_mxf4nvf4);
}

/// Whether mma has this shape for these types. Most types have rows of a of 128 and 256 bits, twice
/// that if a is sparse.
bool product_exists(const Instruction& i, const Shape& s, Type a, Type bt, bool sparse) {
  const bool floating = a == Type::f16 || a == Type::bf16 || a == Type::tf32 || a == Type::f64;
  const bool small = a == Type::e4m3 || a == Type::e5m2;
  if (i.has(Mod::satfinite) && i.types[0] != Type::s32) return false;
  if ((floating && a != bt) || element_bits(a) != element_bits(bt)) return false;
  const unsigned row = s.k * element_bits(a);
  if (a == Type::f64) return !sparse && (s.m == 8 ? row == 256 : row >= 256 && row <= 1024);
  if (s.m == 8) return a == Type::f16 ? row == 64 : !floating && !small && row == 128;
  if (sparse && small) return row == 512 && i.types[0] == Type::f32;
  const unsigned least = sparse ? 256 : 128;
  return row == least || row == 2 * least;
}

}  // namespace

/// Operand registers of mma must match its shape and types: a wrong combination is an error, never
/// a wrong product.
bool FunctionTranslator::check_product(const Instruction& i, Type a, Type bt, bool sparse) {
  const Shape s = shape_of(i);
  const auto registers = [&](unsigned elements, Type t) {
    const bool in_byte = has_byte_elements(i) && ptx::bits_of(t) < 8;
    const unsigned bits = in_byte ? 8 : element_bits(t), lanes = 32;
    return bits == 64 ? elements / lanes : elements * bits / 32 / lanes;
  };
  const auto given = [](const Operand& o) {
    return static_cast<unsigned>(o.kind == Kind::vector ? o.parts.size() : 1);
  };
  if (!has_kind(i) && !product_exists(i, s, a, bt, sparse)) {
    error(i.where, "mma does not have this combination of types, shape and modifiers");
    return false;
  }
  const bool quads = s.m == 8 && s.k == 4 && a == Type::f16;  // four products
  const unsigned products = quads ? 4 : 1;
  const unsigned wanted[] = {registers(products * s.m * s.n, i.types[0]),
                             registers(products * s.m * s.k / (sparse ? 2 : 1), a),
                             registers(products * s.n * s.k, bt),
                             registers(products * s.m * s.n, i.types[3])};
  for (unsigned k = 0; k < 4; ++k) {
    if (wanted[k] == given(i.operands[k]) && wanted[k] != 0) continue;
    error(i.operands[k].where,
          "this shape and type take " + std::to_string(wanted[k]) + " registers here");
    return false;
  }
  return true;
}

/// Adds the scales of a block-scaled product and their selectors: scale-a, {byte, thread}, scale-b,
/// {byte, thread}, from operand `first` on.
bool FunctionTranslator::scale_words(const Instruction& i, std::size_t first,
                                     llvm::SmallVectorImpl<Value*>& words) {
  if (i.operands.size() != first + 4) {
    error(i.where, "a block-scaled product takes scale-a, {byte, thread}, scale-b, {byte, thread}");
    return false;
  }
  const unsigned bytes = scale_count(i);
  Value* selector = b.getInt32(0);
  for (unsigned k = 0; k < 2; ++k) {
    const Operand& scale = i.operands[first + 2 * k];
    const Operand& chosen = i.operands[first + 2 * k + 1];
    if (chosen.kind != Kind::vector || chosen.parts.size() != 2) {
      error(chosen.where, "expected a selector {byte, thread}");
      return false;
    }
    for (unsigned part = 0; part < 2; ++part) {
      const Operand& number = chosen.parts[part];
      const std::uint64_t most = part == 0 ? 4 - bytes : k == 0 ? 1 : 3;
      if (number.kind == Kind::integer &&
          (number.value > most || (part == 0 && number.value % bytes != 0))) {
        error(number.where, "this selector is " + std::string{most == 0                 ? "0"
                                                              : part == 0 && bytes == 2 ? "0 or 2"
                                                              : most == 1               ? "0 or 1"
                                                                          : "0 to 3"});
        return false;
      }
      Value* v = b.CreateZExtOrTrunc(read(number, Type::u16), b.getInt32Ty());
      selector = b.CreateOr(selector, b.CreateShl(b.CreateAnd(v, 255), 16 * k + 8 * part));
    }
    words.push_back(read(scale, Type::b32));
  }
  words.push_back(selector);
  return true;
}

void FunctionTranslator::matrix_product(const Instruction& i, Type a, Type bt, Type c, bool wmma) {
  const Shape s = shape_of(i);
  const bool quads = !wmma && s.m == 8 && s.k == 4 && a == Type::f16;
  if (!wmma && !quads && (is_col(i, 0) || !is_col(i, 1)))
    return error(i.where, "only mma.m8n8k4 with .f16 has other layouts than .row.col");
  const bool sparse = i.has(Mod::sp) || i.has(Mod::sp_ordered_metadata);
  if (!wmma && !check_product(i, a, bt, sparse)) return;
  llvm::SmallVector<Value*, 32> fa, fb, fc;
  fragment_words(i.operands[1], fa);
  fragment_words(i.operands[2], fb);
  fragment_words(i.operands[3], fc);
  const Type d = i.types[0];
  const unsigned scale = d == Type::f64 ? 2 : 1;
  const Operand& out_operand = i.operands[0];
  const auto nd = static_cast<unsigned>(
      (out_operand.kind == Kind::vector ? out_operand.parts.size() : 1) * scale);
  if (wmma) {
    constexpr std::size_t kMostFactors = 16, kMostSums = 8;  // words of a lane
    const auto words = [](unsigned elements, Type t) {
      return std::size_t{elements} * element_bits(t) / 1024;
    };
    const std::size_t na = words(s.m * s.k, a), nb = words(s.n * s.k, bt);
    if (na == 0 || nb == 0 || std::max(na, nb) > kMostFactors || fa.size() < na || fb.size() < nb ||
        fc.size() != words(s.m * s.n, c) || nd != words(s.m * s.n, d) ||
        std::max<std::size_t>(fc.size(), nd) > kMostSums)
      return error(i.where,
                   "wmma.mma does not have this combination of types, shape and registers");
    fa.truncate(na);  // the others repeat them
    fb.truncate(nb);
  }
  std::uint32_t flags = 0;
  if (wmma) flags |= kMatrixWmma;
  if (i.has(Mod::satfinite)) flags |= kMatrixSaturate;
  if (i.has(Mod::popc)) flags |= i.has(Mod::xor_) ? kMatrixXor : kMatrixAnd;
  if (sparse) flags |= kMatrixSparse;
  if (quads) flags |= kMatrixQuads;
  if (quads || wmma) flags |= (is_col(i, 0) ? kMatrixColA : 0) | (is_col(i, 1) ? 0 : kMatrixRowB);
  const bool rounds = i.has(Mod::rn) || round_of(i) != Round::rn;
  if (rounds && d != Type::f64)
    return error(i.where, "only a product of .f64 matrices takes a rounding mode");
  flags |= static_cast<std::uint32_t>(round_of(i)) << kMatrixRound;
  const unsigned scales = wmma ? 0 : scale_count(i);
  flags |= scales << kMatrixScales;
  if (i.has(Mod::kind_f8f6f4) || scales != 0) flags |= kMatrixKind;
  if (has_byte_elements(i)) flags |= kMatrixBytes;
  if (scales != 0 && i.types[4] == Type::ue4m3) flags |= kMatrixScaleE4M3;
  llvm::SmallVector<Value*, 40> in;
  in.push_back(b.getInt32(s.m | s.n << 8 | s.k << 16));
  in.push_back(b.getInt32(static_cast<unsigned>(a) | static_cast<unsigned>(bt) << 8 |
                          static_cast<unsigned>(c) << 16 | static_cast<unsigned>(d) << 24));
  in.push_back(b.getInt32(flags));
  in.push_back(b.getInt32(static_cast<std::uint32_t>(fa.size() | fb.size() << 8 | fc.size() << 16 |
                                                     std::size_t{nd} << 24)));
  in.append(fa.begin(), fa.end());
  in.append(fb.begin(), fb.end());
  in.append(fc.begin(), fc.end());
  if (sparse)
    in.append({read(i.operands[4], Type::b32),
               b.getInt32(static_cast<std::uint32_t>(i.operands[5].value))});
  if (scales != 0 && !scale_words(i, sparse ? 6 : 4, in)) return;
  write_fragment(out_operand, matrix_call("mma", in, nd));
}

/// An operation of a warp on matrices. Its operands and results, `words` of 32 bits, are values, so
/// that vector code passes vectors.
Value* FunctionTranslator::matrix_call(const char* name, llvm::ArrayRef<Value*> in,
                                       std::size_t words) {
  const llvm::SmallVector<llvm::Type*, 16> results(words, b.getInt32Ty());
  return call_marker(
      "warp." + std::string{name} + "." + std::to_string(in.size()) + "." + std::to_string(words),
      words == 0 ? b.getVoidTy() : llvm::StructType::get(out.getContext(), results), in,
      Effect::convergent);
}

void FunctionTranslator::emit_mma(const Instruction& i) {
  matrix_product(i, i.types[1], i.types[2], i.types[3], false);
}

// wgmma.mma_async d, a, b-descriptor {, metadata, selector}, scale-d {, negate a, negate b {,
// transpose a} {, transpose b}}
void FunctionTranslator::emit_wgmma(const Instruction& i) {
  const Shape s = shape_of(i);
  const Type d = i.types[0], a = i.types[1], bt = i.types[2];
  const bool sparse = i.has(Mod::sp), halves = a == Type::f16 || a == Type::bf16;
  const unsigned width = 32 * (sparse ? 2 : 1) * 8 / element_bits(a);  // k: 32 bytes of a
  if (s.k != width) return error(i.where, "this type takes a shape with k" + std::to_string(width));
  if (element_bits(a) != element_bits(bt) ||
      (d == Type::s32) !=
          (ptx::class_of(a) != ptx::Class::floating && a != Type::e4m3 && a != Type::e5m2))
    return error(i.where, "wgmma does not have this combination of types");
  const Operand &destination = i.operands[0], &source_a = i.operands[1];
  const std::size_t words = s.n / (d == Type::f16 ? 4 : 2);
  if (destination.kind != Kind::vector || destination.parts.size() != words)
    return error(destination.where, "expected " + std::to_string(words) + " registers");
  const bool in_registers = source_a.kind == Kind::vector;
  if (in_registers && source_a.parts.size() != 4)
    return error(source_a.where, "expected 4 registers");
  std::size_t next = 3;
  Value *metadata = b.getInt32(0), *selector = b.getInt32(0);
  if (sparse) {
    if (i.operands.size() < 6)
      return error(i.where, "wgmma.mma_async.sp takes metadata and a selector");
    metadata = read(i.operands[next++], Type::b32);
    selector = b.getInt32(static_cast<std::uint32_t>(i.operands[next++].value));
  }
  if (i.operands.size() <= next)
    return error(i.where, "wgmma.mma_async takes scale-d, a predicate");
  Value* scale = b.CreateZExt(read_pred(i.operands[next++]), b.getInt32Ty());
  std::uint32_t flags = in_registers ? kWgmmaRegisterA : 0;
  if (i.has(Mod::satfinite)) flags |= kWgmmaSaturate;
  if (i.has(Mod::popc)) flags |= kWgmmaAnd;
  if (sparse) flags |= kWgmmaSparse;
  llvm::SmallVector<std::uint32_t, 4> wanted;  // the immediates that follow, as flags
  if (d != Type::s32) wanted.append({kWgmmaNegateA, kWgmmaNegateB});
  if (halves && !in_registers) wanted.push_back(kWgmmaTransposeA);
  if (halves) wanted.push_back(kWgmmaTransposeB);
  if (i.operands.size() != next + wanted.size())
    return error(i.where, "expected " + std::to_string(wanted.size()) + " constants after scale-d");
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const Operand& o = i.operands[next + k];
    if (!o.is_constant()) return error(o.where, "expected a constant");
    const bool negate = (wanted[k] & (kWgmmaNegateA | kWgmmaNegateB)) != 0;
    if (negate ? static_cast<std::int64_t>(o.value) < 0 : o.value != 0) flags |= wanted[k];
  }
  llvm::SmallVector<Value*, 160> in{
      b.getInt32(s.n),
      b.getInt32(s.k),
      b.getInt32(static_cast<unsigned>(a) | static_cast<unsigned>(bt) << 8 |
                 static_cast<unsigned>(d) << 16),
      b.getInt32(flags),
      in_registers ? b.getInt64(0) : read(source_a, Type::b64),
      read(i.operands[2], Type::b64),
      scale,
      metadata,
      selector};
  if (in_registers) {
    fragment_words(source_a, in);
  } else {
    in.append(4, b.getInt32(0));
  }
  fragment_words(destination, in);
  write_fragment(destination,
                 warp_call("warpgroup.mma", in, llvm::ArrayType::get(b.getInt32Ty(), words)));
}

void FunctionTranslator::emit_wmma_mma(const Instruction& i) {
  if (i.types[2] == Type::none) return matrix_product(i, Type::f16, Type::f16, i.types[1], true);
  matrix_product(i, i.types[1], i.types[2], i.types[3], true);
}

/// The place of a lane's word in rows of `per_row` words, a power of two of at most 32, that follow
/// each other in groups of 32 words: the row, and the word in it.
std::pair<Value*, Value*> FunctionTranslator::lane_place(unsigned group, unsigned per_row) {
  Value* lane = call_marker("sreg.laneid", b.getInt32Ty(), {}, Effect::none);
  Value* row = b.CreateUDiv(lane, b.getInt32(per_row));
  row = b.CreateAdd(row, b.getInt32(group * (32 / per_row)));
  Value* word = b.CreateURem(lane, b.getInt32(per_row));
  return {b.CreateZExt(row, b.getInt64Ty()), b.CreateZExt(word, b.getInt64Ty())};
}

/// The distance between rows (columns) in memory, in elements.
Value* FunctionTranslator::wmma_stride(const Instruction& i, unsigned by_default) {
  Value* stride = i.operands.size() > 2 ? read(i.operands[2], Type::b32) : b.getInt32(by_default);
  return b.CreateZExt(stride, b.getInt64Ty());
}

/// The address of element `index` of this lane in an accumulator.
Value* FunctionTranslator::accumulator_element(const Instruction& i, unsigned index, Value* base) {
  const Shape s = shape_of(i);
  const bool col = is_col(i, 0);
  const auto [row, column] = lane_place(index, s.n);
  Value* stride = wmma_stride(i, col ? s.m : s.n);
  Value* at = col ? b.CreateAdd(b.CreateMul(column, stride), row)
                  : b.CreateAdd(b.CreateMul(row, stride), column);
  return b.CreateGEP(int_type(element_bits(i.types[0])), base, at);
}

void FunctionTranslator::load_accumulator(const Instruction& i) {
  const unsigned bits = element_bits(i.types[0]), per_word = bits >= 32 ? 1 : 32 / bits;
  const Space space = space_of(i);
  Value* base = pointer(i.operands[1], space);
  const Operand& d = i.operands[0];
  const std::size_t count = d.kind == Kind::vector ? d.parts.size() : 1;
  if (const Shape s = shape_of(i); count * per_word * 32 != s.m * s.n)
    return error(i.where, "wmma.load does not have this combination of type, shape and registers");
  for (unsigned w = 0; w < count; ++w) {
    Value* word = nullptr;
    for (unsigned e = 0; e < per_word; ++e) {
      Value* p = accumulator_element(i, w * per_word + e, base);
      Value* v = load(int_type(bits), p, bits / 8, space, i);
      if (bits < 32) v = b.CreateShl(b.CreateZExt(v, b.getInt32Ty()), e * bits);
      word = word == nullptr ? v : b.CreateOr(word, v);
    }
    write(d.kind == Kind::vector ? d.parts[w] : d, word);
  }
}

void FunctionTranslator::emit_wmma_load(const Instruction& i) {
  const bool is_a = i.has(Mod::a);
  if (!is_a && !i.has(Mod::b)) return load_accumulator(i);
  const Shape s = shape_of(i);
  const unsigned bits = element_bits(i.types[0]), per_word = bits >= 32 ? 1 : 32 / bits;
  const Space space = space_of(i);
  Value* base = pointer(i.operands[1], space);
  // In memory: rows of a and columns of b have k elements.
  const unsigned other = is_a ? s.m : s.n, length = is_a != is_col(i, 0) ? s.k : other;
  const unsigned per_row = length / per_word, words = other * s.k / per_word / 32;
  Value* stride = wmma_stride(i, length);
  llvm::Type* const type = int_type(std::max(bits, 32U));
  const Operand& d = i.operands[0];
  const std::size_t count = d.kind == Kind::vector ? d.parts.size() : 1;
  if (words == 0 || per_row > 32 || count < words)
    return error(i.where, "wmma.load does not have this combination of type, shape and registers");
  llvm::SmallVector<Value*, 8> loaded;
  for (unsigned w = 0; w < count; ++w) {
    if (w < words) {
      const auto [row, word] = lane_place(w, per_row);
      Value* at = b.CreateAdd(b.CreateMul(row, stride), b.CreateMul(word, b.getInt64(per_word)));
      Value* bytes = bits < 8 ? b.CreateLShr(b.CreateMul(at, b.getInt64(bits)), 3)
                              : b.CreateMul(at, b.getInt64(bits / 8));
      loaded.push_back(
          load(type, b.CreateGEP(b.getInt8Ty(), base, bytes), bits < 8 ? 4 : bits / 8, space, i));
    }
    write(d.kind == Kind::vector ? d.parts[w] : d, loaded[w % words]);
  }
}

void FunctionTranslator::emit_wmma_store(const Instruction& i) {
  const unsigned bits = element_bits(i.types[0]), per_word = bits >= 32 ? 1 : 32 / bits;
  const Space space = space_of(i);
  Value* base = pointer(i.operands[0], space);
  const Operand& a = i.operands[1];
  const std::size_t count = a.kind == Kind::vector ? a.parts.size() : 1;
  if (const Shape s = shape_of(i); count * per_word * 32 != s.m * s.n)
    return error(i.where, "wmma.store does not have this combination of type, shape and registers");
  for (unsigned w = 0; w < count; ++w) {
    const Operand& part = a.kind == Kind::vector ? a.parts[w] : a;
    Value* word = read_bits(part, bits >= 32 ? bits : 32);
    for (unsigned e = 0; e < per_word; ++e) {
      Value* v = bits < 32 ? b.CreateTrunc(b.CreateLShr(word, e * bits), int_type(bits)) : word;
      store(v, accumulator_element(i, w * per_word + e, base), bits / 8, space, i);
    }
  }
}

namespace {

unsigned matrix_count(const Instruction& i) { return i.has(Mod::x4) ? 4 : i.has(Mod::x2) ? 2 : 1; }

std::uint32_t matrix_layout(const Instruction& i) {
  const MatrixShape shape = i.has(Mod::m16n16)  ? MatrixShape::m16n16
                            : i.has(Mod::m8n16) ? MatrixShape::m8n16
                            : i.has(Mod::m16n8) ? MatrixShape::m16n8
                                                : MatrixShape::m8n8;
  const std::uint32_t bits = i.has(Mod::b6x16_p32)        ? 6
                             : i.has(Mod::b4x16_p64)      ? 4
                             : i.has(Mod::s4)             ? 4
                             : shape == MatrixShape::m8n8 ? 16
                                                          : 8;
  return (i.has(Mod::trans) ? kMatrixTrans : 0) | (i.has(Mod::s4) ? kMatrixSigned : 0) |
         static_cast<std::uint32_t>(shape) << kMatrixShape | bits << kMatrixSourceBits;
}

}  // namespace

void FunctionTranslator::emit_ldmatrix(const Instruction& i) {
  const unsigned n = matrix_count(i), words = i.has(Mod::m16n16) ? 2 * n : n;
  if (!takes_registers(i.operands[0], words)) return;
  Value* at = b.CreatePtrToInt(pointer(i.operands[1], space_of(i)), b.getInt64Ty());
  write_fragment(i.operands[0],
                 matrix_call("ldmatrix", {b.getInt32(n), b.getInt32(matrix_layout(i)), at}, words));
}

/// Whether an operand has this number of registers; reports an error otherwise.
bool FunctionTranslator::takes_registers(const Operand& o, std::size_t count) {
  if ((o.kind == Kind::vector ? o.parts.size() : 1) == count) return true;
  error(o.where, "this shape takes " + std::to_string(count) + " registers here");
  return false;
}

void FunctionTranslator::emit_stmatrix(const Instruction& i) {
  const unsigned n = matrix_count(i);
  if (!takes_registers(i.operands[1], n)) return;
  llvm::SmallVector<Value*, 8> in{
      b.getInt32(n), b.getInt32(matrix_layout(i)),
      b.CreatePtrToInt(pointer(i.operands[0], space_of(i)), b.getInt64Ty())};
  fragment_words(i.operands[1], in);
  matrix_call("stmatrix", in, 0);
}

void FunctionTranslator::emit_movmatrix(const Instruction& i) {
  write_fragment(i.operands[0], matrix_call("movmatrix", {read(i.operands[1], Type::b32)}, 1));
}

}  // namespace cucpu::ir
