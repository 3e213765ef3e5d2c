// SPDX-License-Identifier: Apache-2.0
// tests/cpp/simt/harness.cpp
#include "harness.hpp"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "cpu/engine/nan/canonical_select.hpp"
#include "cpu/engine/nan/min_max.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/engine/run/block_iteration.hpp"
#include "cpu/engine/simt/analyses.hpp"
#include "cpu/engine/simt/lower_gathers.hpp"
#include "cpu/engine/simt/widen_masks.hpp"

namespace simt_test {

using namespace llvm;
using namespace llvm::orc;

const char* const kMarkers = R"(
declare i32 @cucpu.sreg.tid.x() memory(none) nounwind
declare i32 @cucpu.sreg.tid.y() memory(none) nounwind
declare i32 @cucpu.sreg.tid.z() memory(none) nounwind
declare i32 @cucpu.sreg.ntid.x() memory(none) nounwind
declare i32 @cucpu.sreg.ctaid.x() memory(none) nounwind
declare i32 @cucpu.sreg.nctaid.x() memory(none) nounwind
declare i32 @cucpu.sreg.laneid() memory(none) nounwind
declare ptr @cucpu.params() memory(none) nounwind
declare ptr @cucpu.shared() memory(none) nounwind
declare void @cucpu.barrier.sync(i32, i32, i1) convergent nounwind
declare i32 @cucpu.barrier.red.popc(i32, i32, i1, i1) convergent nounwind
declare {i32, i1} @cucpu.shfl.up(i32, i32, i32, i32) convergent nounwind
declare {i32, i1} @cucpu.shfl.down(i32, i32, i32, i32) convergent nounwind
declare {i32, i1} @cucpu.shfl.bfly(i32, i32, i32, i32) convergent nounwind
declare {i32, i1} @cucpu.shfl.idx(i32, i32, i32, i32) convergent nounwind
declare i32 @cucpu.vote.ballot(i1, i32) convergent nounwind
declare i1 @cucpu.vote.all(i1, i32) convergent nounwind
declare i1 @cucpu.vote.any(i1, i32) convergent nounwind
declare i32 @cucpu.match.any.i32(i32, i32) convergent nounwind
declare i32 @cucpu.redux.add(i32, i32) convergent nounwind
declare i32 @cucpu.redux.smin(i32, i32) convergent nounwind
declare i32 @cucpu.activemask() convergent nounwind
declare void @cucpu.exit() convergent nounwind
)";

namespace {

// How the reference sees the markers that return pairs.
const char* const kReferenceGlue = R"(
declare i64 @reference.shuffle(i32, i32, i32, i32, i32)
define {i32, i1} @reference.pair(i32 %kind, i32 %a, i32 %b, i32 %c, i32 %m) {
  %w = call i64 @reference.shuffle(i32 %kind, i32 %a, i32 %b, i32 %c, i32 %m)
  %v = trunc i64 %w to i32
  %h = lshr i64 %w, 32
  %p = trunc i64 %h to i1
  %r0 = insertvalue {i32, i1} poison, i32 %v, 0
  %r1 = insertvalue {i32, i1} %r0, i1 %p, 1
  ret {i32, i1} %r1
}
define {i32, i1} @cucpu.shfl.up(i32 %a, i32 %b, i32 %c, i32 %m) {
  %r = call {i32, i1} @reference.pair(i32 0, i32 %a, i32 %b, i32 %c, i32 %m)
  ret {i32, i1} %r
}
define {i32, i1} @cucpu.shfl.down(i32 %a, i32 %b, i32 %c, i32 %m) {
  %r = call {i32, i1} @reference.pair(i32 1, i32 %a, i32 %b, i32 %c, i32 %m)
  ret {i32, i1} %r
}
define {i32, i1} @cucpu.shfl.bfly(i32 %a, i32 %b, i32 %c, i32 %m) {
  %r = call {i32, i1} @reference.pair(i32 2, i32 %a, i32 %b, i32 %c, i32 %m)
  ret {i32, i1} %r
}
define {i32, i1} @cucpu.shfl.idx(i32 %a, i32 %b, i32 %c, i32 %m) {
  %r = call {i32, i1} @reference.pair(i32 3, i32 %a, i32 %b, i32 %c, i32 %m)
  ret {i32, i1} %r
}
)";

struct Exited {};

// One device thread of the reference, on a host thread of its own.
struct Block {
  explicit Block(unsigned threads) : all{threads}, words(threads), counts{} {
    for (unsigned first = 0; first < threads; first += 32)
      warps.push_back(std::make_unique<std::barrier<>>(std::min(32u, threads - first)));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<std::uint64_t> words;
  std::array<std::atomic<int>, 2> counts;
};

struct Thread {
  std::uint32_t tid[3], linear, ntid[3], ctaid, nctaid, threads, reductions;
  const std::byte* params;
  std::byte* shared;
  Block* block;
};

thread_local Thread self;

// All lanes of the warp show a word and look at each other's.
template <typename F>
auto exchange(std::uint64_t word, F&& look) {
  auto& warp = *self.block->warps[self.linear / 32];
  self.block->words[self.linear] = word;
  warp.arrive_and_wait();
  const std::uint64_t* words = self.block->words.data() + self.linear / 32 * 32;
  auto result = look(words, std::min(32u, self.threads - self.linear / 32 * 32));
  warp.arrive_and_wait();
  return result;
}

std::uint64_t shuffle(std::uint32_t kind, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                      std::uint32_t) {
  return exchange(a, [&](const std::uint64_t* words, unsigned) {
    std::uint32_t lane = self.linear & 31, clamp = c & 31, segment = c >> 8 & 31, from = lane;
    std::uint32_t low = lane & segment, high = low | (clamp & ~segment);
    bool valid = false;
    b &= 31;
    if (kind == 0) valid = static_cast<int>(from = lane - b) >= static_cast<int>(high);
    if (kind == 1) valid = (from = lane + b) <= high;
    if (kind == 2) valid = (from = lane ^ b) <= high;
    if (kind == 3) valid = (from = low | (b & ~segment)) <= high;
    return (words[valid ? from : lane] & 0xffffffff) | std::uint64_t{valid} << 32;
  });
}

std::uint32_t ballot(bool p, std::uint32_t mask) {
  return exchange(p, [&](const std::uint64_t* words, unsigned lanes) {
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < lanes; ++i) bits |= static_cast<std::uint32_t>(words[i]) << i;
    return bits & mask;
  });
}

std::uint32_t match_any(std::uint32_t a, std::uint32_t mask) {
  return exchange(a, [&](const std::uint64_t* words, unsigned lanes) {
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < lanes; ++i) bits |= std::uint32_t{words[i] == a} << i;
    return bits & mask;
  });
}

std::uint32_t redux_add(std::uint32_t a, std::uint32_t mask) {
  return exchange(a, [&](const std::uint64_t* words, unsigned lanes) {
    std::uint32_t sum = 0;
    for (unsigned i = 0; i < lanes; ++i)
      sum += mask >> i & 1 ? static_cast<std::uint32_t>(words[i]) : 0;
    return sum;
  });
}

std::int32_t redux_smin(std::int32_t a, std::uint32_t mask) {
  return exchange(static_cast<std::uint32_t>(a), [&](const std::uint64_t* words, unsigned lanes) {
    std::int32_t best = INT32_MAX;
    for (unsigned i = 0; i < lanes; ++i)
      if (mask >> i & 1) best = std::min(best, static_cast<std::int32_t>(words[i]));
    return best;
  });
}

std::uint32_t count_threads(std::uint32_t, std::uint32_t, bool, bool p) {
  std::atomic<int>& count = self.block->counts[self.reductions++ % 2];
  count += p;
  self.block->all.arrive_and_wait();
  int result = count;
  self.block->all.arrive_and_wait();
  count = 0;
  self.block->all.arrive_and_wait();
  return static_cast<std::uint32_t>(result);
}

std::unique_ptr<LLJIT> make_jit() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  auto machine = cantFail(JITTargetMachineBuilder::detectHost());
#ifdef __aarch64__
  machine.addFeatures({"-sve"});
#endif
  return cantFail(LLJITBuilder{}.setJITTargetMachineBuilder(std::move(machine)).create());
}

void define_symbols(LLJIT& jit, std::initializer_list<std::pair<const char*, void*>> symbols) {
  SymbolMap map;
  for (auto [name, address] : symbols)
    map[jit.mangleAndIntern(name)] = {ExecutorAddr::fromPtr(address),
                                      JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  cantFail(jit.getMainJITDylib().define(absoluteSymbols(std::move(map))));
  // Whatever else: the C library's mathematics and memory functions.
  jit.getMainJITDylib().addGenerator(cantFail(
      DynamicLibrarySearchGenerator::GetForCurrentProcess(jit.getDataLayout().getGlobalPrefix())));
}

std::vector<std::byte> pack(Work& work) {
  std::vector<std::byte> params(work.buffers.size() * 8 + work.numbers.size() * 4 + 64);
  std::size_t at = 0;
  for (auto& buffer : work.buffers) {
    void* address = buffer.data();
    std::memcpy(params.data() + at, &address, 8);
    at += 8;
  }
  for (std::uint32_t number : work.numbers) {
    std::memcpy(params.data() + at, &number, 4);
    at += 4;
  }
  return params;
}

constexpr std::size_t kShared = 16 * 1024;

std::vector<std::byte> shared_memory() {
  return std::vector<std::byte>(kShared + 2 * cucpu::kSharedPadding);
}

[[noreturn]] void reference_exit() { throw Exited{}; }

}  // namespace

Build parse(const std::string& text) {
  return [text](LLVMContext& context) {
    SMDiagnostic error;
    auto module = parseAssemblyString(std::string{kMarkers} + text, error, context);
    if (!module) {
      std::string why;
      raw_string_ostream out{why};
      error.print("test", out);
      throw std::runtime_error{out.str()};
    }
    return module;
  };
}

// C++ reads a whole byte of a bool; x86-64 leaves all but the lowest bit of an i1 undefined unless
// it is asked to widen it.
void widen_flags(Module& module) {
  for (Function& f : module)
    for (Argument& argument : f.args()) {
      if (!argument.getType()->isIntegerTy(1)) continue;
      f.addParamAttr(argument.getArgNo(), Attribute::ZExt);
      for (User* user : f.users())
        if (auto* call = dyn_cast<CallBase>(user); call && call->getCalledFunction() == &f)
          call->addParamAttr(argument.getArgNo(), Attribute::ZExt);
    }
}

void run_reference(const Build& build, Work& work) {
  auto jit = make_jit();
  auto context = std::make_unique<LLVMContext>();
  auto module = build(*context);
  SMDiagnostic error;
  auto glue = parseAssemblyString(kReferenceGlue, error, *context);
  Linker::linkModules(*module, std::move(glue));
  module->setDataLayout(jit->getDataLayout());
  widen_flags(*module);
  for (Function& f : *module) cucpu::lower_min_max(f, nullptr);
  // An exit is a return here: thread code has no frames to unwind.
  for (Function& f : *module)
    for (BasicBlock& block : f)
      if (auto* end = dyn_cast<UnreachableInst>(block.getTerminator()); end && end->getPrevNode()) {
        auto* call = dyn_cast<CallInst>(end->getPrevNode());
        if (!call || !call->getCalledFunction() ||
            call->getCalledFunction()->getName() != "cucpu.exit")
          continue;
        call->eraseFromParent();
        ReturnInst::Create(*context, nullptr, end->getIterator());
        end->eraseFromParent();
      }
  define_symbols(
      *jit,
      {
          {"cucpu.sreg.tid.x", reinterpret_cast<void*>(+[] { return self.tid[0]; })},
          {"cucpu.sreg.tid.y", reinterpret_cast<void*>(+[] { return self.tid[1]; })},
          {"cucpu.sreg.tid.z", reinterpret_cast<void*>(+[] { return self.tid[2]; })},
          {"cucpu.sreg.ntid.x", reinterpret_cast<void*>(+[] { return self.ntid[0]; })},
          {"cucpu.sreg.ctaid.x", reinterpret_cast<void*>(+[] { return self.ctaid; })},
          {"cucpu.sreg.nctaid.x", reinterpret_cast<void*>(+[] { return self.nctaid; })},
          {"cucpu.sreg.laneid", reinterpret_cast<void*>(+[] { return self.linear & 31; })},
          {"cucpu.params", reinterpret_cast<void*>(+[] { return self.params; })},
          {"cucpu.shared", reinterpret_cast<void*>(+[] { return self.shared; })},
          {"cucpu.barrier.sync", reinterpret_cast<void*>(+[](std::uint32_t, std::uint32_t, bool) {
             self.block->all.arrive_and_wait();
           })},
          {"cucpu.barrier.red.popc", reinterpret_cast<void*>(&count_threads)},
          {"reference.shuffle", reinterpret_cast<void*>(&shuffle)},
          {"cucpu.vote.ballot", reinterpret_cast<void*>(&ballot)},
          {"cucpu.vote.any",
           reinterpret_cast<void*>(+[](bool p, std::uint32_t m) { return ballot(p, m) != 0; })},
          {"cucpu.vote.all",
           reinterpret_cast<void*>(+[](bool p, std::uint32_t m) { return ballot(!p, m) == 0; })},
          {"cucpu.match.any.i32", reinterpret_cast<void*>(&match_any)},
          {"cucpu.redux.add", reinterpret_cast<void*>(&redux_add)},
          {"cucpu.redux.smin", reinterpret_cast<void*>(&redux_smin)},
          {"cucpu.activemask", reinterpret_cast<void*>(+[] { return ~0u; })},
          {"cucpu.exit", reinterpret_cast<void*>(&reference_exit)},
      });
  bool meets = module->getFunction("cucpu.barrier.sync")->getNumUses() > 0 ||
               module->getFunction("cucpu.barrier.red.popc")->getNumUses() > 0;
  for (Function& f : *module)
    if (f.getName().starts_with("cucpu.shfl") || f.getName().starts_with("cucpu.vote") ||
        f.getName().starts_with("cucpu.match") || f.getName().starts_with("cucpu.redux"))
      meets |= f.getNumUses() > 0;
  cantFail(jit->addIRModule(ThreadSafeModule{std::move(module), std::move(context)}));
  auto* kernel = cantFail(jit->lookup("kernel")).toPtr<void()>();
  auto params = pack(work);
  unsigned threads = static_cast<unsigned>(work.block.volume());
  std::vector<std::byte> shared;
  for (std::uint32_t index = 0; index < work.grid.x; ++index) {
    if (index < 2) shared = shared_memory();  // as for block code: later blocks find what was left
    Block block{threads};
    std::vector<std::thread> running;
    for (unsigned i = 0; i < threads; ++i) {
      auto one = [&, i] {
        self = {
            {i % work.block.x, i / work.block.x % work.block.y, i / work.block.x / work.block.y},
            i,
            {work.block.x, work.block.y, work.block.z},
            index,
            work.grid.x,
            threads,
            0,
            params.data(),
            shared.data() + cucpu::kSharedPadding,
            &block};
        kernel();
        block.all.arrive_and_drop();
        block.warps[i / 32]->arrive_and_drop();
      };
      if (meets)
        running.emplace_back(one);
      else
        one();
    }
    for (std::thread& thread : running) thread.join();
  }
}

namespace {
/// What block code does with values that were never made (a slot that is read where nothing was put
/// into it): LLVM may take such a branch either way, so that the result may be right by chance.
std::string unmade_values(Module& module, const Function& made) {
  auto copy = CloneModule(module);
  cucpu::simt::Analyses analyses;
  FunctionPassManager passes;
  passes.addPass(SROAPass{SROAOptions::PreserveCFG});
  passes.addPass(EarlyCSEPass{});
  Function& block = *copy->getFunction(made.getName());
  passes.run(block, analyses.functions);
  removeUnreachableBlocks(block);
  std::string found;
  raw_string_ostream out{found};
  for (Instruction& inst : instructions(block)) {
    const Value* decides = getLoadStorePointerOperand(&inst);
    if (auto* branch = dyn_cast<BranchInst>(&inst); branch && branch->isConditional())
      decides = branch->getCondition();
    if (decides && isa<UndefValue>(decides))
      out << inst << " in " << inst.getParent()->getName() << '\n';
  }
  return found;
}
}  // namespace

cucpu::simt::Report run_vectorized(const Build& build, Work& work, unsigned width,
                                   std::string* code) {
  auto jit = make_jit();
  auto context = std::make_unique<LLVMContext>();
  auto module = build(*context);
  module->setDataLayout(jit->getDataLayout());
  module->setTargetTriple(jit->getTargetTriple().str());
  cucpu::simt::Options options;
  options.block = work.block;
  options.width = width;
  options.columns = work.as_on_x86;
  auto made = cucpu::pipeline::vectorize(*module->getFunction("kernel"), options);
  if (std::getenv("SIMT_CODE")) module->print(errs(), nullptr);
  if (!made.function) return made.report;
  std::string broken;
  raw_string_ostream out{broken};
  if (verifyModule(*module, &out)) {
    ADD_FAILURE() << "invalid block code: " << out.str();
    made.report.refusal = "invalid";
    return made.report;
  }
  EXPECT_EQ(unmade_values(*module, *made.function), "");
  module->getFunction("kernel")->eraseFromParent();
  made.function->setName("block");
  auto builder = cantFail(JITTargetMachineBuilder::detectHost());
#ifdef __aarch64__
  builder.addFeatures({"-sve"});
#endif
  auto machine = cantFail(builder.createTargetMachine());
  cucpu::pipeline::optimize_block(*made.function, machine.get());
  cucpu::lower_min_max(*made.function, machine.get());
  cucpu::fold_canonical_selects(*made.function, machine.get());
  cucpu::simt::lower_gathers(*made.function, {});
  const cucpu::simt::MaskForm avx2{.has_sign_bits = true, .most_lanes = 8};
  cucpu::simt::widen_masks(*made.function,
                           work.as_on_x86 ? avx2 : cucpu::simt::MaskForm::of(machine.get()));
  EXPECT_FALSE(verifyModule(*module, &errs()));
  if (code) {
    raw_string_ostream text{*code};
    module->print(text, nullptr);
  }
  using cucpu::BlockContext;
  define_symbols(
      *jit, {{"cucpu_rt_trap", reinterpret_cast<void*>(+[](std::uint32_t) { std::abort(); })},
             {"cucpu_rt_next_block",
              reinterpret_cast<void*>(+[](BlockContext* at) { return cucpu::next_block(*at); })},
             {"cucpu_rt_next_strip",
              reinterpret_cast<void*>(+[](BlockContext* at, std::uint32_t end, std::uint32_t most) {
                return cucpu::next_strip(*at, end, most);
              })}});
  cantFail(jit->addIRModule(ThreadSafeModule{std::move(module), std::move(context)}));
  auto* block = cantFail(jit->lookup("block")).toPtr<void(cucpu::BlockContext*)>();
  auto params = pack(work);
  std::vector<std::byte> scratch(made.scratch_bytes + 64);
  // The first block in a call of its own, the others in one call that iterates over blocks.
  for (std::uint32_t index = 0; index < std::min(work.grid.x, 2u); ++index) {
    auto shared = shared_memory();
    cucpu::BlockContext at{};
    if (index == 1) at.blocks_left = work.grid.x - 2;
    at.grid[0] = work.grid.x;
    at.grid[1] = at.grid[2] = 1;
    at.block[0] = work.block.x;
    at.block[1] = work.block.y;
    at.block[2] = work.block.z;
    at.index[0] = index;
    at.params = params.data();
    at.shared = shared.data() + cucpu::kSharedPadding;
    at.scratch = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
    std::memset(scratch.data(), 0x5a, scratch.size());
    block(&at);
    EXPECT_EQ(at.index[0], index == 0 ? 0 : work.grid.x - 1) << "where the caller goes on from";
    EXPECT_EQ(at.blocks_left, 0u);
  }
  return made.report;
}

cucpu::simt::Report compare(const Build& build, const Work& work, std::vector<unsigned> widths,
                            const std::string& refusal) {
  Work expected = work;
  run_reference(build, expected);
  cucpu::simt::Report report;
  for (unsigned width : widths) {
    Work found = work;
    report = run_vectorized(build, found, width);
    if (!report.refusal.empty()) {
      EXPECT_EQ(report.refusal, refusal) << "W=" << width;
      return report;
    }
    for (std::size_t b = 0; b < work.buffers.size(); ++b)
      for (std::size_t i = 0; i < work.buffers[b].size(); ++i)
        if (expected.buffers[b][i] != found.buffers[b][i]) {
          ADD_FAILURE() << "W=" << width << " (took " << report.width << "): buffer " << b
                        << " word " << i << ": expected " << expected.buffers[b][i] << ", got "
                        << found.buffers[b][i];
          return report;
        }
  }
  return report;
}

}  // namespace simt_test
