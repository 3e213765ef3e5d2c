// SPDX-License-Identifier: Apache-2.0
// program_nvrtc.cpp: C++ programs, compiled by NVRTC.
#include "core/code_image.hpp"
#include "core/compile_cache.hpp"
#include "core/coverage_source.hpp"
#include "core/debug_source.hpp"
#include "core/nvrtc.hpp"
#include "core/program_implementation.hpp"
#include "core/program_options.hpp"
#include "core/toolkit_headers.hpp"
#include "cucore/container.hpp"
#include "cucore/error.hpp"
#include "driver/library.hpp"
#include "driver/trace.hpp"
#include "pathfinder/search.hpp"

namespace cucore::detail {
namespace {

/// Returns the folder of the compiler's headers: from wheels, conda, CUDA_PATH or CUDA_HOME, a
/// system toolkit, else the headers bundled with NVRTC 13.3 and later.
std::optional<std::string> compiler_header_folder() {
  if (const auto found = pathfinder::locate_compiler_headers()) return found->abs_path;
  if (Nvrtc::get().nvrtcInstallBundledHeaders != nullptr) return bundled_header_folders().front();
  return std::nullopt;
}

/// Returns a note with the architectures that this compiler supports, if it rejected the given one.
std::string hint_for_unknown_arch(const std::string& log, std::span<const std::string> flags) {
  const Nvrtc& nvrtc = Nvrtc::get();
  if (log.find("--gpu-architecture") == std::string::npos ||
      nvrtc.nvrtcGetNumSupportedArchs == nullptr || nvrtc.nvrtcGetSupportedArchs == nullptr)
    return {};
  int count = 0;
  if (nvrtc.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) return {};
  std::vector<int> known(static_cast<std::size_t>(count));
  if (nvrtc.nvrtcGetSupportedArchs(known.data()) != NVRTC_SUCCESS) return {};
  std::string text = "arch";
  for (const std::string& flag : flags)
    if (flag.find("arch") != std::string::npos && flag.find('=') != std::string::npos)
      text += "=\"" + flag.substr(flag.find('=') + 1) + "\"";
  text += ": NVRTC " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) + " knows";
  const char* separator = " ";
  for (const int arch : known) {
    text += separator + ("sm_" + std::to_string(arch));
    separator = ", ";
  }
  return text + "; without arch, programs are compiled for the current device";
}

class NvrtcProgram final : public Program::Implementation {
 public:
  NvrtcProgram(std::string code, ProgramOptions options)
      : Implementation{std::move(code), std::move(options)} {
    // NVRTC is loaded on the first compilation; a missing library is reported now.
    if (!pathfinder::path_of_dynamic_lib("nvrtc")) Nvrtc::get();
  }
  ~NvrtcProgram() override { NvrtcProgram::release(); }

  ObjectCode compile(CodeType target, std::span<const std::string> name_expressions,
                     std::string& log) override;
  CompilerBackend backend() const noexcept override { return CompilerBackend::nvrtc; }
  SourceType source_type() const noexcept override { return SourceType::cxx; }
  void* handle() override;
  void release() noexcept override {
    if (program_ != nullptr) Nvrtc::get().nvrtcDestroyProgram(&program_);
    program_ = nullptr;
  }

 private:
  void create() {
    std::vector<const char*> headers;
    std::vector<const char*> names;
    for (const auto& [name, text] : options_.extra_sources) {
      names.push_back(name.c_str());
      headers.push_back(text.c_str());
    }
    const std::string code = options_.debug.value_or(debug_from_environment())
                                 ? with_source_file(code_, options_.name)
                                 : std::string{};
    const std::string name = code.empty() && counts_kernels()
                                 ? name_of_counted_source(options_.name, code_)
                                 : options_.name;
    check_nvrtc(nvrtc().nvrtcCreateProgram(&program_, code.empty() ? code_.c_str() : code.c_str(),
                                           name.c_str(), static_cast<int>(headers.size()),
                                           headers.data(), names.data()),
                "nvrtcCreateProgram");
  }
  std::vector<std::string> flags_for(CodeType target) const;
  void run(CodeType target, std::span<const std::string> name_expressions, std::string& log);
  CompiledProgram compile_now(CodeType target, std::span<const std::string> name_expressions);
  bool wants_pch() const { return options_.pch.value_or(false) || options_.create_pch.has_value(); }
  nvrtcResult read_pch_status();

  using SizeFunction = decltype(Nvrtc::nvrtcGetPTXSize);
  using DataFunction = decltype(Nvrtc::nvrtcGetPTX);
  std::string result(SizeFunction size_of, DataFunction get, const char* call) const {
    std::size_t size = 0;
    check_nvrtc(size_of(program_, &size), call);
    std::string bytes(size, '\0');
    check_nvrtc(get(program_, bytes.data()), call);
    return bytes;
  }
  std::string ptx() const {
    std::string text = result(nvrtc().nvrtcGetPTXSize, nvrtc().nvrtcGetPTX, "nvrtcGetPTX");
    while (text.ends_with('\0')) text.pop_back();
    return text;
  }
  std::string cubin() const;
  /// False with link-time optimization, for which NVRTC generates no PTX.
  bool has_ptx() const {
    std::size_t size = 0;
    return nvrtc().nvrtcGetPTXSize(program_, &size) == NVRTC_SUCCESS && size > 1;
  }

  static const Nvrtc& nvrtc() { return Nvrtc::get(); }

  /// The arguments of a compilation.
  struct Request {
    CodeType target;
    std::vector<std::string> name_expressions;
  };
  nvrtcProgram program_ = nullptr;  // null until NVRTC is needed
  bool compiled_ = false;
  bool handle_is_known_ = false;    // the caller may read results from the handle
  std::optional<Request> skipped_;  // the last compilation, if its result came from the cache
};

/// Returns NVRTC's program with the results of the last compilation, compiling it if it was cached.
void* NvrtcProgram::handle() {
  handle_is_known_ = true;
  if (skipped_) {
    const Request request = *std::move(skipped_);
    skipped_.reset();
    std::string log;
    run(request.target, request.name_expressions, log);
  }
  if (program_ == nullptr) create();
  return program_;
}

std::vector<std::string> NvrtcProgram::flags_for(CodeType target) const {
  auto flags = options_.flags(CompilerBackend::nvrtc, target);
  if (target == CodeType::ltoir && !options_.link_time_optimization.value_or(false))
    flags.emplace_back("--dlink-time-opt");
  if (counts_kernels() && !options_.lineinfo.value_or(false) &&
      !options_.debug.value_or(debug_from_environment()))
    flags.emplace_back("--generate-line-info");
  if (const auto folder = folder_to_add(flags, compiler_header_folder))
    flags.push_back("--include-path=" + *folder);
  return flags;
}

void NvrtcProgram::run(CodeType target, std::span<const std::string> name_expressions,
                       std::string& log) {
  if (compiled_) {  // name expressions cannot be added to a compiled program, and its results
                    // belong to its last flags
    release();
    compiled_ = false;
  }
  if (program_ == nullptr) create();
  compiled_ = true;
  for (const auto& name : name_expressions) {
    check_nvrtc(nvrtc().nvrtcAddNameExpression(program_, name.c_str()), "nvrtcAddNameExpression");
  }
  const auto flags = flags_for(target);
  std::vector<const char*> pointers;
  for (const auto& flag : flags) pointers.push_back(flag.c_str());
  const DriverNameScope name;
  const TraceScope trace{"compile", "NVRTC " + options_.name};
  const nvrtcResult code =
      nvrtc().nvrtcCompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  log = nvrtc_log(program_);
  if (code == NVRTC_SUCCESS) return;
  std::string hint = hint_for_missing_header(log);
  if (hint.empty()) hint = hint_for_unknown_arch(log, flags);
  fail_nvrtc(code, "nvrtcCompileProgram", hint.empty() ? log : log + "\n" + hint + "\n");
}

nvrtcResult NvrtcProgram::read_pch_status() {
  if (!wants_pch() || nvrtc().nvrtcGetPCHCreateStatus == nullptr) return NVRTC_SUCCESS;
  const nvrtcResult code = nvrtc().nvrtcGetPCHCreateStatus(program_);
  pch_status = code == NVRTC_SUCCESS                         ? PCHStatus::created
               : code == NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED ? PCHStatus::not_attempted
                                                             : PCHStatus::failed;
  return code;
}

std::string NvrtcProgram::cubin() const {
  std::string bytes = result(nvrtc().nvrtcGetCUBINSize, nvrtc().nvrtcGetCUBIN, "nvrtcGetCUBIN");
  if (!code_runs_on_the_cpu_device()) return bytes;
  if (options_.max_register_count)
    return make_container(
        bytes, limit_registers(ptx(), static_cast<unsigned>(*options_.max_register_count)));
  return make_container(bytes, ptx());
}

CompiledProgram NvrtcProgram::compile_now(CodeType target,
                                          std::span<const std::string> name_expressions) {
  CompiledProgram made;
  run(target, name_expressions, made.log);
  if (read_pch_status() == NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED) {
    // The heap for precompiled headers has a fixed size. NVRTC reports the size that was required.
    std::size_t needed = 0;
    check_nvrtc(nvrtc().nvrtcGetPCHHeapSizeRequired(program_, &needed),
                "nvrtcGetPCHHeapSizeRequired");
    check_nvrtc(nvrtc().nvrtcSetPCHHeapSize(needed), "nvrtcSetPCHHeapSize");
    run(target, name_expressions, made.log);
    read_pch_status();
  }
  for (const auto& name : name_expressions) {
    const char* lowered = nullptr;
    check_nvrtc(nvrtc().nvrtcGetLoweredName(program_, name.c_str(), &lowered),
                "nvrtcGetLoweredName");
    made.symbols.emplace(name, lowered);
  }
  made.code = target == CodeType::ptx ? ptx()
              : target == CodeType::cubin
                  ? cubin()
                  : result(nvrtc().nvrtcGetLTOIRSize, nvrtc().nvrtcGetLTOIR, "nvrtcGetLTOIR");
  // A GPU cubin contains the sizes of parameters but not their types. NVRTC still has the PTX.
  if (target == CodeType::cubin && !code_runs_on_the_cpu_device() && has_ptx())
    add_params_of_ptx(ptx(), made.params);
  return made;
}

ObjectCode NvrtcProgram::compile(CodeType target, std::span<const std::string> name_expressions,
                                 std::string& log) {
  if (target != CodeType::ptx && target != CodeType::cubin && target != CodeType::ltoir) {
    refuse_target(target, SourceType::cxx, "'ptx', 'cubin' or 'ltoir'");
  }
  check_compile_cache_setting();
  if (!options_.arch) options_.arch = arch_of_current_device();
  pch_status.reset();
  skipped_.reset();
  std::optional<CompiledProgram> made;
  if (handle_is_known_) {
    made = compile_now(target, name_expressions);
  } else {
    const std::string library = pathfinder::path_of_dynamic_lib("nvrtc").value_or("");
    CompileCacheEntry entry{code_, options_, target, name_expressions, flags_for(target), library};
    {
      const TraceScope trace{"compile", "compile cache " + options_.name};
      made = entry.find();
    }
    if (made) {
      skipped_ = Request{target, {name_expressions.begin(), name_expressions.end()}};
    } else {
      made = compile_now(target, name_expressions);
      // A fallback library may have been loaded if the first one failed to load.
      if (pathfinder::path_of_dynamic_lib("nvrtc") == library) entry.keep(*made);
    }
  }
  log = std::move(made->log);
  ObjectCode code{target, std::move(made->code), options_.name, std::move(made->symbols)};
  if (target == CodeType::cubin && !code_runs_on_the_cpu_device())
    code.image()->remember_params(std::move(made->params));
  return code;
}

}  // namespace

std::shared_ptr<Program::Implementation> make_nvrtc_program(std::string code,
                                                            ProgramOptions options) {
  return std::make_shared<NvrtcProgram>(std::move(code), std::move(options));
}

}  // namespace cucore::detail
