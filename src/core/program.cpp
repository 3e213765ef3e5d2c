// SPDX-License-Identifier: Apache-2.0
// program.cpp: programs of all source languages. The compilers are in program_nvrtc.cpp,
// program_nvvm.cpp and program_ptx.cpp.
#include "cucore/program.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/program_implementation.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

SourceType source_type_of(std::string_view name) {
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "c++") return SourceType::cxx;
  if (lower == "ptx") return SourceType::ptx;
  if (lower == "nvvm") return SourceType::nvvm;
  throw std::invalid_argument{"Unsupported code_type '" + std::string{name} +
                              "': it must be 'c++', 'ptx' or 'nvvm'"};
}

const char* backend_name(CompilerBackend backend) noexcept {
  switch (backend) {
    case CompilerBackend::nvrtc:
      return "NVRTC";
    case CompilerBackend::nvvm:
      return "NVVM";
    case CompilerBackend::nvjitlink:
      return "nvJitLink";
    case CompilerBackend::driver:
      return "driver";
  }
  return "";
}

bool detail::code_runs_on_the_cpu_device() {
  try {
    return driver_info().kind == DeviceKind::cpu;
  } catch (const DriverNotFoundError&) {
    return false;
  } catch (const CUDAError&) {
    return false;
  }
}

void detail::refuse_target(CodeType target, SourceType source, const char* supported) {
  const char* names[] = {"c++", "ptx", "nvvm"};
  throw std::invalid_argument{std::string{"Unsupported target_type '"} + code_type_name(target) +
                              "' for " + names[static_cast<int>(source)] + " code: it must be " +
                              supported};
}

/// Throws if an option is set that does not apply to the source type: it would be silently ignored.
static void check_options(SourceType type, const ProgramOptions& options) {
  if (type == SourceType::ptx && !options.extra_sources.empty())
    throw std::invalid_argument{
        "extra_sources are modules of an NVVM program or headers of a C++ one, not for PTX code"};
  if (type != SourceType::nvvm && options.use_libdevice.value_or(false))
    throw std::invalid_argument{std::string{"use_libdevice is for NVVM programs, not for "} +
                                (type == SourceType::ptx ? "ptx" : "c++") + " code"};
  if (type != SourceType::nvvm) return;
  for (const auto& [name, source] : options.extra_sources)
    if (source.empty())
      throw std::invalid_argument{"extra_sources: the source of '" + name + "' is empty"};
}

Program::Program(std::string code, SourceType type, ProgramOptions options) {
  check_options(type, options);
  switch (type) {
    case SourceType::cxx:
      implementation_ = detail::make_nvrtc_program(std::move(code), std::move(options));
      break;
    case SourceType::ptx:
      implementation_ = detail::make_ptx_program(std::move(code), std::move(options));
      break;
    case SourceType::nvvm:
      implementation_ = detail::make_nvvm_program(std::move(code), std::move(options));
      break;
  }
}

ObjectCode Program::compile(CodeType target, std::span<const std::string> name_expressions,
                            std::string* log) {
  const std::lock_guard lock{implementation_->mutex};
  if (implementation_->closed) throw InvalidStateError{"this Program is closed"};
  std::string said;
  ObjectCode code = implementation_->compile(target, name_expressions, said);
  if (log != nullptr) *log = std::move(said);
  return code;
}

CompilerBackend Program::backend() const noexcept { return implementation_->backend(); }
SourceType Program::source_type() const noexcept { return implementation_->source_type(); }
const ProgramOptions& Program::options() const noexcept { return implementation_->options(); }
bool Program::is_closed() const noexcept { return implementation_->closed; }

void* Program::handle() const {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->closed ? nullptr : implementation_->handle();
}

std::optional<PCHStatus> Program::pch_status() const noexcept {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->pch_status;
}

void Program::close() noexcept {
  const std::lock_guard lock{implementation_->mutex};
  if (!implementation_->closed.exchange(true)) implementation_->release();
}

}  // namespace cucore
