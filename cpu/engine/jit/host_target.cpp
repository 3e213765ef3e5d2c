// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/host_target.cpp
#include "cpu/engine/jit/host_target.hpp"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/ADT/StringSwitch.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <sys/auxv.h>

#include <memory>
#include <stdexcept>

#include "cpu/base/environment.hpp"
#include "cpu/engine/jit/llvm_once.hpp"

namespace cucpu {
namespace {

#if defined(__aarch64__)
/// A CPU name implies features that the system may hide (virtual machines hide SVE), and LLVM reads
/// only some features from the system. So every feature that affects code is set or cleared as the
/// system reports it.
void add_system_features(std::string& out) {
  struct Bit {
    unsigned long word, mask;
    const char* feature;
  };
  constexpr unsigned long k1 = AT_HWCAP, k2 = AT_HWCAP2;
  static constexpr Bit kBits[] = {
      {k1, 1UL << 8, "lse"},      {k1, 1UL << 10, "fullfp16"},  {k1, 1UL << 12, "rdm"},
      {k1, 1UL << 13, "jsconv"},  {k1, 1UL << 14, "complxnum"}, {k1, 1UL << 15, "rcpc"},
      {k1, 1UL << 20, "dotprod"}, {k1, 1UL << 22, "sve"},       {k1, 1UL << 23, "fp16fml"},
      {k1, 1UL << 25, "lse2"},    {k1, 1UL << 26, "rcpc-immo"}, {k1, 1UL << 27, "flagm"},
      {k2, 1UL << 1, "sve2"},     {k2, 1UL << 7, "altnzcv"},    {k2, 1UL << 8, "fptoint"},
      {k2, 1UL << 13, "i8mm"},    {k2, 1UL << 14, "bf16"},      {k2, 1UL << 18, "mte"},
      {k2, 1UL << 23, "sme"},
  };
  for (const Bit& bit : kBits) {
    if (!out.empty()) out += ',';
    out += (getauxval(bit.word) & bit.mask) ? '+' : '-';
    out += bit.feature;
  }
}
#endif

#if defined(__x86_64__)
/// Disables a pass for AVX-512 masks whose time is quadratic in the size of a function. LLVM has no
/// other way to disable it than its command line option.
void disable_slow_passes() {
  constexpr const char* kName = "disable-x86-domain-reassignment";
  const auto& options = llvm::cl::getRegisteredOptions();
  if (const auto found = options.find(kName); found != options.end())
    (void)found->second->addOccurrence(0, kName, "true");
}
#endif

bool is_host_feature(llvm::StringRef name) {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto found = features.find(name);
#if defined(__aarch64__)
  if (found == features.end()) {
    std::string all;
    add_system_features(all);
    return (',' + all + ',').find(",+" + name.str() + ',') != std::string::npos;
  }
#endif
  return found != features.end() && found->getValue();
}

HostTarget find_host_target() {
#if defined(__x86_64__)
  disable_slow_passes();
#endif
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();  // no parser: kernels contain no inline assembly
  HostTarget host;
  host.triple = llvm::sys::getProcessTriple();
  host.cpu = llvm::sys::getHostCPUName().str();
#if defined(__aarch64__)
  add_system_features(host.features);
#else
  // On x86 the list is complete and respects what the operating system saves.
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (!host.features.empty()) host.features += ',';
    host.features += feature.getValue() ? '+' : '-';
    host.features += feature.getKey();
  }
#endif
  if (has_slow_gathers(host.cpu)) host.features += ",+prefer-no-gather";
  if (const std::string disabled = disabled_features(); !disabled.empty())
    host.features += (host.features.empty() ? "" : ",") + disabled;
  return host;
}

}  // namespace

bool has_slow_gathers(std::string_view cpu) {
  return llvm::StringSwitch<bool>(cpu)
      .Cases("skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", true)
      .Cases("icelake-client", "icelake-server", "rocketlake", "tigerlake", true)
      .Default(false);
}

std::string disabled_features() {
  const std::string given = environment::text("CUCORE_CPU_FEATURES").value_or("");
  llvm::SmallVector<llvm::StringRef> items;
  if (!given.empty()) llvm::StringRef{given}.split(items, ',');
  for (llvm::StringRef item : items)
    if (!item.consume_front("-") || !is_host_feature(item))
      throw environment::Invalid{
          "CUCORE_CPU_FEATURES", given,
          "a list of -NAME, where NAME is a feature of this host, such as -avx512f"};
  return given;
}

const HostTarget& host_target() {
  static LlvmOnce once;
  static HostTarget& found = *new HostTarget;  // never destroyed: kernels may be compiled at exit
  once([] { found = find_host_target(); });
  return found;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(int optimization) {
  const HostTarget& h = host_target();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(h.triple, error);
  if (!target) throw std::runtime_error{"no code generator for " + h.triple + ": " + error};
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // PTX defines which operations are fused
  options.NoTrapAfterNoreturn = true;
  options.TrapUnreachable = true;
  const auto level = optimization <= 0   ? llvm::CodeGenOptLevel::None
                     : optimization == 1 ? llvm::CodeGenOptLevel::Less
                                         : llvm::CodeGenOptLevel::Default;
  std::unique_ptr<llvm::TargetMachine> machine{
      target->createTargetMachine(h.triple, h.cpu, h.features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, level, true)};
  // SelectionDAG also without optimization: FastISel and GlobalISel would fall back to it for most
  // of block code.
  machine->setGlobalISel(false);
  machine->setFastISel(false);
  machine->setO0WantsFastISel(false);
  machine->setMachineOutliner(false);  // for functions of least size, which kernels are not
  return machine;
}

}  // namespace cucpu
