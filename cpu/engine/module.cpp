// SPDX-License-Identifier: Apache-2.0
// cpu/engine/module.cpp: loads a module: parses PTX, translates it and places variables. Kernels
// are compiled when they are launched.
#include <llvm/Bitcode/BitcodeWriter.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/coverage/counters.hpp"
#include "cpu/engine/device_runtime.hpp"
#include "cpu/engine/dump.hpp"
#include "cpu/engine/jit_module.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/ptx/parser.hpp"
#include "cpu/trace/trace.hpp"

namespace cucpu {

std::unique_ptr<Module> Module::load(std::span<const std::string_view> ptx,
                                     const LoadOptions& options, VariableMemory& memory) {
  return std::make_unique<JitModule>(ptx, options, memory);
}

const Kernel* Module::find_kernel(std::string_view name) const {
  for (const Kernel* kernel : kernels())
    if (kernel->info().name == name) return kernel;
  return nullptr;
}

const Variable* Module::find_variable(std::string_view name) const {
  for (const Variable& variable : variables())
    if (variable.name == name) return &variable;
  return nullptr;
}

namespace {

/// Links the device runtime with modules that call it. Modules with definitions of their own (those
/// of libcudadevrt) are linked without it.
void add_device_runtime(std::vector<std::unique_ptr<ptx::Module>>& modules) {
  bool needed = false;
  for (const auto& module : modules)
    needed |= std::ranges::any_of(module->functions, needs_device_runtime);
  if (!needed) return;
  ptx::Diagnostics diagnostics{"device runtime"};
  ptx::Parsed runtime = ptx::parse(std::string{device_runtime_text()}, diagnostics);
  if (!runtime.module) throw LoadError{218, diagnostics.log()};
  for (const ptx::Function& function : runtime.module->functions)
    for (const auto& module : modules)
      for (const ptx::Function& other : module->functions)
        if (other.defined && other.name == function.name) return;
  modules.push_back(std::move(runtime.module));
}

std::vector<std::unique_ptr<ptx::Module>> parse(std::span<const std::string_view> texts,
                                                const LoadOptions& options) {
  std::vector<std::unique_ptr<ptx::Module>> modules;
  std::string log;
  int code = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ptx::Diagnostics diagnostics{texts.size() == 1 ? options.name
                                                   : options.name + "." + std::to_string(i)};
    ptx::Parsed parsed = ptx::parse(std::string{texts[i]}, diagnostics, options.target);
    if (diagnostics.failed() || !parsed.module) {
      log += diagnostics.log();
      if (code == 0) code = parsed.code ? parsed.code : 218;
      continue;
    }
    modules.push_back(std::move(parsed.module));
  }
  if (code != 0) throw LoadError{code, log};
  add_device_runtime(modules);
  return modules;
}

/// Whether a compiler was asked for debug information and no optimization (-G).
bool has_debug_target(std::string_view ptx) {
  const std::size_t at = ptx.find("\n.target");
  if (at == ptx.npos) return false;
  const std::string_view line = ptx.substr(at + 1, ptx.find('\n', at + 1) - at - 1);
  const std::size_t word = line.find("debug");
  return word != line.npos && line.find("//") > word;
}

bool is_debugged(const Settings& settings, std::span<const std::string_view> texts) {
  if (settings.debug != Settings::Debug::automatic) return settings.debug == Settings::Debug::on;
  return std::ranges::any_of(texts, has_debug_target);
}

std::shared_ptr<ThreadCode> make_thread_code(Settings settings, int optimization,
                                             std::span<const std::string_view> texts,
                                             std::string_view source) {
  const bool debug = is_debugged(settings, texts);
  return std::make_shared<ThreadCode>(std::move(settings), optimization, debug, source);
}

struct Translated {
  llvm::LLVMContext context;
  Translation translation;
};

/// The name of a file with one of the PTX texts of a module.
std::string ptx_name(const ThreadCode& code, std::size_t number) {
  std::string name = code.digest.substr(0, 16);
  if (number != 0) name.append(".").append(std::to_string(number));
  return name.append(".ptx");
}

/// Where PTX without source lines is kept for reports of kernel coverage.
std::string ptx_file(const ThreadCode& code, std::size_t number) {
  return code.settings.coverage_folder + "/" + ptx_name(code, number);
}

/// The address of the counters that the code of a module uses.
std::uint64_t start_counting(const CoverageMap& map, const ThreadCode& code,
                             std::span<const std::string_view> ptx) try {
  const std::string module = code.digest.substr(0, 16);
  CoverageCounters& counters =
      CoverageCounters::of(code.settings.coverage_folder, module, map.counters, map.json(module));
  for (std::size_t i = 0; i < ptx.size(); ++i) {
    const std::string path = ptx_file(code, i);
    if (std::ranges::find(map.files, path) != map.files.end())
      CoverageCounters::write_once(path, std::string{ptx[i]});
  }
  return reinterpret_cast<std::uint64_t>(&counters);
} catch (const std::system_error& error) {
  throw LoadError{304, "CUCORE_COVERAGE=" + code.settings.coverage_folder + ": " + error.what()};
}

/// Frees the variables placed so far when loading fails.
class Placed {
 public:
  Placed(VariableMemory& memory, std::vector<void*>& allocations)
      : memory_{memory}, allocations_{allocations} {}
  ~Placed() {
    if (keep) return;
    for (void* address : allocations_) memory_.free(address);
  }
  bool keep = false;

 private:
  VariableMemory& memory_;
  std::vector<void*>& allocations_;
};

}  // namespace

JitModule::JitModule(std::span<const std::string_view> ptx, const LoadOptions& options,
                     VariableMemory& memory)
    : memory_{memory} {
  std::string source;
  for (const std::string_view text : ptx)
    source += std::to_string(text.size()) + ":" + std::string{text};
  const auto code =
      make_thread_code(Settings::from_environment(), options.optimization, ptx, source);
  const Settings& settings = code->settings;
  for (std::size_t i = 0; settings.dump_ptx && i < ptx.size(); ++i)
    dump_text(settings, ptx_name(*code, i), ptx[i]);

  std::unique_ptr<Translated> translated;
  in_compiler(options.name, source, settings, [&] {
    const trace::Scope scope{"compile", "parse and translate PTX"};
    auto made = std::make_unique<Translated>();
    const auto modules = parse(ptx, options);
    std::vector<const ptx::Module*> pointers;
    for (const auto& module : modules) pointers.push_back(module.get());
    TranslateOptions how;
    how.gpu_nans = settings.nans != Settings::Nans::host;
    how.exact_nans = settings.nans == Settings::Nans::exact;
    how.shared_variables = (settings.check->kinds & check::kMemory) != 0;
    how.copies = (settings.check->kinds & check::kRace) != 0;
    how.debug = code->debug;
    if (how.debug)
      how.ptx_files = write_debug_texts(settings, ptx);
    else if (!settings.coverage_folder.empty())
      for (std::size_t i = 0; i < ptx.size(); ++i) how.ptx_files.push_back(ptx_file(*code, i));
    made->translation = pipeline::thread_code(pointers, made->context, how, settings);
    std::string bitcode;
    llvm::raw_string_ostream out{bitcode};
    llvm::WriteBitcodeToFile(*made->translation.module, out);
    code->bitcode = std::move(bitcode);
    translated = std::move(made);
  });
  thread_code_ = code;
  Translation& translation = translated->translation;
  if (!settings.coverage_folder.empty())
    symbols_.push_back({kCoverageSymbol, start_counting(translation.coverage, *code, ptx)});

  Placed placed{memory_, allocations_};
  for (const ModuleVariable& variable : translation.variables) {
    allocations_.reserve(allocations_.size() + 1);
    const auto [address, initialized] =
        memory_.allocate(std::max<std::size_t>(variable.size, 1), variable.align, variable.managed);
    allocations_.push_back(address);
    symbols_.push_back({variable.symbol, reinterpret_cast<std::uint64_t>(address)});
    if (variable.constant) constants_.emplace_back(address, variable.size);
    if (!variable.data.empty() && !initialized)
      std::memcpy(address, variable.data.data(),
                  std::min<std::size_t>(variable.data.size(), variable.size));
    if (variable.visible)
      variables_.push_back({variable.name, address, variable.size, variable.constant,
                            variable.managed, variable.reference});
  }

  // Address-taken functions are compiled once, before any kernel: the address in a variable must be
  // the address that kernels use.
  std::vector<std::string> wanted;
  for (const ModuleVariable& variable : translation.variables)
    for (const VariableRelocation& relocation : variable.relocations)
      if (relocation.function) wanted.push_back(relocation.symbol);
  bool taken = !wanted.empty();
  for (const llvm::Function& function : *translation.module)
    taken |= !function.isDeclaration() && !function.hasFnAttribute("cucpu.kernel") &&
             function.hasAddressTaken(nullptr, false, true, true);
  if (taken) {
    auto functions = std::make_shared<AddressTakenFunctions>();
    functions->object = code->address_taken_functions(wanted);
    const std::vector<std::string>& names = functions->object.names;
    if (!names.empty()) {
      functions->linked = LinkedCode::link(functions->object.object, symbols_, names, code->debug);
      std::vector<std::uintptr_t> addresses;
      for (std::size_t i = 0; i < names.size(); ++i) {
        addresses.push_back(reinterpret_cast<std::uintptr_t>(functions->linked->address(i)));
        symbols_.push_back({names[i], addresses.back()});
      }
      functions->callable = std::make_unique<CallTargets>(std::move(addresses));
      functions_ = std::move(functions);
    }
  }
  for (std::size_t i = 0; i < translation.variables.size(); ++i) {
    for (const VariableRelocation& relocation : translation.variables[i].relocations) {
      const auto symbol =
          std::find_if(symbols_.begin(), symbols_.end(),
                       [&](const SymbolAddress& s) { return s.name == relocation.symbol; });
      if (symbol == symbols_.end())
        throw LoadError{218, "the initial value of " + translation.variables[i].name + " names " +
                                 relocation.symbol + ", which is not defined"};
      const std::uint64_t value =
          (symbol->address + static_cast<std::uint64_t>(relocation.addend)) >> relocation.shift;
      if (relocation.offset + relocation.width > translation.variables[i].size ||
          relocation.width > 8)
        throw LoadError{218, "the initial value of " + translation.variables[i].name +
                                 " is longer than the variable"};
      std::memcpy(static_cast<std::byte*>(allocations_[i]) + relocation.offset, &value,
                  relocation.width);
    }
  }
  for (KernelInfo& info : translation.kernels) {
    kernels_.push_back(std::make_unique<JitKernel>(*this, std::move(info)));
    kernel_pointers_.push_back(kernels_.back().get());
  }
  placed.keep = true;
}

JitModule::~JitModule() {
  constants_.clear();  // before the addresses can be reused
  for (void* address : allocations_) memory_.free(address);
}

}  // namespace cucpu
