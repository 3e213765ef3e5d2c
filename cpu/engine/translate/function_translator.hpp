// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/function_translator.hpp: translates one PTX function to one LLVM function.
// Registers are allocas until promote_registers(). Every emitter of api/ptx.json is a member
// `emit_<name>`, in the emit_*.cpp file of its family.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/engine/runtime/reduce.hpp"
#include "cpu/engine/translate/module_translator.hpp"

namespace cucpu::ir {

using llvm::Value;
using ptx::Instruction;
using ptx::Mod;
using ptx::Operand;
using ptx::Space;
using ptx::Type;

class FunctionDebug;

class FunctionTranslator {
 public:
  FunctionTranslator(ModuleTranslator& module, const ptx::Function& source, llvm::Function& out);
  ~FunctionTranslator();
  void run();

  std::uint64_t static_shared_bytes = 0;
  std::uint64_t dynamic_shared_offset = 0;
  std::uint64_t local_bytes = 0;
  std::vector<Param> params;  ///< of a kernel
  std::uint32_t param_bytes = 0;

 private:
  friend class FunctionDebug;

  // function_translator.cpp: set-up and the walk over statements
  void choose_register_types();
  void create_registers();
  void layout_params();
  void layout_variables();
  void receive_arguments();
  void statement(const Instruction& i);
  void start_block(llvm::BasicBlock* block);
  void finish();
  void set_line(const ptx::SourceLine& line);
  void start_debug();

  // values.cpp: operands to values and back
  llvm::Type* type_of(Type type);
  llvm::IntegerType* int_type(unsigned bits) { return b.getIntNTy(bits); }
  Value* constant(const Operand& o, Type type);
  Value* special(std::uint32_t index);
  Value* read_register(std::uint32_t reg);
  Value* read_register(const Operand& o);  ///< including its constant offset
  Value* read(const Operand& o, Type type,
              bool narrow = false);  ///< `narrow`: a wider register is truncated
  Value* read_bits(const Operand& o, unsigned bits);
  Value* read_pred(const Operand& o);
  Value* address_of(const Operand& o);  ///< of a variable or function, as mov returns it: i64
  void write(const Operand& o, Value* value,
             bool is_signed = false);  ///< extends to a wider register
  void write_register(std::uint32_t reg, Value* value, bool is_signed, ptx::Location where);
  Value* as_bits(Value* v);                 ///< floats and vectors become integers
  Value* as_type(Value* v, llvm::Type* t);  ///< same size, other type
  Value* raw_bits(Value* v);                ///< for arithmetic on bits: a NaN need not be canonical
  Value* made_float(
      Value* bits,
      llvm::Type* t);  ///< the result of arithmetic on bits: its NaNs are not canonical
  void error(ptx::Location where, std::string text) {
    module.diagnostics.error(where, std::move(text));
  }

  // memory.cpp
  Space space_of(const Instruction& i);
  std::string_view wrong_access(const Instruction& i, const Operand& address, unsigned bytes);
  std::string_view wrong_parameter(const Instruction& i, const Operand& address);
  std::string_view wrong_atomic(const Instruction& i, const Operand& x);
  Value* pointer(const Operand& address, Space space, bool cluster = false);
  Value* shared_pointer(const Operand& base, std::uint64_t offset);  ///< `base`: a 32-bit register
  Value* wrapped_address(const Operand& base, std::uint64_t offset);
  void remember_access(const Operand& address, Space space, bool cluster, Value* pointer);
  Value* cluster_pointer(Value* address);  ///< of a shared::cluster address
  Value* shared_base();
  Value* params_base();
  std::uint64_t shared_offset(const Operand& o, bool& dynamic);
  void mark(llvm::Instruction* access, Space space);
  Value* load(llvm::Type* type, Value* ptr, unsigned align, Space space, const Instruction& i);
  void store(Value* value, Value* ptr, unsigned align, Space space, const Instruction& i);
  Value* offset_pointer(Value* ptr, std::uint64_t bytes);

  Value* result_place(Type type);  ///< emit_control.cpp

  // float helpers (float_math.cpp): straight-line code only, so that it can be widened
  enum class Round { rn, rz, rm, rp };
  static Round round_of(const Instruction& i);
  Value* flush(Value* v);  ///< subnormal -> zero of the same sign
  Value* flush_if(const Instruction& i, Value* v) { return i.has(Mod::ftz) ? flush(v) : v; }
  Value* negated(Value* v);
  Value* zero_where(Value* condition, Value* r);  ///< r, or a zero with its sign
  /// .ftz of a result that may have been rounded to the least normal: by twice the exact result,
  /// rounded to nearest by the same format, or by the exact result of an f32 instruction in double.
  Value* flush_by_double(Value* r, Value* doubled);
  Value* flush_by_exact(Value* r, Value* exact, Value* error, Round mode);
  Value* twice(Value* v);
  Value* marked(Value* v, const char* kind);        ///< v with this metadata
  Value* double_fma(Value* x, Value* y, Value* z);  ///< 2 * (x * y + z)
  Value* canonical_nan(Value* v);
  Value* canonical_half(Value* bits);
  Value* quieted(Value* v);  ///< an f64 NaN with its quiet bit set
  Value* with_gpu_nan(Value* r, llvm::ArrayRef<Value*> operands);  ///< of f64 arithmetic
  Value* saturate(Value* v);                                       ///< clamp to [0, 1], NaN -> 0
  Value* saturate_if(const Instruction& i, Value* v);
  Value* finish_float(const Instruction& i, Value* v);  ///< .sat and .ftz of a result
  Value* intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<Value*> args);
  Value* nudge(Value* v, Value* up, Value* down);  ///< to the next value up or down, or not at all
  Value* correct(Value* v, Value* high, Value* low, Value* negative, Round mode);
  Value* round_to_float(Value* d, Value* error, Round mode);  ///< d + error, both double
  Value* round_to_odd_float(Value* d, Value* error);          ///< for a second rounding to 16 bits
  Value* round_to_half(Value* f, Round mode);                 ///< float -> half
  Value* round_to_bf16(Value* f, Round mode);                 ///< float -> i16
  Value* round_double(Value* d, Value* error, Round mode);
  Value* bf16_to_float(Value* bits);
  struct Sum {
    Value *value, *error;
  };
  Sum exact_sum(Value* x, Value* y);                    ///< value + error = x + y exactly
  Value* sum_directed(Value* x, Value* y, Round mode);  ///< float of two doubles
  Value* extend(Value* v) { return b.CreateFPExt(v, b.getDoubleTy()); }
  Value* polynomial(Value* x, llvm::ArrayRef<double> coefficients);  ///< lowest first
  Value* exp2_approx(Value* x);
  Value* exp2_flushed(Value* x);
  Value* tanh_approx(Value* x);
  Value* coarse_f64(Value* v);
  Value* saturate_int(Value* v, Type from, Type to);
  Value* round_to_integral(const Instruction& i, Value* v);
  Value* float_to_int(const Instruction& i, Value* v, Type from, Type to);
  Value* int_to_float(const Instruction& i, Value* v, Type from, Type to);
  Value* float_to_float(const Instruction& i, Value* v, Type from, Type to);
  Value* relu(Value* v);

  // 16-bit floats (emit_half.cpp)
  Value* half_operation(const Instruction& i, llvm::ArrayRef<Value*> v,
                        bool bf16);  ///< values are half, or i16 for bf16
  Value* flush_half_by_float(Value* r, Value* exact);
  Value* half_fma(const Instruction& i, Value* x, Value* y, Value* z, bool bf16);
  Value* widen_half(Value* v, bool bf16) {
    return bf16 ? bf16_to_float(v) : b.CreateFPExt(v, b.getFloatTy());
  }
  Value* half_part(Value* packed, unsigned k, bool bf16);
  Value* join_halves(Value* low, Value* high);
  std::pair<Value*, Value*> pair_of_floats(const Instruction& i);
  Value* small_to_float(Value* bits, unsigned exponent_bits, unsigned mantissa_bits, int bias);
  Value* scaled_by_exponent(const Instruction& i, Value* f, unsigned k);
  Value* small_to_half(Value* byte, bool e4m3);
  Value* float_sum(const Instruction& i, Type t, Value* x, Value* y);  ///< also a difference
  Value* float_product(const Instruction& i, Type t, Value* x, Value* y);
  Value* float_fma(const Instruction& i, Type t, Value* x, Value* y, Value* z);
  Value* half_of(Value* f, const Instruction& i, bool bf16);

  // threads of a warp and a block (emit_warp.cpp, emit_async.cpp)
  Value* barrier_threads(const Instruction& i, std::size_t operand);
  bool check_barrier(const Operand& id, const Operand* threads);
  void write_pair(const Operand& d, Value* pair);
  Value* warp_call(llvm::StringRef name, llvm::ArrayRef<Value*> in, llvm::Type* result);
  llvm::AllocaInst* in_memory(llvm::ArrayRef<Value*> values);  ///< as the members of a struct
  Value* pixel_offsets(const Instruction& i, std::size_t& next);
  bool tensor_operands(const Instruction& i, const Operand& address, Value* shared,
                       std::uint32_t what, llvm::SmallVectorImpl<Value*>& args);
  static bool is_shared_address(const Instruction& i, const Operand& o);
  // tensor memory (emit_tcgen05.cpp)
  Value* tensor_address(const Operand& address);
  bool one_cta_group(const Instruction& i);
  bool tensor_columns(const Instruction& i);
  llvm::SmallVector<Value*, 136> tensor_move(const Instruction& i, const Operand& registers,
                                             const Operand& address, const Operand* split,
                                             std::uint32_t flags);
  std::uint32_t scale_factors(const Instruction& i);
  void check_copy(Value* to, unsigned bytes);
  bool bulk_order_fits(const Instruction& i);
  void multicast(const Instruction& i, Value* to, Value* barrier, const Operand* mask_operand,
                 llvm::function_ref<void(Value*, Value*)> make);
  static ReduceOp reduction_of(const Instruction& i);  ///< add when it names none
  bool multimem_exists(const Instruction& i, std::size_t count);
  // textures and surfaces
  struct Coordinates {
    Value *object, *layer, *x, *y, *z;
  };
  Coordinates coordinates(const Operand& address, std::uint32_t config);
  Value* texture_handle(const Operand& handle);
  Value* texture_offsets(const Operand& o);
  void texture_fetch(const Instruction& i, std::uint32_t config);
  std::array<Value*, 6> surface_operands(const Instruction& i, const Operand& address,
                                         bool store = true);
  Value* surface_pointer(const Instruction& i, const Operand& address, unsigned bytes, bool store);

  // video instructions: operands are widened to i64
  struct VideoPart {
    unsigned bits, shift;
  };
  VideoPart video_selected(const Operand& o);
  Value* video_part(const Operand& o, Type type);
  Value* video_saturate(const Instruction& i, Value* v, bool sign, const Operand& to);
  Value* video_clamp(Value* v, bool sign, unsigned bits);
  Value* video_operation(std::string_view op, const Instruction& i, Value* x, Value* y);
  Value* video_select(const Instruction& i, Value* v, Value* c, bool sign);
  Value* video_merge(const Operand& to, Value* r, Value* c);
  void video_finish(const Instruction& i, Value* v, Type d);
  void fragment_words(const Operand& o, llvm::SmallVectorImpl<Value*>& words);
  void write_fragment(const Operand& o, Value* words);
  bool takes_registers(const Operand& o, std::size_t count);
  bool scale_words(const Instruction& i, std::size_t first, llvm::SmallVectorImpl<Value*>& words);
  bool check_product(const Instruction& i, Type a, Type bt, bool sparse);
  void matrix_product(const Instruction& i, Type a, Type bt, Type c, bool wmma);
  Value* matrix_call(const char* name, llvm::ArrayRef<Value*> in, std::size_t words);
  std::pair<Value*, Value*> lane_place(unsigned group, unsigned per_row);
  Value* wmma_stride(const Instruction& i, unsigned by_default);
  Value* accumulator_element(const Instruction& i, unsigned index, Value* base);
  void load_accumulator(const Instruction& i);
  Value* atomic(const Instruction& i, Value* ptr, Value* x, Value* y, Type type);
  Value* atomic_all(const Instruction& i, const Operand& address, const Operand& x,
                    const Operand* y, const Operand* d);
  Value* log2_approx(Value* x);
  Value* sin_turns(Value* x, bool cosine);
  Value* fmin_ieee(Value* a, Value* b, bool max, bool nan);
  Value* is_nan(Value* v) { return b.CreateFCmpUNO(v, v); }
  Value* sign_bit(Value* v);
  Value* float_constant(llvm::Type* t, double v) { return llvm::ConstantFP::get(t, v); }
  Value* call_routine(llvm::StringRef name, llvm::Type* result, llvm::ArrayRef<Value*> args,
                      bool pure = true);
  Value* call_marker(llvm::StringRef name, llvm::Type* result, llvm::ArrayRef<Value*> args,
                     ModuleTranslator::Effect effect);
  Value* compare(const Instruction& i, Value* x, Value* y, Type type);
  Value* combine(const Instruction& i, Value* p, std::size_t operand);

  // integer helpers (emit_integer.cpp)
  static bool is_signed(Type t) { return ptx::class_of(t) == ptx::Class::signed_int; }
  Value* multiply(const Instruction& i, Value* x, Value* y, Type type);
  Value* multiply24(const Instruction& i);  ///< of the low 24 bits of the first two operands
  Value* clamped_shift(llvm::Instruction::BinaryOps op, Value* v, Value* amount);
  void carry_out(Value* c);
  void write_sum_and_carry(const Instruction& i, Value* x, Value* y, bool adds_carry);

#define CUCPU_PTX_EMIT(name) void emit_##name(const Instruction& i);
#include "ptx_emits.inc"
#undef CUCPU_PTX_EMIT

  ModuleTranslator& module;
  const ptx::Function& source;
  llvm::Function& out;
  llvm::IRBuilder<> b;
  std::vector<llvm::AllocaInst*> registers_;
  std::vector<char> float_votes_;  ///< by register: float instructions touch it
  std::vector<llvm::BasicBlock*> labels_;
  std::vector<Value*> variable_ptr_;  ///< .local, call .param and function parameters: their alloca
  std::vector<std::uint64_t> variable_offset_;  ///< kernel parameters and .shared
  std::vector<std::int64_t>
      module_shared_;  ///< by module variable: its offset here, -1 not placed, -2 dynamic
  /// The lowest shared access of the current basic block, by the register of the address.
  struct Accessed {
    Value* pointer;
    std::int32_t offset;
  };
  llvm::DenseMap<std::uint32_t, Accessed> accessed_;
  llvm::AllocaInst* carry_ = nullptr;
  std::uint32_t cta_group_ = 0;  ///< of the tcgen05 instructions so far; 0: none yet
  bool widens_ = false;          ///< the instruction's result may go to a larger register
  Value* select_guard_ =
      nullptr;  ///< the predicate of the current instruction, by which results are selected
  Value* shared_base_ = nullptr;
  Value* params_base_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  llvm::DISubprogram* subprogram_ = nullptr;
  bool has_ptx_lines_ = false;  ///< lines are those of the PTX: TranslateOptions::ptx_files
  std::unique_ptr<FunctionDebug> debug_;  ///< in debug mode
};

}  // namespace cucpu::ir
