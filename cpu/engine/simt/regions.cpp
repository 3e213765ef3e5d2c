// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/regions.cpp: the frame of block code: regions between barriers, loops over lane
// groups, and values that live across regions.
#include <llvm/Analysis/ValueTracking.h>
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

void RegionEmitter::find_regions() {
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

/// Whether masked code runs for few groups or lanes: at the end of the grid, where an index wraps,
/// and at an edge, a branch that leaves masked code less than a piece (null: there is none).
bool RegionEmitter::masks_are_rare(const BasicBlock* edge) const {
  return plan_.lanes.threads() % width_ == 0 &&
         all_of(plan_.flow.order,
                [&](BasicBlock* block) {
                  return !plan_.full.diverges(block) || block == edge ||
                         parts_.partial.ends_the_grid(block);
                }) &&
         all_of(plan_.guards, [](const auto& guard) {
           return none_of(guard.second, [](Instruction* inst) { return inst->isIntDivRem(); });
         });
}

Function* RegionEmitter::run() {
  Type* pointer = PointerType::getUnqual(context_);
  state_.function =
      Function::Create(FunctionType::get(Type::getVoidTy(context_), {pointer}, false),
                       GlobalValue::ExternalLinkage, state_.thread.getName() + ".block", module_);
  state_.function->addFnAttr(Attribute::NoUnwind);
  state_.function->addFnAttr(
      Attribute::NullPointerIsValid);  // an access to null faults; LLVM must not remove it
  state_.function->setSubprogram(state_.thread.getSubprogram());
  for (const char* name : {"target-cpu", "target-features"})
    if (state_.thread.hasFnAttribute(name))
      state_.function->addFnAttr(state_.thread.getFnAttribute(name));
  state_.block_context = state_.function->getArg(0);
  state_.function->getArg(0)->setName("context");
  state_.function->addParamAttr(
      0, Attribute::getWithDereferenceableBytes(context_, sizeof(BlockContext)));
  state_.function->addParamAttr(0, Attribute::getWithAlignment(context_, Align{8}));
  BasicBlock* entry = new_block("entry");
  entry_.SetInsertPoint(entry);
  find_regions();
  if (regions_.size() > 1) find_classes();
  parts_.masks.set_rare(plan_.baseline || masks_are_rare(nullptr));
  unsigned groups = plan_.lanes.groups();
  group_ = temporary(entry_.getInt32Ty(), "group");
  parts_.masks.deoptimised() = temporary(entry_.getInt1Ty(), "deoptimised");
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
  parts_.instructions.registers()["scratch"] = scratch;
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
    region->after = new_block("region" + Twine{region->id} + ".after");
    add_blocks(*region, "region" + Twine{region->id});
  }
  if (modes_ && plan_.groups_agree && !plan_.baseline && plan_.lanes.threads() % width_ == 0) {
    for (auto& region : regions_) {
      if (region->id == 0 || !stays_in_full_code(*region)) continue;
      if (!some_masked_) some_masked_ = temporary(entry_.getInt1Ty(), "some.masked");
      region->quick = std::make_unique<Region>();
      Region& quick = *region->quick;
      quick.slow = region.get();
      quick.id = region->id;
      quick.start = region->start;
      quick.enter = region->enter;
      quick.after = region->after;
      quick.blocks = region->blocks;
      quick.exits = region->exits;
      quick.ends = region->ends;
      add_blocks(quick, "region" + Twine{region->id} + ".quick");
    }
    if (some_masked_) entry_.CreateStore(entry_.getFalse(), some_masked_);
  }
  if (!plan_.groups_agree) {
    states_ = scratch_array(4);
    next_states_ = scratch_array(4);
    entry_.CreateMemSet(states_, entry_.getInt8(0), groups * 4, Align{4});
    entry_.CreateMemSet(next_states_, entry_.getInt8(0xff), groups * 4, Align{4});
  }
  says_group_ = needs_group();
  if (parts_.strips.can_run_across()) parts_.strips.begin_strip();
  for (auto& region : regions_) {
    emit_region(*region);
    if (!report_.refusal.empty()) break;
  }
  if (report_.refusal.empty()) {
    if (parts_.strips.strip())
      parts_.strips.finish_strip(*regions_.front());
    else
      for (auto& region : regions_) finish_region(*region);
    if (modes_ && modes_before_) start_modes();
    entry_.CreateStore(entry_.getInt32(0), group_);
    entry_.CreateBr(parts_.strips.strip() ? parts_.strips.strip()->rows : regions_.front()->enter);
    run_on();
    if (const Value* value = parts_.values.find_undefined())
      raw_string_ostream{report_.undefined} << *value;
    // A new group starts with undefined slots and empty mask slots.
    for (auto& region : regions_)
      for (const Region* one : {region.get(), region->quick.get()}) {
        if (!one) continue;
        b_.SetInsertPoint(one->reset_point);
        parts_.values.clear_slots();
        parts_.masks.clear_slots();
      }
    separate_scratch();
  }
  report_.scratch_bytes = scratch_bytes_;
  report_.regions = static_cast<unsigned>(regions_.size());
  if (!report_.refusal.empty()) {
    state_.function->deleteBody();
    state_.function->eraseFromParent();
    return nullptr;
  }
  return state_.function;
}

void RegionEmitter::add_blocks(Region& region, const Twine& name) {
  region.head = new_block(name);
  region.next = new_block(name + ".next");
}

// Whether groups that enter a region in full code pass no edge to masked code, except at guards
// that rarely fail and before which they can start again.
bool RegionEmitter::stays_in_full_code(const Region& region) const {
  constexpr unsigned kMost = 400;  // instructions: the region is emitted twice
  unsigned size = 0;
  for (BasicBlock* block : region.blocks) {
    if (plan_.full.diverges(block)) return false;
    if (auto guard = plan_.guards.find(block);
        guard != plan_.guards.end() &&
        (any_of(guard->second, [](Instruction* inst) { return inst->isIntDivRem(); }) ||
         !has_no_effect_before(region, block)))
      return false;
    size += static_cast<unsigned>(block->size());
  }
  return size <= kMost;
}

// Whether nothing that a group does in the region before it reaches this block has an effect: it
// may be done twice.
bool RegionEmitter::has_no_effect_before(const Region& region, BasicBlock* block) {
  SmallPtrSet<BasicBlock*, 8> seen;
  SmallVector<BasicBlock*> work{block};
  while (!work.empty()) {
    for (BasicBlock* before : predecessors(work.pop_back_val())) {
      if (!region.blocks.contains(before) || barrier_at_end(*before) || !seen.insert(before).second)
        continue;
      if (any_of(*before, [](const Instruction& inst) {
            auto* load = dyn_cast<LoadInst>(&inst);
            return load ? !load->isSimple() : inst.mayHaveSideEffects();
          }))
        return false;
      work.push_back(before);
    }
  }
  return true;
}

// Tells LLVM that scratch memory is not accessed in any other way, so that values which are live
// across barriers do not stand between the loads of a kernel. All addresses of scratch memory are
// computed from the field of the context without phis or selects.
void RegionEmitter::separate_scratch() {
  const Value* scratch = parts_.instructions.registers()["scratch"];
  MDBuilder builder{context_};
  MDNode* domain = builder.createAnonymousAliasScopeDomain("cucpu");
  MDNode* scopes =
      MDNode::get(context_, {builder.createAnonymousAliasScope(domain, "cucpu.scratch")});
  for (Instruction& inst : instructions(*state_.function)) {
    const Value* pointer = getLoadStorePointerOperand(&inst);
    if (!pointer) continue;
    const bool is_scratch = getUnderlyingObject(pointer, 0) == scratch;
    inst.setMetadata(is_scratch ? LLVMContext::MD_alias_scope : LLVMContext::MD_noalias, scopes);
  }
}

// Initializes the modes of all groups: groups that skip the first region do not store theirs.
void RegionEmitter::start_modes() {
  const unsigned rest = plan_.lanes.threads() % width_, groups = plan_.lanes.groups();
  entry_.CreateMemSet(modes_, entry_.getInt8(kFull), groups * 4, Align{4});
  if (rest == 0) return;
  const auto last = [&](Value* array) {
    return entry_.CreateConstInBoundsGEP1_32(entry_.getInt32Ty(), array, groups - 1);
  };
  entry_.CreateStore(entry_.getInt32(kMasked), last(modes_));
  entry_.CreateStore(entry_.getInt32((1u << rest) - 1), last(masks_));
}

// Emits the iteration over blocks. The setup of a block, or of a strip, is in the entry block after
// the allocas; the end of a block branches back to it while blocks are left. A routine computes the
// next block (run/block_iteration.hpp): compiling it into every kernel took a quarter of the
// compile time of a short one.
void RegionEmitter::run_on() {
  BasicBlock* entry = &state_.function->getEntryBlock();
  BasicBlock::iterator first = entry->begin();
  while (isa<AllocaInst>(first)) ++first;
  BasicBlock* again = entry->splitBasicBlock(first, "block");
  b_.SetInsertPoint(entry->getTerminator());
  b_.CreateStore(b_.getInt32(0), group_);
  parts_.instructions.set_current(nullptr);
  if (parts_.strips.strip()) {
    b_.CreateStore(b_.getInt32(0), parts_.strips.strip()->before);
    ReturnInst::Create(context_, parts_.strips.strip()->none);
    b_.SetInsertPoint(done_);
    b_.CreateStore(parts_.strips.strip()->end, parts_.strips.strip()->before);
    leave_as_it_is(b_.CreateBr(again), false);
    return;
  }
  b_.SetInsertPoint(done_);
  CallInst* more = b_.CreateCall(routine("cucpu_rt_next_block", b_.getInt1Ty(), {b_.getPtrTy()}),
                                 {state_.block_context});
  BasicBlock* end = new_block("end");
  b_.CreateCondBr(more, again, end, MDBuilder{context_}.createBranchWeights(63, 1));
  ReturnInst::Create(context_, end);
}

/// Declares a routine that accesses only the context and memory that is invisible to generated
/// code.
FunctionCallee RegionEmitter::routine(StringRef name, Type* result, ArrayRef<Type*> arguments) {
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

static void set_loop_metadata(BranchInst* latch, std::initializer_list<const char*> words) {
  LLVMContext& context = latch->getContext();
  SmallVector<Metadata*, 3> operands{nullptr};
  for (const char* word : words)
    operands.push_back(MDNode::get(context, MDString::get(context, word)));
  MDNode* loop = MDNode::getDistinct(context, operands);
  loop->replaceOperandWith(0, loop);
  latch->setMetadata(LLVMContext::MD_loop, loop);
}

/// Marks the loop of this latch: it is not unrolled, because loop passes are skipped for kernels
/// without other loops. Loops over strips, rows and groups are short in addition.
void RegionEmitter::leave_as_it_is(BranchInst* latch, bool is_short) {
  if (is_short)
    set_loop_metadata(latch, {"llvm.loop.unroll.disable", kShortLoop});
  else
    set_loop_metadata(latch, {"llvm.loop.unroll.disable"});
}

// Whether each group stores its number, for fault reports: a replay of the block searches the
// faulting thread among its lanes. If all addresses follow from thread indices, the replay finds it
// among all threads of the block, and the store is omitted: between streaming stores it is
// expensive, because processors detect full-line writes only without other stores in between.
bool RegionEmitter::needs_group() const {
  return any_of(instructions(state_.thread), [&](Instruction& inst) {
    if (Value* pointer = getLoadStorePointerOperand(&inst)) return !plan_.full[pointer].scalar();
    if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst))
      return !plan_.full[inst.getOperand(0)].scalar() || !inst.use_empty();
    StringRef name = marker_name(&inst);
    if (!name.empty())
      return name == "yield" || name == "yield_block" || name.starts_with("cluster");
    return isa<CallInst>(inst) && !isa<IntrinsicInst>(inst);
  });
}

/// Emits the loads of the region's entry, and resets those that the first group executes. Not if
/// groups enter regions independently: then each group executes its own loads.
void RegionEmitter::emit_entry_loads(Region& region) {
  b_.SetInsertPoint(region.enter);
  begin_block(Full);
  // Where groups may be at different barriers, each round runs every group up to its next one.
  if (plan_.groups_agree || region.id == 0) parts_.checks.emit_interval();
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
  if (region.quick)
    b_.CreateCondBr(b_.CreateLoad(b_.getInt1Ty(), some_masked_), region.head, region.quick->head,
                    MDBuilder{context_}.createBranchWeights(1, 1000));
  else
    b_.CreateBr(region.head);
}

Value* RegionEmitter::block_load(LoadInst& load) {
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

void RegionEmitter::emit_region(Region& region) {
  region_ = &region;
  emit_entry_loads(region);
  emit_groups(region);
  if (region.quick && report_.refusal.empty()) emit_groups(*region.quick);
}

void RegionEmitter::emit_groups(Region& region) {
  region_ = &region;
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
                   b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), state_.block_context,
                                                 offsetof(BlockContext, current_thread)),
                   true);
  Value* mode = nullptr;
  unsigned rest = plan_.lanes.threads() % width_, full_groups = plan_.lanes.threads() / width_;
  if (modes_ && region.id != 0 && !region.slow) {
    mode = b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), modes_, group), "mode");
    region.reset_point = b_.CreateStore(b_.CreateICmpEQ(mode, b_.getInt32(kDeoptimised)),
                                        parts_.masks.deoptimised());
  } else {
    region.reset_point = b_.CreateStore(b_.getFalse(), parts_.masks.deoptimised());
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
      parts_.masks.add_to_mask(region.start, lanes);
    } else {
      Value* saved =
          b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), masks_, group), "mask.bits");
      Value* narrow = b_.CreateTrunc(saved, IntegerType::get(context_, width_));
      parts_.masks.add_to_mask(region.start, b_.CreateBitCast(narrow, all_lanes()->getType()));
    }
    parts_.masks.set_mask(parts_.masks.load_mask(region.start));
    enter_region(region, Masked);
    b_.CreateBr(parts_.flow.masked_block(region.start));
  } else {
    b_.CreateBr(full);
  }
  b_.SetInsertPoint(full);
  begin_block(Full);
  enter_region(region, Full);
  b_.CreateBr(parts_.flow.full_block(region.start));
  while (!region.work.empty() && report_.refusal.empty()) {
    auto [copy, block] = region.work.back();
    region.work.pop_back();
    if (copy == Full)
      parts_.flow.emit_full(block);
    else
      parts_.flow.emit_masked(block);
  }
}

// Puts a phi and its inputs into one class if no region begins with more than one of them live:
// they then have one place in scratch memory. A sum that a loop carries around a barrier is not
// copied from the place of the old value to that of the new one.
void RegionEmitter::find_classes() {
  SmallVector<SmallPtrSet<const Value*, 16>> live;
  for (auto& region : regions_) {
    if (region->id == 0) continue;
    live.emplace_back();
    for (Value* v : plan_.flow.live_in(region->start)) live.back().insert(v);
  }
  DenseMap<Value*, SmallVector<Value*, 2>> members;
  const auto add = [&](Value* v) -> Value* {
    Value* first = classes_.try_emplace(v, v).first->second;
    if (members[first].empty()) members[first].push_back(v);
    return first;
  };
  const auto is_live = [&](const auto& at, Value* first) {
    return any_of(members[first], [&](Value* v) { return at.contains(v); });
  };
  for (BasicBlock* block : plan_.flow.order)
    for (PHINode& phi : block->phis())
      for (Value* incoming : phi.incoming_values()) {
        if (!isa<Instruction>(incoming) || incoming == &phi) continue;
        Value *one = add(&phi), *other = add(incoming);
        if (one == other ||
            any_of(live, [&](const auto& at) { return is_live(at, one) && is_live(at, other); }))
          continue;
        const auto moved = members[other];
        members.erase(other);
        for (Value* v : moved) {
          classes_[v] = one;
          members[one].push_back(v);
        }
      }
}

Value* RegionEmitter::first_of_class(Value* v) const {
  const auto found = classes_.find(v);
  return found == classes_.end() ? v : found->second;
}

// The memory of a value that is live across barriers: an element per group in scratch memory.
Value* RegionEmitter::array_element(Value* v, bool vector) {
  Type* type = parts_.values.slot(v, vector)->getAllocatedType();
  std::size_t size = module_.getDataLayout().getTypeAllocSize(type);
  auto [it, fresh] = arrays_.try_emplace({first_of_class(v), vector}, 0);
  if (fresh) {
    it->second = alignTo(scratch_bytes_, 64);
    scratch_bytes_ = it->second + size * plan_.lanes.groups();
  }
  Value* base = b_.CreateConstInBoundsGEP1_64(
      b_.getInt8Ty(), parts_.instructions.registers()["scratch"], it->second);
  Value* group = b_.CreateZExt(b_.CreateLoad(b_.getInt32Ty(), group_), b_.getInt64Ty());
  return b_.CreateInBoundsGEP(b_.getInt8Ty(), base, b_.CreateMul(group, b_.getInt64(size)));
}

bool RegionEmitter::rematerialisable(Value* v, unsigned depth) const {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return true;
  if (depth > kRematerialisationDepth || isa<PHINode>(inst)) return false;
  // Its guard may have failed before the barrier: the group is in full code again because all
  // quotients were the same, but full code divides numbers that are not negative.
  if (inst->isIntDivRem() && plan_.full.needs_guard(inst)) return false;
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

void RegionEmitter::rematerialise(Value* v) {
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst || parts_.values.is_known(inst)) return;
  for (Value* operand : inst->operands()) rematerialise(operand);
  parts_.instructions.emit(*inst);
}

void RegionEmitter::enter_region(Region& region, Mode mode) {
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
      parts_.values.store_slot(v, false, b_.CreateLoad(v->getType(), kept));
    } else {
      AllocaInst* into = parts_.values.slot(v, vector);
      b_.CreateStore(b_.CreateLoad(into->getAllocatedType(), array_element(v, vector)), into);
    }
  }
  (void)mode;
}

// Stores the values that the group needs after the barrier.
void RegionEmitter::leave_region(Region* to) {
  b_.CreateStore(b_.getInt32(to ? to->id : kDone), exit_state_);
  if (to) {
    for (Value* v : plan_.flow.live_in(to->start)) {
      auto* inst = cast<Instruction>(v);
      if (rematerialisable(v)) continue;
      // The value is stored already unless the group entered in another mode.
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
    if (modes_ && !region_->slow) {
      Value* group = b_.CreateLoad(b_.getInt32Ty(), group_);
      Value* mode = b_.getInt32(kFull);
      if (parts_.masks.mode() == Masked) {
        mode = b_.CreateSelect(b_.CreateLoad(b_.getInt1Ty(), parts_.masks.deoptimised()),
                               b_.getInt32(kDeoptimised), b_.getInt32(kMasked));
        b_.CreateStore(b_.CreateZExt(bits(mask()), b_.getInt32Ty()),
                       b_.CreateGEP(b_.getInt32Ty(), masks_, group));
        if (some_masked_) b_.CreateStore(b_.getTrue(), some_masked_);
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

void RegionEmitter::finish_groups(Region& region) {
  b_.SetInsertPoint(region.next);
  Value* group =
      b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), group_), b_.getInt32(1), "", true, true);
  b_.CreateStore(group, group_);
  BranchInst* latch = b_.CreateCondBr(b_.CreateICmpNE(group, b_.getInt32(plan_.lanes.groups())),
                                      region.head, region.after);
  if (region.loads_tile && !region.quick) set_loop_metadata(latch, {kTileLoop});
}

// Emits the end of the loop over groups: continues with the region before which the groups stopped.
void RegionEmitter::finish_region(Region& region) {
  unsigned groups = plan_.lanes.groups();
  finish_groups(region);
  if (region.quick) finish_groups(*region.quick);
  b_.SetInsertPoint(region.after);
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
  // Groups may wait at different barriers: every region runs the groups that wait before it, in
  // rounds.
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
