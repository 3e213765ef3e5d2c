// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_texture.cpp: textures and surfaces, through routines that read a
// TextureObject.
#include "cpu/engine/runtime/texture.hpp"
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

namespace {

std::uint32_t shape_config(const Instruction& i) {
  if (i.has(Mod::m_1d)) return kTexture1D;
  if (i.has(Mod::m_2d)) return kTexture2D;
  if (i.has(Mod::m_3d)) return kTexture3D;
  if (i.has(Mod::a1d)) return kTexture1D | kTextureLayered;
  if (i.has(Mod::a2d)) return kTexture2D | kTextureLayered;
  if (i.has(Mod::acube)) return kTextureCube | kTextureLayered;
  return kTextureCube;
}

}  // namespace

/// The handle of an object, or the handle that the driver stored in a texture or surface reference
/// (a 64-bit variable).
Value* FunctionTranslator::texture_handle(const Operand& handle) {
  if (handle.kind != Kind::global) return read(handle, Type::b64);
  auto* l = b.CreateAlignedLoad(b.getInt64Ty(), b.CreateIntToPtr(address_of(handle), b.getPtrTy()),
                                llvm::Align(8));
  mark(l, Space::global);
  return l;
}

/// Handle, layer and three coordinates of `[handle, {coordinates}]`.
FunctionTranslator::Coordinates FunctionTranslator::coordinates(const Operand& address,
                                                                std::uint32_t config) {
  Coordinates c{};
  c.object = texture_handle(address.parts[0]);
  const Operand& last = address.parts.back();
  std::vector<Value*> v;
  if (address.parts.size() < 2) {
    error(address.where, "expected coordinates");
  } else if (last.kind == Kind::vector) {
    for (const Operand& p : last.parts) v.push_back(read(p, Type::b32));
  } else {
    v.push_back(read(last, Type::b32));
  }
  std::size_t next = 0;
  const auto take = [&]() -> Value* { return next < v.size() ? v[next++] : b.getInt32(0); };
  c.layer = (config & kTextureLayered) != 0 ? take() : b.getInt32(0);
  c.x = take();
  c.y = take();
  c.z = take();
  return c;
}

/// The offsets of a fetch in the form of `config`: four bits for each coordinate.
Value* FunctionTranslator::texture_offsets(const Operand& o) {
  Value* all = b.getInt32(0);
  const std::size_t n = o.kind == Kind::vector ? o.parts.size() : 1;
  for (unsigned k = 0; k < n && k < 3; ++k) {
    Value* one = b.CreateAnd(read(o.kind == Kind::vector ? o.parts[k] : o, Type::b32), 15);
    all = b.CreateOr(all, b.CreateShl(one, kTextureOffset + 4 * k));
  }
  return all;
}

void FunctionTranslator::texture_fetch(const Instruction& i, std::uint32_t config) {
  if (i.types[1] == Type::s32) config |= kTextureIntegerCoordinates;
  const Coordinates c = coordinates(i.operands[1], config);
  const bool asks_residency = i.operands[0].kind == Kind::pair;
  const Operand& d = asks_residency ? i.operands[0].parts[0] : i.operands[0];
  const unsigned registers = i.types[0] == Type::f16x2 ? 2 : 4;
  if (d.kind != Kind::vector || d.parts.size() != registers) {
    return error(d.where,
                 ptx::cat("expected a vector of ", std::to_string(registers), " registers"));
  }
  // `.level` has a level of detail, `.grad` two gradients; otherwise it is the base level.
  Value* level = b.getInt32(0);
  unsigned next = 2;
  if (i.has(Mod::level) && i.operands.size() > next) {
    level = read(i.operands[next++], Type::b32);
    config |= kTextureNamesLevel;
  }
  if (i.has(Mod::grad)) {
    next = 4;
    llvm::SmallVector<Value*, 8> steps{c.object, b.getInt32(config)};
    for (unsigned k = 2; k < 4; ++k) {
      const Operand& o = i.operands[k];
      for (unsigned n = 0; n < 3; ++n) {
        const bool there = o.kind == Kind::vector ? n < o.parts.size() : n == 0;
        steps.push_back(!there ? b.getInt32(0)
                               : read(o.kind == Kind::vector ? o.parts[n] : o, Type::b32));
      }
    }
    level = call_routine("texture_level", b.getInt32Ty(), steps, false);
  }
  // Then offsets, which are integers, and the reference value of depth textures.
  Value* offsets = b.getInt32(0);
  const auto is_float = [&](const Operand& o) {
    return o.kind == Kind::f32 ||
           (o.kind == Kind::reg && source.registers[o.index].type == Type::f32);
  };
  if (i.operands.size() > next && !is_float(i.operands[next])) {
    if ((config & kTextureShape) == kTextureCube)
      return error(i.operands[next].where, "a fetch from a cubemap has no offsets");
    offsets = texture_offsets(i.operands[next++]);
  }
  if (i.operands.size() > next)
    return error(i.operands[next].where,
                 "comparing with a depth is not supported: only graphics APIs make depth textures");
  const auto fetch = [&](std::uint32_t flags) -> Value* {
    llvm::SmallVector<Value*, 7> args{
        c.object, b.CreateOr(offsets, b.getInt32(config | flags)), c.layer, c.x, c.y, c.z, level};
    llvm::SmallVector<llvm::Type*, 7> types;
    for (Value* a : args) types.push_back(a->getType());
    return b.CreateCall(module.marker("cucpu_rt_texture", b.getInt64Ty(), types, Effect::reads),
                        args);
  };
  const auto part = [&](Value* from, unsigned bits, unsigned k) {
    return b.CreateTrunc(b.CreateLShr(from, std::uint64_t{bits} * k), int_type(bits));
  };
  if (i.types[0] == Type::f16 || i.types[0] == Type::f16x2) {
    Value* halves = fetch(kTextureHalves);
    for (unsigned k = 0; k < registers; ++k) write(d.parts[k], part(halves, 64 / registers, k));
  } else {
    Value* pairs[] = {fetch(0), fetch(kTextureHigh)};
    for (unsigned k = 0; k < 4; ++k) write(d.parts[k], part(pairs[k / 2], 32, k % 2));
  }
  if (asks_residency)
    write(i.operands[0].parts[1], b.CreateTrunc(fetch(kTextureResident), b.getInt1Ty()));
}

void FunctionTranslator::emit_tex(const Instruction& i) { texture_fetch(i, shape_config(i)); }

void FunctionTranslator::emit_tld4(const Instruction& i) {
  const unsigned component = i.has(Mod::r) ? 0 : i.has(Mod::g) ? 1 : i.has(Mod::b) ? 2 : 3;
  texture_fetch(i, shape_config(i) | kTextureGather | component << 8);
}

/// The first six operands of the surface routines.
std::array<Value*, 6> FunctionTranslator::surface_operands(const Instruction& i,
                                                           const Operand& address, bool store) {
  std::uint32_t config = shape_config(i) | (store ? kSurfaceStore : 0);
  if (i.has(Mod::clamp)) config |= kSurfaceClamp;
  if (i.has(Mod::zero)) config |= kSurfaceZero;
  const Coordinates c = coordinates(address, config);
  return {c.object, b.getInt32(config), c.layer, c.x, c.y, c.z};
}

Value* FunctionTranslator::surface_pointer(const Instruction& i, const Operand& address,
                                           unsigned bytes, bool store) {
  const auto surface = surface_operands(i, address, store);
  llvm::SmallVector<Value*, 7> args{surface.begin(), surface.end()};
  args.push_back(b.getInt32(bytes));
  return b.CreateIntToPtr(call_routine("surface", b.getInt64Ty(), args, false), b.getPtrTy());
}

void FunctionTranslator::emit_suld(const Instruction& i) {
  const Type t = i.types[0];
  const Operand& d = i.operands[0];
  const unsigned n = d.kind == Kind::vector ? static_cast<unsigned>(d.parts.size()) : 1,
                 bytes = ptx::bytes_of(t);
  Value* p = surface_pointer(i, i.operands[1], n * bytes, false);
  for (unsigned k = 0; k < n; ++k) {
    auto* l = b.CreateAlignedLoad(int_type(bytes * 8), offset_pointer(p, std::uint64_t{k} * bytes),
                                  llvm::Align(bytes));
    mark(l, Space::global);
    write(d.kind == Kind::vector ? d.parts[k] : d, l);
  }
}

void FunctionTranslator::emit_sust(const Instruction& i) {
  const Type t = i.types[0];
  const Operand& a = i.operands[1];
  const unsigned n = a.kind == Kind::vector ? static_cast<unsigned>(a.parts.size()) : 1,
                 bytes = ptx::bytes_of(t);
  Value* p = surface_pointer(i, i.operands[0], n * bytes, true);
  for (unsigned k = 0; k < n; ++k) {
    Value* v = read(a.kind == Kind::vector ? a.parts[k] : a, t, true);
    auto* s =
        b.CreateAlignedStore(v, offset_pointer(p, std::uint64_t{k} * bytes), llvm::Align(bytes));
    mark(s, Space::global);
  }
}

// sust.p: the format of the surface determines how components are stored.
void FunctionTranslator::emit_sust_formatted(const Instruction& i) {
  const Operand& a = i.operands[1];
  const auto surface = surface_operands(i, i.operands[0]);
  Value* words[4] = {b.getInt64(0), b.getInt64(0), b.getInt64(0), b.getInt64(0)};
  const unsigned n = a.kind == Kind::vector ? static_cast<unsigned>(a.parts.size()) : 1;
  for (unsigned k = 0; k < n && k < 4; ++k)
    words[k] =
        b.CreateZExt(read(a.kind == Kind::vector ? a.parts[k] : a, Type::b32), b.getInt64Ty());
  llvm::SmallVector<Value*, 8> args{surface.begin(), surface.end()};
  for (unsigned k = 0; k < 4; k += 2)
    args.push_back(b.CreateOr(words[k], b.CreateShl(words[k + 1], 32)));
  call_routine("surface_store", b.getVoidTy(), args, false);
}

// sured: with .b it is an atomic operation on bytes; with .p the format determines the type.
void FunctionTranslator::emit_sured(const Instruction& i) {
  const Type t = i.types[0];
  if (!i.has(Mod::p)) {
    Value* p = surface_pointer(i, i.operands[0], ptx::bytes_of(t), true);
    (void)atomic(i, p, read(i.operands[1], t), nullptr, t);
    return;
  }
  const bool wide = ptx::bytes_of(t) == 8;
  const auto surface = surface_operands(i, i.operands[0]);
  llvm::SmallVector<Value*, 8> args{surface.begin(), surface.end()};
  args.push_back(
      b.getInt32(static_cast<std::uint32_t>(reduction_of(i)) | (wide ? kSurfaceWide : 0)));
  args.push_back(b.CreateZExt(read(i.operands[1], t), b.getInt64Ty()));
  call_routine("surface_reduce", b.getVoidTy(), args, false);
}

void FunctionTranslator::emit_texture_query(const Instruction& i) {
  const unsigned which = i.has(Mod::width)               ? 0
                         : i.has(Mod::height)            ? 1
                         : i.has(Mod::depth)             ? 2
                         : i.has(Mod::array_size)        ? 3
                         : i.has(Mod::normalized_coords) ? 4
                         : i.has(Mod::num_mipmap_levels) ? 7
                                                         : 8;
  if (which == 8) {
    return error(i.where, ptx::cat("'", i.row->op,
                                   "' is supported with .width, .height, .depth, "
                                   ".array_size, .normalized_coords and .num_mipmap_levels only"));
  }
  Value* object = texture_handle(i.operands[1].parts[0]);
  Value* level = i.operands.size() > 2 ? read(i.operands[2], Type::b32) : b.getInt32(0);
  write(i.operands[0],
        call_routine("texture_query", b.getInt32Ty(), {object, b.getInt32(which), level}, false));
}

// istypep: whether this is the address of a texture, sampler or surface reference of the module.
void FunctionTranslator::emit_istypep(const Instruction& i) {
  const Type wanted = i.has(Mod::texref)    ? Type::texref
                      : i.has(Mod::surfref) ? Type::surfref
                                            : Type::samplerref;
  Value* a = read(i.operands[1], Type::b64);
  Value* found = b.getFalse();
  for (std::size_t k = 0; k < module.source.variables.size(); ++k) {
    if (module.source.variables[k].type != wanted || module.variables[k] == nullptr) continue;
    Value* address = b.CreatePtrToInt(module.variables[k], b.getInt64Ty());
    found = b.CreateOr(found, b.CreateICmpEQ(a, address));
  }
  write(i.operands[0], found);
}

void FunctionTranslator::emit_unsupported(const Instruction& i) {
  error(i.where, ptx::cat("'", i.row->op, "' in this form is not supported by the CPU device"));
}

}  // namespace cucpu::ir
