// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/random_test.cpp: random thread code, vectorized for every width, against the same
// code thread by thread.
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>

#include <cstdlib>
#include <random>

#include "harness.hpp"

namespace simt_test {
namespace {

using namespace llvm;

constexpr unsigned kIn = 256, kOutPerThread = 8, kCounters = 16;

/// Writes one random kernel: variables, branches, loops with break and continue, memory, atomics,
/// early returns, barriers.
class Program {
 public:
  Program(LLVMContext& context, unsigned seed)
      : columns_{seed % 2 == 0}, random_{seed}, context_{context}, b_{context} {}

  std::unique_ptr<Module> make() {
    SMDiagnostic error;
    auto module = parseAssemblyString(kMarkers, error, context_);
    module_ = module.get();
    function_ = Function::Create(FunctionType::get(b_.getVoidTy(), false),
                                 GlobalValue::ExternalLinkage, "kernel", *module);
    b_.SetInsertPoint(BasicBlock::Create(context_, "entry", function_));
    for (unsigned i = 0; i < 5; ++i)
      variables_.push_back(b_.CreateAlloca(b_.getInt32Ty(), nullptr, "v" + Twine{i}));
    for (unsigned i = 0; i < 2; ++i)
      reals_.push_back(b_.CreateAlloca(b_.getFloatTy(), nullptr, "f" + Twine{i}));
    Value* params = marker("params");
    auto param = [&](unsigned offset, Type* type) {
      return b_.CreateLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), params, offset));
    };
    in_ = param(0, b_.getPtrTy());
    out_ = param(8, b_.getPtrTy());
    counters_ = param(16, b_.getPtrTy());
    number_ = param(24, b_.getInt32Ty());
    shared_ = marker("shared");
    tid_ = marker("sreg.tid.x");
    tidy_ = marker("sreg.tid.y");
    ctaid_ = marker("sreg.ctaid.x");
    linear_ = b_.CreateAdd(b_.CreateMul(tidy_, marker("sreg.ntid.x")), tid_);
    global_ = b_.CreateAdd(b_.CreateMul(ctaid_, b_.getInt32(128)), linear_);
    for (Value* v : variables_) b_.CreateStore(b_.getInt32(0), v);
    for (Value* v : reals_) b_.CreateStore(ConstantFP::get(b_.getFloatTy(), 1), v);
    if (pick(4) == 0) alone();  // before anything else
    for (Value* v : variables_) b_.CreateStore(expression(2, false), v);
    for (Value* v : reals_)
      b_.CreateStore(b_.CreateSIToFP(b_.CreateAnd(expression(1, false), 1023), b_.getFloatTy()), v);
    statements(3, 0, true);
    for (unsigned i = 0; i < 4; ++i) output(i, b_.CreateLoad(b_.getInt32Ty(), variables_[i]));
    output(4, b_.CreateBitCast(b_.CreateLoad(b_.getFloatTy(), reals_[0]), b_.getInt32Ty()));
    b_.CreateRetVoid();
    std::string why;
    raw_string_ostream out{why};
    if (verifyFunction(*function_, &out)) throw std::runtime_error{out.str()};
    return module;
  }

 private:
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
  Value* marker(StringRef name) {
    return b_.CreateCall(module_->getFunction(("cucpu." + name).str()));
  }
  BasicBlock* block(const char* name) { return BasicBlock::Create(context_, name, function_); }

  Value* leaf(bool with_variables) {
    switch (pick(with_variables ? 9 : 6)) {
      case 0:
        return tid_;
      case 1:
        return ctaid_;
      case 2:
        return number_;
      case 3:
        return linear_;
      case 4:
        return global_;
      case 5:
        return b_.getInt32(pick(64));
      default:
        return b_.CreateLoad(b_.getInt32Ty(),
                             variables_[pick(static_cast<unsigned>(variables_.size()))]);
    }
  }

  Value* expression(unsigned depth, bool with_variables = true) {
    if (depth == 0 || pick(5) == 0) return leaf(with_variables);
    Value *a = expression(depth - 1, with_variables), *c = expression(depth - 1, with_variables);
    switch (pick(14)) {
      case 0:
        return b_.CreateAdd(a, c);
      case 1:
        return b_.CreateSub(a, c);
      case 2:
        return b_.CreateMul(a, b_.getInt32(pick(9)));
      case 3:
        return b_.CreateXor(a, c);
      case 4:
        return b_.CreateAnd(a, b_.getInt32((1u << pick(10)) - 1));
      case 5:
        return b_.CreateLShr(a, b_.getInt32(pick(8)));
      case 6:
        return b_.CreateUDiv(a, b_.CreateOr(c, b_.getInt32(1)));
      case 7:
        return b_.CreateSelect(condition(0), a, c);
      case 8:
        return b_.CreateShl(a, b_.getInt32(pick(4)));
      case 9:
        return load(a);
      case 10:
        return b_.CreateTrunc(
            b_.CreateMul(b_.CreateSExt(a, b_.getInt64Ty()), b_.CreateZExt(c, b_.getInt64Ty())),
            b_.getInt32Ty());
      case 11:
        return b_.CreateTrunc(b_.CreateLShr(b_.CreateAdd(b_.CreateSExt(a, b_.getInt64Ty()),
                                                         b_.CreateZExt(c, b_.getInt64Ty())),
                                            3),
                              b_.getInt32Ty());
      case 12:
        return b_.CreateBinaryIntrinsic(Intrinsic::smax, a, c);
      default:
        return b_.CreateAdd(a, b_.getInt32(pick(100)));
    }
  }

  Value* load(Value* index) {
    Value* at = pick(2) ? b_.CreateAnd(index, kIn - 1) : b_.CreateURem(index, b_.getInt32(kIn));
    return b_.CreateLoad(b_.getInt32Ty(),
                         b_.CreateGEP(b_.getInt32Ty(), in_, b_.CreateZExt(at, b_.getInt64Ty())));
  }

  Value* condition(unsigned depth) {
    if (depth > 0 && pick(3) == 0) {
      Value *a = condition(depth - 1), *c = condition(depth - 1);
      return pick(2) ? b_.CreateLogicalAnd(a, c) : b_.CreateLogicalOr(a, c);
    }
    static constexpr CmpInst::Predicate kPredicates[] = {
        CmpInst::ICMP_EQ,  CmpInst::ICMP_NE,  CmpInst::ICMP_SLT, CmpInst::ICMP_ULT,
        CmpInst::ICMP_SGE, CmpInst::ICMP_UGT, CmpInst::ICMP_ULE};
    auto predicate = kPredicates[pick(7)];
    switch (pick(5)) {
      case 0:
        return b_.CreateICmp(predicate, ctaid_, b_.getInt32(pick(3)));  // uniform
      case 1:
        return b_.CreateICmp(predicate, tid_, b_.getInt32(pick(70)));  // strided
      case 2:
        return b_.CreateICmp(predicate, linear_, b_.CreateAnd(number_, 63));
      case 3:
        return b_.CreateFCmpOLT(b_.CreateLoad(b_.getFloatTy(), reals_[0]),
                                b_.CreateLoad(b_.getFloatTy(), reals_[1]));
      default:
        return b_.CreateICmp(predicate, b_.CreateAnd(expression(1), 31),
                             b_.CreateAnd(expression(1), 31));
    }
  }

  void output(unsigned slot, Value* value) {
    Value* at = b_.CreateAdd(b_.CreateMul(global_, b_.getInt32(kOutPerThread)), b_.getInt32(slot));
    if (columns_) at = b_.CreateAdd(b_.CreateMul(b_.getInt32(slot), b_.getInt32(512)), global_);
    b_.CreateStore(value, b_.CreateGEP(b_.getInt32Ty(), out_, b_.CreateSExt(at, b_.getInt64Ty())));
  }

  void assign() {
    if (pick(4) == 0) {
      Value* f = b_.CreateLoad(b_.getFloatTy(), reals_[pick(2)]);
      Value* g = b_.CreateSIToFP(b_.CreateAnd(expression(1), 255), b_.getFloatTy());
      b_.CreateStore(
          pick(2) ? b_.CreateFAdd(f, g)
                  : b_.CreateFMul(f, b_.CreateFAdd(g, ConstantFP::get(b_.getFloatTy(), 0.5))),
          reals_[pick(2)]);
    } else {
      b_.CreateStore(expression(3), variables_[pick(5)]);
    }
  }

  void exchange() {  // all threads that have not returned are here
    Value* own = b_.CreateGEP(b_.getInt32Ty(), shared_, b_.CreateZExt(linear_, b_.getInt64Ty()));
    b_.CreateStore(b_.CreateLoad(b_.getInt32Ty(), variables_[pick(5)]), own);
    barrier();
    Value* other = b_.CreateAnd(pick(2) ? b_.CreateXor(linear_, b_.getInt32(pick(32)))
                                        : b_.CreateAdd(linear_, b_.getInt32(pick(64))),
                                127);
    Value* v = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), shared_,
                                                           b_.CreateZExt(other, b_.getInt64Ty())));
    b_.CreateStore(v, variables_[pick(5)]);
    barrier();
  }

  /// One thread, or some of the first, leave something for all others, once the first thread of all
  /// has cleared the place.
  void alone() {
    Value* word = b_.CreateConstGEP1_64(b_.getInt32Ty(), shared_, 128 + pick(4));
    BasicBlock *first = block("first"), *cleared = block("cleared"), *some = block("some"),
               *met = block("met");
    b_.CreateCondBr(b_.CreateICmpEQ(linear_, b_.getInt32(0)), first, cleared);
    b_.SetInsertPoint(first);
    b_.CreateStore(b_.getInt32(pick(3)), word);
    b_.CreateBr(cleared);
    b_.SetInsertPoint(cleared);
    barrier();
    Value* last = pick(2) ? b_.getInt32(pick(70)) : b_.CreateAnd(number_, 63);
    const bool one = pick(3) != 0;
    b_.CreateCondBr(one ? b_.CreateICmpEQ(linear_, last) : b_.CreateICmpULE(linear_, last), some,
                    met);
    b_.SetInsertPoint(some);
    if (one && pick(3) != 0)
      b_.CreateStore(expression(1), word);
    else
      b_.CreateAtomicRMW(AtomicRMWInst::Add, word, pick(2) ? b_.getInt32(1) : expression(1),
                         MaybeAlign{4}, AtomicOrdering::Monotonic);
    b_.CreateBr(met);
    b_.SetInsertPoint(met);
    barrier();
    b_.CreateStore(b_.CreateLoad(b_.getInt32Ty(), word), variables_[pick(5)]);
    barrier();
  }

  void barrier() {
    b_.CreateCall(module_->getFunction("cucpu.barrier.sync"),
                  {b_.getInt32(0), b_.getInt32(0), b_.getTrue()});
  }

  void statements(unsigned depth, unsigned loops, bool together) {
    unsigned n = 1 + pick(4);
    for (unsigned i = 0; i < n; ++i) {
      switch (pick(depth == 0 ? 4 : 9)) {
        case 0:
        case 1:
          assign();
          break;
        case 2:
          output(pick(kOutPerThread), expression(1));
          break;
        case 3:
          if (pick(2)) {
            Value* at = b_.CreateAnd(expression(1), kCounters - 1);
            b_.CreateAtomicRMW(
                AtomicRMWInst::Add,
                b_.CreateGEP(b_.getInt32Ty(), counters_, b_.CreateZExt(at, b_.getInt64Ty())),
                b_.CreateAnd(expression(1), 7), MaybeAlign{4}, AtomicOrdering::Monotonic);
          } else if (together && (left_ || pick(2))) {
            exchange();
          } else if (together) {
            alone();
          } else {
            assign();
          }
          break;
        case 4:
        case 5:
          branch(depth, loops, together);
          break;
        case 6:
        case 7:
          loop(depth, loops, together);
          break;
        default:
          if (pick(4) == 0)
            leave();
          else
            assign();
      }
    }
  }

  void leave() {
    left_ = true;
    BasicBlock *out = block("leave"), *on = block("stay");
    b_.CreateCondBr(condition(1), out, on);
    b_.SetInsertPoint(out);
    b_.CreateRetVoid();
    b_.SetInsertPoint(on);
  }

  void branch(unsigned depth, unsigned loops, bool together) {
    bool uniform = pick(3) == 0;
    Value* c = uniform ? b_.CreateICmpULT(ctaid_, b_.getInt32(pick(3))) : condition(1);
    BasicBlock *yes = block("then"), *no = pick(2) ? block("else") : nullptr, *join = block("join");
    b_.CreateCondBr(c, yes, no ? no : join);
    b_.SetInsertPoint(yes);
    statements(depth - 1, loops, together && uniform);
    b_.CreateBr(join);
    if (no) {
      b_.SetInsertPoint(no);
      statements(depth - 1, loops, together && uniform);
      b_.CreateBr(join);
    }
    b_.SetInsertPoint(join);
  }

  // The counter is a variable of its own, so loops end whatever their bodies do.
  void loop(unsigned depth, unsigned loops, bool together) {
    if (loops >= 2) return assign();
    bool uniform = pick(2) == 0;
    Value* limit = uniform
                       ? b_.CreateAdd(b_.CreateAnd(pick(2) ? ctaid_ : number_, 3), b_.getInt32(1))
                       : b_.CreateAnd(expression(1), 7);
    IRBuilder<> entry{&function_->getEntryBlock(), function_->getEntryBlock().begin()};
    AllocaInst* counter = entry.CreateAlloca(b_.getInt32Ty(), nullptr, "counter");
    b_.CreateStore(b_.getInt32(0), counter);
    BasicBlock *head = block("loop"), *body = block("body"), *latch = block("latch"),
               *out = block("out");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    b_.CreateCondBr(b_.CreateICmpULT(b_.CreateLoad(b_.getInt32Ty(), counter), limit), body, out);
    b_.SetInsertPoint(body);
    b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), counter), b_.getInt32(1)), counter);
    variables_.push_back(counter);
    statements(depth - 1, loops + 1, together && uniform);
    if (!(together && uniform) && pick(2)) {
      BasicBlock* on = block("no.break");
      b_.CreateCondBr(condition(1), pick(2) ? out : latch, on);
      b_.SetInsertPoint(on);
      statements(depth - 1, loops + 1, false);
    }
    variables_.pop_back();
    b_.CreateBr(latch);
    b_.SetInsertPoint(latch);
    b_.CreateBr(head);
    b_.SetInsertPoint(out);
  }

  bool columns_;       // outputs of neighbouring threads lie side by side
  bool left_ = false;  // some threads may be gone
  std::mt19937 random_;
  LLVMContext& context_;
  IRBuilder<> b_;
  Module* module_ = nullptr;
  Function* function_ = nullptr;
  std::vector<Value*> variables_, reals_;
  Value *in_ = nullptr, *out_ = nullptr, *counters_ = nullptr, *number_ = nullptr,
        *shared_ = nullptr, *tid_ = nullptr, *tidy_ = nullptr, *ctaid_ = nullptr,
        *linear_ = nullptr, *global_ = nullptr;
};

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

// SIMT_SEED and SIMT_PROGRAMS choose other programs: SIMT_SEED=17 SIMT_PROGRAMS=1 repeats one of
// them. In parts, so that they run side by side.
constexpr unsigned kParts = 3;
class SimtRandom : public testing::TestWithParam<unsigned> {};

TEST_P(SimtRandom, ProgramsGiveTheSameMemoryForEveryWidth) {
  unsigned first = from_environment("SIMT_SEED", 1),
           programs = from_environment("SIMT_PROGRAMS", 30);
  unsigned refused = 0;
  for (unsigned seed = first + GetParam(); seed < first + programs; seed += kParts) {
    Build build = [seed](LLVMContext& context) { return Program{context, seed}.make(); };
    if (std::getenv("SIMT_PRINT")) {
      LLVMContext context;
      build(context)->print(errs(), nullptr);
    }
    std::mt19937 random{seed};
    Work work;
    static constexpr cucpu::Dim3 kBlocks[] = {{64, 1, 1}, {128, 1, 1}, {50, 1, 1}, {16, 4, 1},
                                              {32, 3, 1}, {10, 5, 1},  {7, 1, 1}};
    work.block = kBlocks[random() % 7];
    work.grid = {3, 1, 1};
    work.as_on_x86 = seed % 3 == 0;
    std::vector<std::uint32_t> in(kIn);
    for (auto& word : in) word = static_cast<std::uint32_t>(random());
    work.buffers = {in, std::vector<std::uint32_t>(512 * kOutPerThread),
                    std::vector<std::uint32_t>(kCounters)};
    work.numbers = {static_cast<std::uint32_t>(random())};
    SCOPED_TRACE("seed " + std::to_string(seed) + ", block " + std::to_string(work.block.x) + "x" +
                 std::to_string(work.block.y));
    auto report = compare(build, work, {8, 4, 16, 32}, "barrier in divergent control flow");
    if (!report.refusal.empty()) ++refused;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LE(refused, programs / kParts / 5 + 2);
}

INSTANTIATE_TEST_SUITE_P(Part, SimtRandom, testing::Range(0U, kParts));

}  // namespace
}  // namespace simt_test
