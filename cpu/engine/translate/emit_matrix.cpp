// cpu/engine/translate/emit_matrix.cpp: tensor-core instructions. Products are collective routines
// (runtime/matrix.cpp). wmma fragments have a layout of our own: lane l holds elements l * P … l *
// P + P - 1 of the matrix (P = elements / 32), in the order row-major for a and c, column-major for
// b; registers beyond P repeat them. So loads and stores need no other lane.
#include <charconv>

#include "cpu/engine/runtime/matrix.hpp"
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

/// The k-th layout word of the opcode: is it .col?
bool is_col(const Instruction& i, unsigned k) {
  for (Mod m : i.mods) {
    if (m != Mod::row && m != Mod::col) continue;
    if (k-- == 0) return m == Mod::col;
  }
  return false;
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

void FunctionTranslator::matrix_product(const Instruction& i, Type a, Type bt, Type c, bool wmma) {
  const Shape s = shape_of(i);
  if (!wmma && s.m == 8 && s.k == 4 && a == Type::f16) {
    return error(i.where, "mma.m8n8k4 with .f16 is not supported: its layout is that of sm_70");
  }
  llvm::SmallVector<Value*, 32> fa, fb, fc;
  fragment_words(i.operands[1], fa);
  fragment_words(i.operands[2], fb);
  fragment_words(i.operands[3], fc);
  const Type d = i.types[0];
  const unsigned scale = d == Type::f64 ? 2 : 1;
  const Operand& out_operand = i.operands[0];
  const auto nd = static_cast<unsigned>(
      (out_operand.kind == Kind::vector ? out_operand.parts.size() : 1) * scale);
  std::uint32_t flags = 0;
  if (wmma) flags |= kMatrixWmma;
  if (i.has(Mod::satfinite)) flags |= kMatrixSaturate;
  if (i.has(Mod::popc)) flags |= i.has(Mod::xor_) ? kMatrixXor : kMatrixAnd;
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
  write_fragment(out_operand, warp_call("mma", in, llvm::ArrayType::get(b.getInt32Ty(), nd)));
}

void FunctionTranslator::emit_mma(const Instruction& i) {
  matrix_product(i, i.types[1], i.types[2], i.types[3], false);
}

void FunctionTranslator::emit_wmma_mma(const Instruction& i) {
  if (i.types[2] == Type::none) return matrix_product(i, Type::f16, Type::f16, i.types[1], true);
  matrix_product(i, i.types[1], i.types[2], i.types[3], true);
}

/// Where word w of this lane's fragment lies: calls visit(element offset in elements, contiguous?)
/// for each of its elements.
void FunctionTranslator::wmma_elements(const Instruction& i, char which, std::size_t stride_operand,
                                       unsigned word, unsigned per_word,
                                       llvm::function_ref<void(unsigned, Value*)> visit) {
  const Shape s = shape_of(i);
  const unsigned rows = which == 'b' ? s.n : s.m;                  // the order's slow index
  const unsigned cols = which == 'c' || which == 'd' ? s.n : s.k;  // its fast index
  const unsigned lane_elements = rows * cols / 32;
  Value* lane = call_marker("sreg.laneid", b.getInt32Ty(), {}, Effect::none);
  // In memory: row-major a and c, and column-major b, have the fast index contiguous.
  const bool col = is_col(i, 0);
  const bool fast_contiguous = which == 'b' ? col : !col;
  Value* stride = i.operands.size() > stride_operand ? read(i.operands[stride_operand], Type::b32)
                                                     : b.getInt32(fast_contiguous ? cols : rows);
  for (unsigned e = 0; e < per_word; ++e) {
    const unsigned local = (word * per_word + e) % lane_elements;
    Value* index = b.CreateAdd(b.CreateMul(lane, b.getInt32(lane_elements)), b.getInt32(local));
    Value* slow = b.CreateUDiv(index, b.getInt32(cols));
    Value* fast = b.CreateURem(index, b.getInt32(cols));
    Value* at = fast_contiguous ? b.CreateAdd(b.CreateMul(slow, stride), fast)
                                : b.CreateAdd(b.CreateMul(fast, stride), slow);
    visit(e, b.CreateZExt(at, b.getInt64Ty()));
  }
}

void FunctionTranslator::emit_wmma_load(const Instruction& i) {
  const char which = i.has(Mod::a) ? 'a' : i.has(Mod::b) ? 'b' : 'c';
  const Type t = i.types[0];
  const unsigned bits = element_bits(t), per_word = bits >= 32 ? 1 : 32 / bits;
  const Space space = space_of(i);
  Value* base = pointer(i.operands[1], space);
  const Operand& d = i.operands[0];
  const std::size_t count = d.kind == Kind::vector ? d.parts.size() : 1;
  for (unsigned w = 0; w < count; ++w) {
    const Operand& part = d.kind == Kind::vector ? d.parts[w] : d;
    if (bits < 8) {  // sub-byte matrices are contiguous along k: whole words
      Value* at = nullptr;
      wmma_elements(i, which, 2, w, per_word, [&](unsigned e, Value* offset) {
        if (e == 0) at = offset;
      });
      Value* bytes = b.CreateLShr(b.CreateMul(at, b.getInt64(bits)), 3);
      write(part, load(b.getInt32Ty(), b.CreateGEP(b.getInt8Ty(), base, bytes), 4, space, i));
      continue;
    }
    Value* word = nullptr;
    wmma_elements(i, which, 2, w, per_word, [&](unsigned e, Value* offset) {
      Value* p = b.CreateGEP(int_type(bits), base, offset);
      Value* v = load(int_type(bits), p, bits / 8, space, i);
      if (bits < 32) v = b.CreateShl(b.CreateZExt(v, b.getInt32Ty()), e * bits);
      word = word == nullptr ? v : b.CreateOr(word, v);
    });
    write(part, word);
  }
}

void FunctionTranslator::emit_wmma_store(const Instruction& i) {
  const Type t = i.types[0];
  const unsigned bits = element_bits(t), per_word = bits >= 32 ? 1 : 32 / bits;
  const Space space = space_of(i);
  Value* base = pointer(i.operands[0], space);
  const Operand& a = i.operands[1];
  const std::size_t count = a.kind == Kind::vector ? a.parts.size() : 1;
  for (unsigned w = 0; w < count; ++w) {
    const Operand& part = a.kind == Kind::vector ? a.parts[w] : a;
    Value* word = read_bits(part, bits >= 32 ? bits : 32);
    wmma_elements(i, 'd', 2, w, per_word, [&](unsigned e, Value* offset) {
      Value* v = bits < 32 ? b.CreateTrunc(b.CreateLShr(word, e * bits), int_type(bits)) : word;
      store(v, b.CreateGEP(int_type(bits), base, offset), bits / 8, space, i);
    });
  }
}

void FunctionTranslator::emit_ldmatrix(const Instruction& i) {
  const unsigned n = i.has(Mod::x4) ? 4 : i.has(Mod::x2) ? 2 : 1;
  Value* at = b.CreatePtrToInt(pointer(i.operands[1], space_of(i)), b.getInt64Ty());
  Value* r = warp_call("ldmatrix", {at, b.getInt32(n), b.getInt32(i.has(Mod::trans) ? 1 : 0)},
                       llvm::ArrayType::get(b.getInt32Ty(), n));
  write_fragment(i.operands[0], r);
}

void FunctionTranslator::emit_stmatrix(const Instruction& i) {
  const unsigned n = i.has(Mod::x4) ? 4 : i.has(Mod::x2) ? 2 : 1;
  llvm::SmallVector<Value*, 8> in{
      b.CreatePtrToInt(pointer(i.operands[0], space_of(i)), b.getInt64Ty()), b.getInt32(n),
      b.getInt32(i.has(Mod::trans) ? 1 : 0)};
  fragment_words(i.operands[1], in);
  warp_call("stmatrix", in, b.getVoidTy());
}

void FunctionTranslator::emit_movmatrix(const Instruction& i) {
  Value* r = warp_call("movmatrix", {read(i.operands[1], Type::b32)}, b.getInt32Ty());
  write(i.operands[0], r);
}

}  // namespace cucpu::ir
