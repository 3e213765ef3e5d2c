// cpu/engine/simt/regions.cpp: the frame of block code: regions between barriers, loops over lane
// groups, and values that live across regions.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/Alignment.h>

#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kDone = 0xffff;
constexpr unsigned kRematerialisationDepth = 8;

enum GroupMode : std::uint32_t { kFull = 0, kMasked = 1, kDeoptimised = 2 };

}  // namespace

void Emitter::find_regions() {
  auto add = [&](BasicBlock* start) {
    auto region = std::make_unique<Region>();
    region->id = static_cast<unsigned>(regions_.size());
    region->start = start;
    regions_.push_back(std::move(region));
  };
  add(plan_.flow.order.front());
  for (BasicBlock* block : plan_.flow.order)
    if (barrier_at_end(*block)) add(block->getSingleSuccessor());
  for (auto& region : regions_) {
    SmallVector<BasicBlock*> work{region->start};
    while (!work.empty()) {
      BasicBlock* block = work.pop_back_val();
      if (!region->blocks.insert(block).second) continue;
      if (barrier_at_end(*block)) {
        for (auto& other : regions_)
          if (other->start == block->getSingleSuccessor()) region->exits.push_back(other.get());
        continue;
      }
      if (isa<ReturnInst>(block->getTerminator())) region->ends = true;
      append_range(work, successors(block));
    }
  }
}

Function* Emitter::run() {
  Type* pointer = PointerType::getUnqual(context_);
  function_ = Function::Create(FunctionType::get(Type::getVoidTy(context_), {pointer}, false),
                               GlobalValue::ExternalLinkage, thread_.getName() + ".block", module_);
  function_->addFnAttr(Attribute::NoUnwind);
  function_->addFnAttr(
      Attribute::NullPointerIsValid);  // LLVM must keep an access to address 0, which is a fault
  function_->setSubprogram(thread_.getSubprogram());
  for (const char* name : {"target-cpu", "target-features"})
    if (thread_.hasFnAttribute(name)) function_->addFnAttr(thread_.getFnAttribute(name));
  block_context_ = function_->getArg(0);
  function_->getArg(0)->setName("context");
  function_->addParamAttr(0,
                          Attribute::getWithDereferenceableBytes(context_, sizeof(BlockContext)));
  function_->addParamAttr(0, Attribute::getWithAlignment(context_, Align{8}));
  BasicBlock* entry = new_block("entry");
  entry_.SetInsertPoint(entry);
  find_regions();
  masks_are_rare_ = plan_.lanes.threads() % width_ == 0;
  for (BasicBlock* block : plan_.flow.order)
    masks_are_rare_ &= !plan_.full.diverges(block) || ends_the_grid(block);
  masks_are_rare_ |= plan_.baseline;
  unsigned groups = plan_.lanes.groups();
  group_ = temporary(entry_.getInt32Ty(), "group");
  deoptimised_ = temporary(entry_.getInt1Ty(), "deoptimised");
  exit_state_ = temporary(entry_.getInt32Ty(), "exit.state");
  done_ = new_block("done");
  for (BasicBlock* block : plan_.flow.order)
    if (barrier_at_end(*block) && !plan_.linear.pending(block).empty())
      masks_cross_barriers_ = true;
  if (!plan_.guards.empty()) masks_cross_barriers_ = true;
  if (plan_.lanes.threads() % width_ != 0) masks_cross_barriers_ = true;
  if (regions_.size() == 1) masks_cross_barriers_ = false;
  auto reserve = [&](std::size_t bytes) {
    std::size_t at = alignTo(scratch_bytes_, 64);
    scratch_bytes_ = at + bytes;
    return at;
  };
  Value* scratch = context_field(pointer, offsetof(BlockContext, scratch), "scratch");
  registers_["scratch"] = scratch;
  auto scratch_array = [&](std::size_t element) {
    return entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), scratch,
                                             reserve(element * groups));
  };
  if (masks_cross_barriers_) {
    modes_ = scratch_array(4);
    masks_ = scratch_array(4);
  }
  for (auto& region : regions_) {
    region->enter = new_block("region" + Twine{region->id} + ".enter");
    region->head = new_block("region" + Twine{region->id});
    region->next = new_block("region" + Twine{region->id} + ".next");
    region->after = new_block("region" + Twine{region->id} + ".after");
  }
  if (!plan_.groups_agree) {
    states_ = scratch_array(4);
    next_states_ = scratch_array(4);
    entry_.CreateMemSet(states_, entry_.getInt8(0), groups * 4, Align{4});
    entry_.CreateMemSet(next_states_, entry_.getInt8(0xff), groups * 4, Align{4});
  }
  says_group_ = needs_group();
  if (can_run_across()) begin_strip();
  for (auto& region : regions_) {
    emit_region(*region);
    if (!report_.refusal.empty()) break;
  }
  if (report_.refusal.empty()) {
    if (strip_)
      finish_strip(*regions_.front());
    else
      for (auto& region : regions_) finish_region(*region);
    if (modes_ && modes_before_) start_modes();
    entry_.CreateStore(entry_.getInt32(0), group_);
    entry_.CreateBr(strip_ ? strip_->rows : regions_.front()->enter);
    run_on();
    // A group starts without pending lanes and without values.
    for (auto& region : regions_) {
      b_.SetInsertPoint(region->reset_point);
      for (auto& [key, alloca] : slots_)
        b_.CreateStore(PoisonValue::get(alloca->getAllocatedType()), alloca);
      for (auto& [block, alloca] : mask_slots_)
        b_.CreateStore(Constant::getNullValue(alloca->getAllocatedType()), alloca);
    }
  }
  report_.scratch_bytes = scratch_bytes_;
  report_.regions = static_cast<unsigned>(regions_.size());
  if (!report_.refusal.empty()) {
    function_->deleteBody();
    function_->eraseFromParent();
    return nullptr;
  }
  return function_;
}

// The modes of all groups are initialized before the first region: groups that do not run a region
// do not store theirs.
void Emitter::start_modes() {
  const unsigned rest = plan_.lanes.threads() % width_, groups = plan_.lanes.groups();
  entry_.CreateMemSet(modes_, entry_.getInt8(kFull), groups * 4, Align{4});
  if (rest == 0) return;
  const auto last = [&](Value* array) {
    return entry_.CreateConstInBoundsGEP1_32(entry_.getInt32Ty(), array, groups - 1);
  };
  entry_.CreateStore(entry_.getInt32(kMasked), last(modes_));
  entry_.CreateStore(entry_.getInt32((1u << rest) - 1), last(masks_));
}

// Code before each block, or strip of blocks, is in the entry block after its allocas. At the end
// control returns there for the next block in linear order, as long as the caller has more. A
// routine computes the next one (run/next_blocks.hpp), because compiling that code with every
// kernel took a quarter of the compile time of a short kernel.
void Emitter::run_on() {
  BasicBlock* entry = &function_->getEntryBlock();
  BasicBlock::iterator first = entry->begin();
  while (isa<AllocaInst>(first)) ++first;
  BasicBlock* again = entry->splitBasicBlock(first, "block");
  b_.SetInsertPoint(entry->getTerminator());
  b_.CreateStore(b_.getInt32(0), group_);
  set_current(nullptr);
  if (strip_) {
    b_.CreateStore(b_.getInt32(0), strip_->before);
    ReturnInst::Create(context_, strip_->none);
    b_.SetInsertPoint(done_);
    b_.CreateStore(strip_->end, strip_->before);
    leave_as_it_is(b_.CreateBr(again), false);
    return;
  }
  b_.SetInsertPoint(done_);
  CallInst* more = b_.CreateCall(routine("cucpu_rt_next_block", b_.getInt1Ty(), {b_.getPtrTy()}),
                                 {block_context_});
  BasicBlock* end = new_block("end");
  b_.CreateCondBr(more, again, end, MDBuilder{context_}.createBranchWeights(63, 1));
  ReturnInst::Create(context_, end);
}

/// It accesses only the context and memory that generated code does not access.
FunctionCallee Emitter::routine(StringRef name, Type* result, ArrayRef<Type*> arguments) {
  FunctionCallee callee =
      module_.getOrInsertFunction(name, FunctionType::get(result, arguments, false));
  if (auto* function = dyn_cast<Function>(callee.getCallee())) {
    function->setDoesNotThrow();
    function->setMemoryEffects(MemoryEffects::inaccessibleOrArgMemOnly());
    function->addFnAttr(Attribute::NoDuplicate);
    function->addParamAttr(0, Attribute::NoCapture);
    if (result->isIntegerTy(1)) function->addRetAttr(Attribute::ZExt);
  }
  return callee;
}

/// The loop of this back edge must not be unrolled: loop passes are left out where there are no
/// other loops, and strips, rows and groups are short.
void Emitter::leave_as_it_is(BranchInst* latch, bool is_short) {
  const auto says = [&](const char* what) {
    return MDNode::get(context_, MDString::get(context_, what));
  };
  SmallVector<Metadata*, 3> words{nullptr, says("llvm.loop.unroll.disable")};
  if (is_short) words.push_back(says(kShortLoop));
  MDNode* kind = MDNode::getDistinct(context_, words);
  kind->replaceOperandWith(0, kind);
  latch->setMetadata(LLVMContext::MD_loop, kind);
}

// The blocks of a strip: 256 threads in a row, so that stores in columns still fit into a cache.
// Blocks of one row need no strips, only one call for all.
unsigned Emitter::strip_length() const {
  constexpr unsigned kThreads = 256, kBlocks = 64;
  const std::uint32_t row = plan_.lanes.block.x;
  return row == plan_.lanes.threads() ? kBlocks : kThreads / row;
}

// Only the order of independent threads changes.
bool Emitter::can_run_across() const {
  if (says_group_ || regions_.size() != 1 || plan_.lanes.block.x % width_ != 0 ||
      strip_length() < 2)
    return false;
  return none_of(instructions(thread_), [](Instruction& inst) {
    StringRef name = marker_name(&inst);
    return name == "shared" || name.starts_with("sreg.cluster") ||
           name.starts_with("sreg.ncluster");
  });
}

void Emitter::begin_strip() {
  Type* number = entry_.getInt32Ty();
  AllocaInst* before = temporary(number, "before");
  CallInst* blocks = entry_.CreateCall(
      routine("cucpu_rt_next_strip", number, {entry_.getPtrTy(), number, number}),
      {block_context_, entry_.CreateLoad(number, before), entry_.getInt32(strip_length())});
  blocks->addRangeRetAttr(ConstantRange{APInt{32, 0}, APInt{32, strip_length() + 1}});
  BasicBlock *none = new_block("end"), *strip = new_block("strip");
  entry_.CreateCondBr(entry_.CreateICmpEQ(blocks, entry_.getInt32(0)), none, strip,
                      MDBuilder{context_}.createBranchWeights(1, 63));
  entry_.SetInsertPoint(strip);
  Value* x = context_field(number, offsetof(BlockContext, index), "first.column");
  Value* end = entry_.CreateAdd(x, blocks, "end.column", true);
  strip_ = Strip{.column = temporary(number, "column"),
                 .row = temporary(number, "row"),
                 .before = before,
                 .first = x,
                 .end = end,
                 .none = none,
                 .rows = new_block("rows"),
                 .blocks = new_block("blocks"),
                 .next_block = new_block("blocks.next"),
                 .next_row = new_block("rows.next")};
  entry_.CreateStore(entry_.getInt32(0), strip_->row);
  b_.SetInsertPoint(strip_->rows);
  b_.CreateStore(strip_->first, strip_->column);
  region_ = regions_.front().get();
  begin_block(Full);
  begin_row();
  b_.SetInsertPoint(strip_->blocks);
  b_.CreateStore(b_.getInt32(0), group_);
  b_.CreateBr(regions_.front()->enter);
}

void Emitter::finish_strip(Region& region) {
  Type* number = b_.getInt32Ty();
  const auto advance = [&](AllocaInst* counter, Value* last, BasicBlock* again, BasicBlock* end) {
    Value* next = b_.CreateAdd(b_.CreateLoad(number, counter), b_.getInt32(1), "", true, true);
    b_.CreateStore(next, counter);
    leave_as_it_is(b_.CreateCondBr(b_.CreateICmpNE(next, last), again, end));
  };
  const std::uint32_t rows = plan_.lanes.threads() / plan_.lanes.block.x;
  const std::uint32_t groups = plan_.lanes.block.x / width_;
  b_.SetInsertPoint(region.next);
  if (groups == 1)
    b_.CreateBr(strip_->next_block);
  else
    advance(group_, b_.getInt32(groups), region.head, strip_->next_block);
  b_.SetInsertPoint(strip_->next_block);
  advance(strip_->column, strip_->end, strip_->blocks, strip_->next_row);
  b_.SetInsertPoint(strip_->next_row);
  if (rows == 1)
    b_.CreateBr(region.after);
  else
    advance(strip_->row, b_.getInt32(rows), strip_->rows, region.after);
  b_.SetInsertPoint(region.after);
  b_.CreateBr(done_);
}

// Fault reports need the running group: running the block again finds the thread among its lanes.
// Where all addresses follow from thread indices, that search works among all threads of the block,
// and the store per group is left out. Between streaming stores it costs far more than one store,
// because processors combine full cache lines only without other stores between them.
bool Emitter::needs_group() const {
  return any_of(instructions(thread_), [&](Instruction& inst) {
    if (Value* pointer = getLoadStorePointerOperand(&inst)) return !plan_.full[pointer].scalar();
    if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst))
      return !plan_.full[inst.getOperand(0)].scalar() || !inst.use_empty();
    StringRef name = marker_name(&inst);
    if (!name.empty()) return name == "yield" || name == "turn" || name.starts_with("cluster");
    return isa<CallInst>(inst) && !isa<IntrinsicInst>(inst);
  });
}

/// Executes the loads at the entry of the region, and resets those that the first group executes.
/// Where groups reach a region one by one, each group executes its own loads, and nothing is kept
/// for the block.
void Emitter::emit_entry_loads(Region& region) {
  b_.SetInsertPoint(region.enter);
  begin_block(Full);
  if (plan_.groups_agree && regions_.size() > 1) {
    const auto add = [&](LoadInst* load) -> BlockLoad& {
      BlockLoad& kept = block_loads_[load];
      if (!kept.value) kept.value = temporary(load->getType(), load->getName() + ".block");
      return kept;
    };
    for (LoadInst* load : plan_.block.block_loads().at_entry(region.start)) {
      rematerialise(load->getPointerOperand());
      Value* value = b_.CreateAlignedLoad(load->getType(), scalar(load->getPointerOperand()),
                                          load->getAlign(), load->getName());
      b_.CreateStore(value, add(load).value);
    }
    for (LoadInst* load : plan_.block.block_loads().by_first_group(region.start)) {
      if (plan_.block[load].kind != Shape::Uniform) continue;
      BlockLoad& kept = add(load);
      if (!kept.made) kept.made = temporary(b_.getInt1Ty(), load->getName() + ".made");
      b_.CreateStore(b_.getFalse(), kept.made);
    }
  }
  b_.CreateBr(region.head);
}

/// The value of a load that is executed once for all groups, or null.
Value* Emitter::block_load(LoadInst& load) {
  const BlockLoad kept = block_loads_.lookup(&load);
  if (!kept.value) return nullptr;
  const BlockLoads& loads = plan_.block.block_loads();
  if (is_contained(loads.at_entry(region_->start), &load))
    return b_.CreateLoad(load.getType(), kept.value);
  if (!kept.made || !is_contained(loads.by_first_group(region_->start), &load)) return nullptr;
  BasicBlock *make = new_block("first.load"), *after = new_block("loaded");
  Value* pointer = scalar(load.getPointerOperand());
  b_.CreateCondBr(b_.CreateLoad(b_.getInt1Ty(), kept.made), after, make);
  b_.SetInsertPoint(make);
  b_.CreateStore(b_.CreateAlignedLoad(load.getType(), pointer, load.getAlign(), load.getName()),
                 kept.value);
  b_.CreateStore(b_.getTrue(), kept.made);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return b_.CreateLoad(load.getType(), kept.value);
}

void Emitter::emit_region(Region& region) {
  region_ = &region;
  emit_entry_loads(region);
  BasicBlock* start = new_block("region" + Twine{region.id} + ".group");
  b_.SetInsertPoint(region.head);
  Value* group = b_.CreateLoad(b_.getInt32Ty(), group_, "group");
  if (!plan_.groups_agree) {
    Value* state = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), states_, group));
    b_.CreateCondBr(b_.CreateICmpEQ(state, b_.getInt32(region.id)), start, region.next);
  } else {
    b_.CreateBr(start);
  }
  b_.SetInsertPoint(start);
  if (says_group_)
    b_.CreateStore(b_.CreateMul(group, b_.getInt32(width_), "first.thread", true, true),
                   b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), block_context_,
                                                 offsetof(BlockContext, current_thread)),
                   true);
  Value* mode = nullptr;
  unsigned rest = plan_.lanes.threads() % width_, full_groups = plan_.lanes.threads() / width_;
  if (modes_ && region.id != 0) {
    mode = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), modes_, group), "mode");
    region.reset_point =
        b_.CreateStore(b_.CreateICmpEQ(mode, b_.getInt32(kDeoptimised)), deoptimised_);
  } else {
    region.reset_point = b_.CreateStore(b_.getFalse(), deoptimised_);
  }
  BasicBlock* full = new_block("enter.full");
  if (mode || rest != 0) {
    BasicBlock* masked = new_block("enter.masked");
    Value* is_full = mode ? b_.CreateICmpEQ(mode, b_.getInt32(kFull))
                          : b_.CreateICmpULT(group, b_.getInt32(full_groups));
    b_.CreateCondBr(is_full, full, masked);
    b_.SetInsertPoint(masked);
    begin_block(Masked);
    if (region.id == 0) {
      Value* lanes = b_.CreateICmpULT(lane_numbers(b_.getInt32Ty()), splat(b_.getInt32(rest)));
      add_to_mask(region.start, lanes);
    } else {
      Value* saved =
          b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), masks_, group), "mask.bits");
      Value* narrow = b_.CreateTrunc(saved, IntegerType::get(context_, width_));
      add_to_mask(region.start, b_.CreateBitCast(narrow, all_lanes()->getType()));
    }
    mask_ = load_mask(region.start);
    enter_region(region, Masked);
    b_.CreateBr(masked_block(region.start));
  } else {
    b_.CreateBr(full);
  }
  b_.SetInsertPoint(full);
  begin_block(Full);
  enter_region(region, Full);
  b_.CreateBr(full_block(region.start));
  while (!region.work.empty() && report_.refusal.empty()) {
    auto [copy, block] = region.work.back();
    region.work.pop_back();
    if (copy == Full)
      emit_full(block);
    else
      emit_masked(block);
  }
}

// The slot of a value that lives across barriers: an element per group in scratch memory.
Value* Emitter::array_element(Value* v, bool vector) {
  Type* type = slot(v, vector)->getAllocatedType();
  std::size_t size = module_.getDataLayout().getTypeAllocSize(type);
  auto [it, fresh] = arrays_.try_emplace({v, vector}, 0);
  if (fresh) {
    it->second = alignTo(scratch_bytes_, 64);
    scratch_bytes_ = it->second + size * plan_.lanes.groups();
  }
  Value* base = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), registers_["scratch"], it->second);
  Value* group = b_.CreateZExt(b_.CreateLoad(b_.getInt32Ty(), group_), b_.getInt64Ty());
  return b_.CreateInBoundsGEP(b_.getInt8Ty(), base, b_.CreateMul(group, b_.getInt64(size)));
}

bool Emitter::rematerialisable(Value* v, unsigned depth) const {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return true;
  if (depth > kRematerialisationDepth || isa<PHINode>(inst)) return false;
  if (isa<AllocaInst>(inst)) return true;
  if (auto* load = dyn_cast<LoadInst>(inst)) {
    if (!is_parameter_load(*load)) return false;
  } else if (auto* call = dyn_cast<CallInst>(inst)) {
    StringRef name = marker_name(call);
    return name.starts_with("sreg.") || name == "params" || name == "shared";
  } else if (inst->mayReadOrWriteMemory() ||
             !isa<BinaryOperator, CastInst, GetElementPtrInst, ICmpInst>(inst)) {
    return false;
  }
  if (!shape(inst).scalar()) return false;
  for (Value* operand : inst->operands())
    if (!rematerialisable(operand, depth + 1)) return false;
  return true;
}

void Emitter::rematerialise(Value* v) {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || scalars_.count(inst) || vectors_.count(inst)) return;
  for (Value* operand : inst->operands()) rematerialise(operand);
  emit(*inst);
}

void Emitter::enter_region(Region& region, Mode mode) {
  if (region.id == 0) return;
  for (Value* v : plan_.flow.live_in(region.start)) {
    auto* inst = cast<Instruction>(v);
    bool vector = !shape(v).scalar();
    bool used = false;
    for (User* user : v->users()) {
      auto* where = cast<Instruction>(user)->getParent();
      used |= region.blocks.contains(where);
      if (auto* phi = dyn_cast<PHINode>(user))
        for (BasicBlock* from : phi->blocks()) used |= region.blocks.contains(from);
    }
    bool rewritten = region.blocks.contains(inst->getParent());
    if (auto* call = dyn_cast<CallInst>(inst); call && accumulators_.count(call)) used = true;
    if (!used && !rewritten && !changes_form(v)) continue;
    if (rematerialisable(v)) {
      rematerialise(v);
    } else if (plan_.groups_agree && plan_.block[v].kind == Shape::Uniform && !vector) {
      auto& [kept, leaving] = block_values_[v];
      if (!kept) {
        kept = temporary(v->getType(), v->getName() + ".kept");
        leaving = temporary(v->getType(), v->getName() + ".leaving");
      }
      store_slot(v, false, b_.CreateLoad(v->getType(), kept));
    } else {
      AllocaInst* into = slot(v, vector);
      b_.CreateStore(b_.CreateLoad(into->getAllocatedType(), array_element(v, vector)), into);
    }
  }
  (void)mode;
}

// The current group stops at a barrier (or returns: null). Its values that are live after the
// barrier are stored.
void Emitter::leave_region(Region* to) {
  b_.CreateStore(b_.getInt32(to ? to->id : kDone), exit_state_);
  if (to) {
    for (Value* v : plan_.flow.live_in(to->start)) {
      auto* inst = cast<Instruction>(v);
      if (rematerialisable(v)) continue;
      // Unless the group entered in another mode than it leaves, the slot holds the value already.
      if (!region_->blocks.contains(inst->getParent()) && !changes_form(v)) continue;
      bool vector = !shape(v).scalar();
      if (plan_.groups_agree && plan_.block[v].kind == Shape::Uniform && !vector) {
        auto& [kept, leaving] = block_values_[v];
        if (!kept) {
          kept = temporary(v->getType(), v->getName() + ".kept");
          leaving = temporary(v->getType(), v->getName() + ".leaving");
        }
        if (auto* call = dyn_cast<CallInst>(inst); call && is_barrier(marker_name(call)))
          continue;  // see finish_region
        b_.CreateStore(scalar(v), leaving);
      } else {
        b_.CreateStore(vector ? to_slot_form(vec(v)) : scalar(v), array_element(v, vector));
      }
    }
    if (modes_) {
      Value* group = b_.CreateLoad(b_.getInt32Ty(), group_);
      Value* mode = b_.getInt32(kFull);
      if (mode_ == Masked) {
        mode = b_.CreateSelect(b_.CreateLoad(b_.getInt1Ty(), deoptimised_),
                               b_.getInt32(kDeoptimised), b_.getInt32(kMasked));
        b_.CreateStore(b_.CreateZExt(bits(mask_), b_.getInt32Ty()),
                       b_.CreateGEP(b_.getInt32Ty(), masks_, group));
      }
      b_.CreateStore(mode, b_.CreateGEP(b_.getInt32Ty(), modes_, group));
    }
  }
  if (!plan_.groups_agree) {
    Value* group = b_.CreateLoad(b_.getInt32Ty(), group_);
    b_.CreateStore(b_.getInt32(to ? to->id : kDone),
                   b_.CreateGEP(b_.getInt32Ty(), next_states_, group));
  }
  b_.CreateBr(region_->next);
}

// After the loop over groups: continue with the region before which the groups stopped.
void Emitter::finish_region(Region& region) {
  unsigned groups = plan_.lanes.groups();
  BasicBlock* after = region.after;
  b_.SetInsertPoint(region.next);
  Value* group =
      b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), group_), b_.getInt32(1), "", true, true);
  b_.CreateStore(group, group_);
  b_.CreateCondBr(b_.CreateICmpNE(group, b_.getInt32(groups)), region.head, after);
  b_.SetInsertPoint(after);
  b_.CreateStore(b_.getInt32(0), group_);
  if (plan_.groups_agree) {
    BasicBlock* last = region.ends ? done_ : nullptr;
    SmallVector<std::pair<Region*, BasicBlock*>> ways;
    for (Region* to : region.exits) {
      BasicBlock* way = new_block("region" + Twine{region.id} + ".to." + Twine{to->id});
      ways.push_back({to, way});
    }
    if (ways.empty()) {
      b_.CreateBr(done_);
    } else {
      Value* state = b_.CreateLoad(b_.getInt32Ty(), exit_state_);
      if (!last) last = ways.back().second;
      SwitchInst* choice = b_.CreateSwitch(state, last);
      for (auto [to, way] : ways)
        if (way != last) choice->addCase(b_.getInt32(to->id), way);
    }
    for (auto [to, way] : ways) {
      b_.SetInsertPoint(way);
      for (Value* v : plan_.flow.live_in(to->start)) {
        auto found = block_values_.find(v);
        if (found == block_values_.end() ||
            !region.blocks.contains(cast<Instruction>(v)->getParent()))
          continue;
        auto* call = dyn_cast<CallInst>(v);
        if (call && is_barrier(marker_name(call))) continue;
        b_.CreateStore(b_.CreateLoad(v->getType(), found->second.second), found->second.first);
      }
      if (CallInst* barrier = barrier_at_end(*to->start->getSinglePredecessor());
          accumulators_.count(barrier)) {
        AllocaInst* sum = accumulators_[barrier];
        Value* total = b_.CreateLoad(b_.getInt32Ty(), sum);
        StringRef name = marker_name(barrier);
        if (auto kept = block_values_.find(barrier); kept != block_values_.end()) {
          Value* result = total;
          if (name.ends_with(".or")) result = b_.CreateICmpNE(total, b_.getInt32(0));
          if (name.ends_with(".and")) result = b_.CreateICmpEQ(total, b_.getInt32(0));
          b_.CreateStore(result, kept->second.first);
        }
        b_.CreateStore(b_.getInt32(0), sum);
      }
      b_.CreateBr(to->enter);
    }
    return;
  }
  // Groups may be at different barriers: every region runs the groups that wait before it; when all
  // have moved, a new round starts.
  if (&region != regions_.back().get()) {
    b_.CreateBr(regions_[region.id + 1]->enter);
    return;
  }
  BasicBlock* scan = new_block("round.scan");
  BasicBlock* again = new_block("round.again");
  AllocaInst* alive = temporary(b_.getInt1Ty(), "alive");
  b_.CreateStore(b_.getFalse(), alive);
  b_.CreateBr(scan);
  b_.SetInsertPoint(scan);
  Value* at = b_.CreateLoad(b_.getInt32Ty(), group_);
  Value* state = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), next_states_, at));
  b_.CreateStore(state, b_.CreateGEP(b_.getInt32Ty(), states_, at));
  b_.CreateStore(
      b_.CreateOr(b_.CreateLoad(b_.getInt1Ty(), alive), b_.CreateICmpNE(state, b_.getInt32(kDone))),
      alive);
  Value* following = b_.CreateAdd(at, b_.getInt32(1));
  b_.CreateStore(following, group_);
  b_.CreateCondBr(b_.CreateICmpULT(following, b_.getInt32(groups)), scan, again);
  b_.SetInsertPoint(again);
  b_.CreateStore(b_.getInt32(0), group_);
  b_.CreateCondBr(b_.CreateLoad(b_.getInt1Ty(), alive), regions_.front()->enter, done_);
}

}  // namespace cucpu::simt
