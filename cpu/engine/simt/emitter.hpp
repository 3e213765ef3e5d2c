// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/emitter.hpp: writes block code. The emitter consists of parts, each with a header
// that says what it owns.
#pragma once

#include "cpu/engine/simt/check_emitter.hpp"
#include "cpu/engine/simt/emit_state.hpp"
#include "cpu/engine/simt/flow_emitter.hpp"
#include "cpu/engine/simt/init_check_emitter.hpp"
#include "cpu/engine/simt/instruction_emitter.hpp"
#include "cpu/engine/simt/mask_state.hpp"
#include "cpu/engine/simt/memory_emitter.hpp"
#include "cpu/engine/simt/partial_group_emitter.hpp"
#include "cpu/engine/simt/race_check_emitter.hpp"
#include "cpu/engine/simt/regions.hpp"
#include "cpu/engine/simt/strip_emitter.hpp"
#include "cpu/engine/simt/value_map.hpp"
#include "cpu/engine/simt/warp_emitter.hpp"

namespace cucpu::simt {

/// The parts of the emitter of one kernel. Each reaches the others through this structure.
struct EmitterParts {
  EmitterParts(const Plan& plan, llvm::Function& thread, Report& report)
      : state{plan, thread, report} {}
  EmitterParts(const EmitterParts&) = delete;
  EmitterParts& operator=(const EmitterParts&) = delete;

  EmitState state;
  MaskState masks{*this};
  ValueMap values{*this};
  InstructionEmitter instructions{*this};
  MemoryEmitter memory{*this};
  CheckEmitter checks{*this};
  InitCheckEmitter init_checks{*this};
  RaceCheckEmitter race_checks{*this};
  WarpEmitter warps{*this};
  RegionEmitter regions{*this};
  StripEmitter strips{*this};
  FlowEmitter flow{*this};
  PartialGroupEmitter partial{*this};
};

class Emitter {
 public:
  Emitter(const Plan& plan, llvm::Function& thread, Report& report)
      : parts_{plan, thread, report} {}

  /// The block function, or null when something cannot be expressed (Report::refusal).
  llvm::Function* run() { return parts_.regions.run(); }

 private:
  EmitterParts parts_;
};

}  // namespace cucpu::simt
