// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/module_translator.cpp: symbols, signatures, shared layout, and the public
// translate().
#include "cpu/engine/translate/module_translator.hpp"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "cpu/engine/translate/function_translator.hpp"
#include "cpu/ptx/register_pressure.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cucpu::ir {
namespace {

llvm::StringRef ref(std::string_view s) { return {s.data(), s.size()}; }

/// Functions of the device runtime; all others must be defined in a linked module.
std::string_view runtime_routine(std::string_view name) {
  if (name == "vprintf") return "cucpu_rt_vprintf";
  if (name == "__assertfail") return "cucpu_rt_assertfail";
  if (name == "malloc") return "cucpu_rt_malloc";
  if (name == "free") return "cucpu_rt_free";
  if (name == "cudaGraphSetConditional") return "cucpu_rt_set_conditional";
  if (name == "cudaGraphLaunch") return "cucpu_rt_graph_launch";
  return {};
}

}  // namespace

Signature ModuleTranslator::signature(const std::vector<const ptx::Variable*>& returns,
                                      const std::vector<const ptx::Variable*>& params) const {
  llvm::LLVMContext& c = out.getContext();
  Signature s;
  llvm::SmallVector<llvm::Type*, 8> types;
  llvm::Type* result = llvm::Type::getVoidTy(c);
  s.result_by_value = returns.empty() || (returns.size() == 1 && is_by_value(*returns[0]));
  const auto integer = [&](const ptx::Variable& v) {
    return llvm::IntegerType::get(c, std::max(ptx::bits_of(v.type), 1u));
  };
  if (!s.result_by_value) {
    types.append(returns.size(), llvm::PointerType::get(c, 0));
  } else if (!returns.empty()) {
    result = integer(*returns[0]);
  }
  for (const ptx::Variable* v : params) {
    s.by_value.push_back(is_by_value(*v));
    types.push_back(is_by_value(*v) ? static_cast<llvm::Type*>(integer(*v))
                                    : llvm::PointerType::get(c, 0));
  }
  s.type = llvm::FunctionType::get(result, types, false);
  return s;
}

Signature ModuleTranslator::signature(const ptx::Function& f) const {
  std::vector<const ptx::Variable*> returns, params;
  for (std::uint32_t r : f.returns) returns.push_back(&f.variables[r]);
  for (std::uint32_t p : f.params) params.push_back(&f.variables[p]);
  return signature(returns, params);
}

llvm::FunctionCallee ModuleTranslator::marker(llvm::StringRef name, llvm::Type* result,
                                              llvm::ArrayRef<llvm::Type*> params, Effect effect) {
  if (llvm::Function* f = out.getFunction(name)) return f;
  auto* f = llvm::Function::Create(llvm::FunctionType::get(result, params, false),
                                   llvm::GlobalValue::ExternalLinkage, name, out);
  f->setDoesNotThrow();
  if (effect == Effect::none) {
    f->setDoesNotAccessMemory();
    f->setWillReturn();
    f->addFnAttr(llvm::Attribute::Speculatable);
  } else if (effect == Effect::reads) {
    f->setOnlyReadsMemory();
    f->setWillReturn();
  } else if (effect == Effect::convergent) {
    f->setConvergent();
  }
  return f;
}

llvm::Function* ModuleTranslator::function(std::uint32_t index, ptx::Location where) {
  if (functions[index] != nullptr) return functions[index];
  const ptx::Function& f = source.functions[index];
  diagnostics.error(where, ptx::cat("function '", f.name,
                                    "' is declared but not defined in this or a linked module"));
  return nullptr;
}

llvm::Function* ModuleTranslator::with_other_result(llvm::Function& known, const ptx::Function& f) {
  const Signature wanted = signature(f);
  const bool differ_in_void =
      wanted.result_by_value &&
      (wanted.type->getReturnType()->isVoidTy() || known.getReturnType()->isVoidTy()) &&
      wanted.type->params() == known.getFunctionType()->params();
  if (!differ_in_void || (f.defined && !known.empty())) return nullptr;
  const std::string name = known.getName().str();
  llvm::Function* fn = nullptr;
  llvm::Function *caller = nullptr, *callee = nullptr;
  if (f.defined) {  // the definition takes the name; the declaration found before forwards to it
    known.setName(name + ".declared");
    fn = llvm::Function::Create(wanted.type, llvm::GlobalValue::InternalLinkage, name, out);
    caller = &known, callee = fn;
  } else {
    fn = llvm::Function::Create(wanted.type, llvm::GlobalValue::InternalLinkage, name + ".declared",
                                out);
    caller = fn, callee = &known;
  }
  llvm::IRBuilder<> builder{llvm::BasicBlock::Create(out.getContext(), "", caller)};
  llvm::SmallVector<llvm::Value*, 8> arguments;
  for (llvm::Argument& argument : caller->args()) arguments.push_back(&argument);
  llvm::CallInst* const call = builder.CreateCall(callee, arguments);
  call->setDoesNotThrow();
  llvm::Type* const result = caller->getReturnType();
  if (result->isVoidTy())
    builder.CreateRetVoid();
  else  // the callee returns nothing: ptxas leaves the register as it is
    builder.CreateRet(llvm::Constant::getNullValue(result));
  return fn;
}

void ModuleTranslator::declare_symbols(std::unordered_map<std::string, std::string>& linked) {
  const auto symbol = [&](std::string_view name, ptx::Linkage linkage) {
    std::string s{name};
    if (linkage != ptx::Linkage::internal) return s;
    if (number != 0 || out.getNamedValue(s) != nullptr)
      s.append(".").append(std::to_string(number));
    return s;
  };
  for (const ptx::Variable& v : source.variables) {
    llvm::GlobalVariable* g = nullptr;
    if (v.space != Space::shared) {
      // Other scopes may have variables of the same name; no PTX name has two dots.
      const std::string name = v.scoped ? ptx::cat(v.name, "..", std::to_string(number), ".",
                                                   std::to_string(variables.size()))
                                        : symbol(v.name, v.linkage);
      g = out.getGlobalVariable(name, true);
      if (g == nullptr) {
        auto* t = llvm::ArrayType::get(llvm::Type::getInt8Ty(out.getContext()),
                                       std::max<std::uint64_t>(v.size, 1));
        g = new llvm::GlobalVariable(out, t, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                     name);
        g->setAlignment(llvm::Align(std::max<std::uint32_t>(v.align, 1)));
      }
    }
    variables.push_back(g);
  }
  for (const ptx::Function& f : source.functions) {
    llvm::Function* fn = nullptr;
    const bool defined = f.defined || !f.alias.empty();
    if (f.entry) {
      if (f.defined) {
        fn = llvm::Function::Create(
            llvm::FunctionType::get(llvm::Type::getVoidTy(out.getContext()), false),
            llvm::GlobalValue::ExternalLinkage, ref(f.name), out);
        fn->addFnAttr("cucpu.kernel");
      }
    } else if (const auto routine = runtime_routine(f.name); !defined && !routine.empty()) {
      fn = llvm::cast<llvm::Function>(marker(ref(routine), signature(f).type->getReturnType(),
                                             signature(f).type->params(), Effect::any)
                                          .getCallee());
    } else if (f.alias.empty()) {
      const std::string name = ptx::cat("fn.", symbol(f.name, f.linkage));
      fn = out.getFunction(name);
      if (fn == nullptr) {
        fn = llvm::Function::Create(signature(f).type, llvm::GlobalValue::InternalLinkage, name,
                                    out);
      } else if (fn->getFunctionType() != signature(f).type) {
        if (llvm::Function* const other = with_other_result(*fn, f)) {
          fn = other;
        } else {
          diagnostics.error(f.where,
                            ptx::cat("'", f.name, "' is declared differently in another module"));
        }
      }
      if (f.defined && f.linkage != ptx::Linkage::internal) {
        const auto [at, fresh] = linked.try_emplace(name, source.name);
        if (!fresh && f.linkage == ptx::Linkage::visible) {
          diagnostics.error(f.where, ptx::cat("'", f.name, "' is already defined in ", at->second));
        }
      }
    }
    if (fn != nullptr) {
      fn->setDoesNotThrow();
      fn->addFnAttr("no-builtins");
      // An access to address 0 is a fault that the kernel must reach: LLVM may not remove code for
      // it.
      fn->addFnAttr(llvm::Attribute::NullPointerIsValid);
      // Infinite recursion is a stack overflow, not an infinite loop.
      fn->addFnAttr("disable-tail-calls", "true");
    }
    functions.push_back(fn);
  }
  for (std::size_t i = 0; i < source.functions.size(); ++i) {
    const ptx::Function& f = source.functions[i];
    if (!f.alias.empty()) functions[i] = functions[source.symbols.at(f.alias).index];
  }
}

llvm::DIFile* ModuleTranslator::debug_file(std::uint32_t wanted) {
  std::string_view path = "ptx";
  for (const ptx::File& f : source.files) {
    if (f.number == wanted) path = f.name;
  }
  return make_debug_file(path);
}

llvm::DIFile* ModuleTranslator::debug_ptx_file() {
  if (!source.files.empty() || number >= options.ptx_files.size()) return nullptr;
  if (options.ptx_files[number].empty()) return nullptr;
  return make_debug_file(options.ptx_files[number]);
}

llvm::DIFile* ModuleTranslator::make_debug_file(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view folder = slash == path.npos ? std::string_view{} : path.substr(0, slash);
  llvm::DIFile* file =
      debug.createFile(ref(slash == path.npos ? path : path.substr(slash + 1)), ref(folder));
  if (!has_debug_) {
    has_debug_ = true;
    // GDB takes the end of a prologue from the line table only for producers named clang.
    if (options.debug)
      debug.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus_14, file,
                              "clang version " LLVM_VERSION_STRING " (cucore)", false, "", 0, "",
                              llvm::DICompileUnit::FullDebug);
    else
      debug.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus, file, "ptx", true, "", 0, "",
                              llvm::DICompileUnit::LineTablesOnly);
    if (out.getModuleFlag("Debug Info Version") == nullptr) {
      out.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    }
  }
  return file;
}

void ModuleTranslator::start_debug() {
  if (!options.debug || !options.line_info) return;
  source_info = read_source_debug_info(source, debug,
                                       [this](std::uint32_t file) { return debug_file(file); });
  if (!source_info) return;
  for (std::size_t i = 0; i < source.variables.size(); ++i) {
    const auto known = source_info->globals.find(source.variables[i].name);
    if (variables[i] == nullptr || known == source_info->globals.end() || !known->second.type)
      continue;
    const SourceGlobal& global = known->second;
    llvm::DIFile* const file = debug_file(global.file);
    variables[i]->addDebugInfo(debug.createGlobalVariableExpression(
        file, global.name, ref(source.variables[i].name), file, global.line, global.type, false));
  }
}

void ModuleTranslator::finish_debug() {
  if (has_debug_) debug.finalize();
}

namespace {

/// An estimate of the registers that ptxas would use: never so many that the largest block of the
/// kernel (`.minnctapersm` times) would not fit into a multiprocessor, because programs launch what
/// fits.
std::uint32_t estimated_registers(const ptx::Function& f, const KernelInfo& info) {
  constexpr std::uint64_t kAll = 65536, kWarp = 32, kLeast = 16, kMost = 255;
  const std::uint64_t threads = std::max(info.max_threads, 1u);
  const std::uint64_t blocks = std::max(info.min_blocks_per_sm, 1u);
  const std::uint64_t warps =
      (threads + 4 * kWarp - 1) / (4 * kWarp) * 4;  // allocated in groups of four
  const std::uint64_t fitting = kAll / (blocks * warps * kWarp) / 8 * 8;
  const std::uint64_t wanted = 8 + std::uint64_t{ptx::register_pressure(f)};
  std::uint64_t guess = std::min({kMost, wanted, std::max(fitting, kLeast)});
  if (f.maxnreg != 0) guess = std::min<std::uint64_t>(guess, f.maxnreg);
  return static_cast<std::uint32_t>(guess);
}

}  // namespace

void ModuleTranslator::translate_functions(Translation& result) {
  for (std::size_t i = 0; i < source.functions.size(); ++i) {
    const ptx::Function& f = source.functions[i];
    if (!f.defined || functions[i] == nullptr || !functions[i]->empty()) continue;
    FunctionTranslator t{*this, f, *functions[i]};
    t.run();
    if (!f.entry) continue;
    KernelInfo info;
    info.name = f.name;
    info.params = t.params;
    info.param_bytes = t.param_bytes;
    info.static_shared_bytes = static_cast<std::uint32_t>(t.static_shared_bytes);
    info.dynamic_shared_offset = static_cast<std::uint32_t>(t.dynamic_shared_offset);
    info.local_bytes = static_cast<std::uint32_t>(t.local_bytes);
    const auto dim = [](const std::array<std::uint32_t, 3>& d) { return Dim3{d[0], d[1], d[2]}; };
    if (f.maxntid)
      info.max_threads =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(dim(*f.maxntid).volume(), 1024));
    if (f.reqntid) {
      info.required_block = dim(*f.reqntid);
      info.max_threads =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(info.required_block->volume(), 1024));
    }
    info.min_blocks_per_sm = f.minnctapersm;
    info.registers = estimated_registers(f, info);
    if (f.reqnctapercluster) info.required_cluster = dim(*f.reqnctapercluster);
    info.explicit_cluster = f.explicitcluster;
    info.blocks_are_clusters = f.blocks_are_clusters;
    info.tile = f.language == ptx::kTileLanguage && f.reqntid.has_value();
    info.ptx_version = source.version;
    info.target = source.target;
    result.kernels.push_back(std::move(info));
  }
}

void ModuleTranslator::describe_variables(Translation& result) {
  for (std::size_t i = 0; i < source.variables.size(); ++i) {
    const ptx::Variable& v = source.variables[i];
    if (v.space == Space::shared || variables[i] == nullptr) continue;
    const std::string symbol = variables[i]->getName().str();
    const auto known = std::ranges::find(result.variables, symbol, &ModuleVariable::symbol);
    if (known != result.variables.end() || v.linkage == ptx::Linkage::external) continue;
    ModuleVariable m;
    m.name = v.name;
    m.symbol = symbol;
    m.size = v.size;
    m.align = v.align;
    m.constant = v.space == Space::constant;
    m.managed = v.managed;
    if (v.type == Type::texref) m.reference = ReferenceKind::texture;
    if (v.type == Type::surfref) m.reference = ReferenceKind::surface;
    m.visible = !v.scoped && (v.linkage != ptx::Linkage::internal || number == 0);
    m.data = v.data;
    for (const ptx::Relocation& r : v.relocations) {
      std::string target;
      if (r.function) {
        if (llvm::Function* f = function(r.symbol, v.where)) target = f->getName().str();
      } else if (variables[r.symbol] != nullptr) {
        target = variables[r.symbol]->getName().str();
      } else {
        diagnostics.error(v.where, "the address of a .shared variable is not an initial value");
      }
      m.relocations.push_back(
          {r.offset, r.width, r.shift, r.function, std::move(target), r.addend});
    }
    result.variables.push_back(std::move(m));
  }
}

}  // namespace cucpu::ir

namespace cucpu {

bool TranslateOptions::host_has_half() {
#if defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0;
#else
  return false;
#endif
}

namespace {

/// Sets `const_bytes` of all kernels: an H200 counts all .const variables of the module, also those
/// that the kernel does not use.
void measure_constants(Translation& result) {
  std::uint64_t bytes = 0;
  for (const ModuleVariable& variable : result.variables) {
    if (!variable.constant) continue;
    const std::uint64_t align = std::max<std::uint64_t>(variable.align, 1);
    bytes = (bytes + align - 1) / align * align + variable.size;
  }
  for (KernelInfo& info : result.kernels) info.const_bytes = static_cast<std::uint32_t>(bytes);
}

}  // namespace

Translation translate(std::span<const ptx::Module* const> modules, llvm::LLVMContext& context,
                      const TranslateOptions& options) {
  Translation result;
  result.module = std::make_unique<llvm::Module>("ptx", context);
  std::vector<std::unique_ptr<ir::ModuleTranslator>> parts;
  std::vector<std::unique_ptr<ptx::Diagnostics>> diagnostics;
  std::unordered_map<std::string, std::string> linked;
  const ir::SharedLayout shared{modules};
  for (const ptx::Module* m : modules) {
    diagnostics.push_back(std::make_unique<ptx::Diagnostics>(m->name));
    parts.push_back(std::make_unique<ir::ModuleTranslator>(*result.module, *m,
                                                           static_cast<unsigned>(parts.size()),
                                                           shared, *diagnostics.back(), options));
    parts.back()->declare_symbols(linked);
  }
  for (auto& part : parts) part->start_debug();
  for (auto& part : parts) part->translate_functions(result);
  for (auto& part : parts) part->finish_debug();
  for (auto& part : parts) part->describe_variables(result);
  measure_constants(result);
  std::string log;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // A function that no linked module defines is only a declaration.
    const ptx::Module& m = *modules[i];
    for (std::size_t f = 0; f < m.functions.size(); ++f) {
      llvm::Function* fn = parts[i]->functions[f];
      if (fn != nullptr && fn->empty() && fn->getName().starts_with("fn.") && !fn->use_empty() &&
          !diagnostics[i]->failed()) {
        diagnostics[i]->error(m.functions[f].where,
                              ptx::cat("function '", m.functions[f].name,
                                       "' is not defined in this or a linked module"));
      }
    }
    log += diagnostics[i]->log();
  }
  for (const ptx::Module* m : modules) {
    for (const ptx::Variable& v : m->variables) {
      if (v.linkage != ptx::Linkage::external || v.space == ptx::Space::shared) continue;
      const auto known =
          std::ranges::find(result.variables, std::string{v.name}, &ModuleVariable::symbol);
      if (known == result.variables.end() &&
          !result.module->getNamedValue(std::string{v.name})->use_empty()) {
        log += ptx::cat(m->name, ": error: variable '", v.name,
                        "' is not defined in this or a linked module\n");
      }
    }
  }
  if (!log.empty()) throw LoadError{218, log};
  return result;
}

}  // namespace cucpu
