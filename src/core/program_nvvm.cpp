// SPDX-License-Identifier: Apache-2.0
// program_nvvm.cpp: NVVM IR programs, compiled by libNVVM, optionally with libdevice.
#include "core/nvvm.hpp"
#include "core/program_implementation.hpp"
#include "core/program_options.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {

const Nvvm& Nvvm::get() {
  static const Nvvm table = [] {
    const ToolLibrary library{"nvvm"};
    Nvvm t;
#define CUCORE_LOAD(name) library.required(t.name, #name);
    CUCORE_NVVM(CUCORE_LOAD)
#undef CUCORE_LOAD
    return t;
  }();
  return table;
}

namespace {

class NvvmProgram final : public Program::Implementation {
 public:
  NvvmProgram(std::string code, ProgramOptions options)
      : Implementation{std::move(code), std::move(options)} {
    create();
  }
  ~NvvmProgram() override { NvvmProgram::release(); }

  ObjectCode compile(CodeType target, std::span<const std::string> name_expressions,
                     std::string& log) override;
  CompilerBackend backend() const noexcept override { return CompilerBackend::nvvm; }
  SourceType source_type() const noexcept override { return SourceType::nvvm; }
  void* handle() override { return program_; }
  void release() noexcept override {
    if (program_ != nullptr) nvvm_.nvvmDestroyProgram(&program_);
    program_ = nullptr;
  }

 private:
  void check(nvvmResult code, const char* call) const {
    if (code == NVVM_SUCCESS) return;
    std::string text = std::string{nvvm_.nvvmGetErrorString(code)} + " (" + call + ")";
    if (const std::string said = log(); !said.empty()) text += ", compilation log:\n\n" + said;
    throw CUDAError{static_cast<int>(code), nvvm_.nvvmGetErrorString(code), text, call};
  }
  std::string log() const {
    std::size_t size = 0;
    if (program_ == nullptr || nvvm_.nvvmGetProgramLogSize(program_, &size) != NVVM_SUCCESS ||
        size <= 1)
      return {};
    std::string text(size, '\0');
    if (nvvm_.nvvmGetProgramLog(program_, text.data()) != NVVM_SUCCESS) return {};
    while (text.ends_with('\0')) text.pop_back();
    return text;
  }
  void create() {
    check(nvvm_.nvvmCreateProgram(&program_), "nvvmCreateProgram");
    check(nvvm_.nvvmAddModuleToProgram(program_, code_.data(), code_.size(), options_.name.c_str()),
          "nvvmAddModuleToProgram");
    for (const auto& [name, text] : options_.extra_sources) {
      check(nvvm_.nvvmAddModuleToProgram(program_, text.data(), text.size(), name.c_str()),
            "nvvmAddModuleToProgram");
    }
    if (options_.use_libdevice.value_or(false)) {
      const ObjectCode libdevice{
          CodeType::library,
          std::filesystem::path{pathfinder::locate_bitcode_lib("device").abs_path}};
      const std::string& bitcode = libdevice.code();
      check(nvvm_.nvvmLazyAddModuleToProgram(program_, bitcode.data(), bitcode.size(), "libdevice"),
            "nvvmLazyAddModuleToProgram");
    }
  }

  const Nvvm& nvvm_ = Nvvm::get();
  nvvmProgram program_ = nullptr;
  bool compiled_ = false;
};

ObjectCode NvvmProgram::compile(CodeType target, std::span<const std::string> name_expressions,
                                std::string& log) {
  if (target != CodeType::ptx && target != CodeType::ltoir && target != CodeType::cubin) {
    refuse_target(target, SourceType::nvvm, "'ptx', 'ltoir' or 'cubin'");
  }
  if (!name_expressions.empty())
    throw std::invalid_argument{"name_expressions are for C++ code; IR names its kernels itself"};
  if (!options_.arch) options_.arch = arch_of_current_device();
  if (compiled_) {
    release();
    create();
  }
  compiled_ = true;
  const auto flags = options_.flags(CompilerBackend::nvvm, target);
  std::vector<const char*> pointers;
  for (const auto& flag : flags) pointers.push_back(flag.c_str());
  const auto count = static_cast<int>(pointers.size());
  // nvvmVerifyProgram is not called first: some malformed modules make it terminate the process,
  // while compiling reports them as errors.
  check(nvvm_.nvvmCompileProgram(program_, count, pointers.data()), "nvvmCompileProgram");
  log = this->log();
  std::size_t size = 0;
  check(nvvm_.nvvmGetCompiledResultSize(program_, &size), "nvvmGetCompiledResultSize");
  std::string bytes(size, '\0');
  check(nvvm_.nvvmGetCompiledResult(program_, bytes.data()), "nvvmGetCompiledResult");
  if (target != CodeType::ltoir) {
    while (bytes.ends_with('\0')) bytes.pop_back();
  }
  if (target == CodeType::cubin) {  // libNVVM generates PTX; the linker compiles it
    ProgramOptions rest;
    rest.name = options_.name;
    rest.arch = options_.arch;
    std::string said;
    auto ptx = make_ptx_program(std::move(bytes), std::move(rest));
    ObjectCode code = ptx->compile(target, {}, said);
    log += said;
    return code;
  }
  return {target, std::move(bytes), options_.name};
}

}  // namespace

std::shared_ptr<Program::Implementation> make_nvvm_program(std::string code,
                                                           ProgramOptions options) {
  return std::make_shared<NvvmProgram>(std::move(code), std::move(options));
}

}  // namespace cucore::detail
