// SPDX-License-Identifier: Apache-2.0
// linker.cpp: selects the back end of a link.
#include "cucore/linker.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "core/linker_implementation.hpp"
#include "core/nvjitlink.hpp"
#include "core/program_implementation.hpp"
#include "core/ptx_functions.hpp"
#include "cucore/container.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

using Names = std::set<std::string, std::less<>>;

/// Returns the functions that the PTX inputs declare `.extern` and do not define.
Names functions_wanted_by(const std::vector<ObjectCode>& inputs) {
  Names wanted;
  Names defined;
  const auto add = [&](std::string_view ptx) {
    detail::PtxFunctions found = detail::functions_of_ptx(ptx);
    wanted.merge(found.external);
    defined.merge(found.defined);
  };
  for (const ObjectCode& input : inputs) {
    if (input.code_type() == CodeType::ptx) add(input.code());
    for (const std::string_view module : ptx_of_container(input.code())) add(module);
  }
  // The device provides malloc, free, vprintf, __assertfail and cuda*.
  std::erase_if(wanted, [&](const std::string& name) {
    return defined.contains(name) || name == "malloc" || name == "free" || name == "vprintf" ||
           name == "__assertfail" || name.starts_with("cuda");
  });
  return wanted;
}

/// Compiles LTO-IR that only references these functions.
ObjectCode references_to(const Names& names, const LinkerOptions& options) {
  std::string source, list;
  for (const std::string& name : names) {
    source += "extern \"C\" __device__ void " + name + "();\n";
    list += name + ", ";
  }
  source += "__device__ void (*__cucore_referenced_functions[])() = {" + list + "};\n";
  ProgramOptions how;
  how.arch = options.arch;
  how.relocatable_device_code = true;
  return Program{std::move(source), SourceType::cxx, std::move(how)}.compile(CodeType::ltoir);
}

/// Compiles LTO-IR to PTX for a link with `rest`. The optimizer removes functions that no LTO-IR
/// calls, and does not see calls in PTX. Therefore a second link includes a module that references
/// them.
std::string ptx_of_ltoir(Linker::Implementation& job, std::vector<ObjectCode> lto,
                         const std::vector<ObjectCode>& rest) {
  std::string ptx = detail::link_with_nvjitlink(job, lto, CodeType::ptx);
  Names wanted = functions_wanted_by(rest);
  const detail::PtxFunctions first = detail::functions_of_ptx(ptx);
  std::erase_if(wanted, [&](const auto& name) { return first.external.contains(name); });
  lto.emplace_back(lto.front());  // placeholder for the references
  while (!wanted.empty()) {
    lto.back() = references_to(wanted, job.options);
    ptx = detail::link_with_nvjitlink(job, lto, CodeType::ptx);
    const Names defined = detail::functions_of_ptx(ptx).defined;
    // Functions that no LTO-IR defines must not be declared here: the declaration above has no
    // types.
    if (std::erase_if(wanted, [&](const auto& name) { return !defined.contains(name); }) == 0)
      return detail::make_functions_visible(ptx, wanted);
    if (wanted.empty()) {
      lto.pop_back();
      return detail::link_with_nvjitlink(job, lto, CodeType::ptx);
    }
  }
  return ptx;
}

/// Links on the CPU device. nvJitLink compiles LTO-IR to PTX first; the driver merges the rest.
std::string link_for_cpu_device(Linker::Implementation& job, CodeType target) {
  std::vector<ObjectCode> lto;
  std::vector<ObjectCode> rest;
  for (const ObjectCode& input : job.inputs)
    (input.code_type() == CodeType::ltoir ? lto : rest).push_back(input);
  if (lto.empty()) {
    if (target == CodeType::ptx) return detail::link_with_nvjitlink(job, rest, target);
    return detail::link_with_driver(job, rest, target);
  }
  if (!rest.empty() && target == CodeType::ptx) {
    throw std::invalid_argument{
        "the CPU device cannot make one PTX text of LTO-IR and other code: link to 'cubin'"};
  }
  std::string ptx = ptx_of_ltoir(job, lto, rest);
  if (!rest.empty()) {
    rest.emplace_back(CodeType::ptx, std::move(ptx), "linked LTO-IR");
    auto options = std::exchange(job.options, {});
    job.options.name = options.name;
    job.options.arch = options.arch;
    std::string merged = detail::link_with_driver(job, rest, CodeType::cubin);
    job.options = std::move(options);
    return merged;
  }
  if (target == CodeType::ptx) return ptx;
  if (job.options.max_register_count)
    ptx = limit_registers(ptx, static_cast<unsigned>(*job.options.max_register_count));
  return make_container({}, ptx);
}

/// Checks for "sm_90", "compute_90" or "lto_90", optionally with the suffix "a" or "f" for
/// architecture-specific features. nvJitLink and the driver would treat other text as no
/// architecture.
void require_arch(const std::string& arch) {
  for (const std::string_view kind : {"sm_", "compute_", "lto_"}) {
    if (!arch.starts_with(kind)) continue;
    std::string_view number = std::string_view{arch}.substr(kind.size());
    if (number.ends_with('a') || number.ends_with('f')) number.remove_suffix(1);
    if (number.size() >= 2 && number.size() <= 3 &&
        number.find_first_not_of("0123456789") == std::string_view::npos)
      return;
  }
  throw std::invalid_argument{
      "LinkerOptions.arch must be an architecture like 'sm_90' or "
      "'compute_90', not '" +
      arch + "'"};
}

}  // namespace

void detail::fail_link(int code, const std::string& what, const Linker::Implementation& job) {
  std::string text = what + " while linking " + job.options.name;
  if (!job.error_log.empty()) text += "\n\nLinker error log: " + job.error_log;
  throw CUDAError{code, what.substr(0, what.find_first_of(" :")), text, {}, job.options.name};
}

Linker::Linker(std::vector<ObjectCode> inputs, LinkerOptions options)
    : implementation_{std::make_shared<Implementation>()} {
  if (inputs.empty()) throw std::invalid_argument{"a linker needs at least one ObjectCode"};
  if (options.arch) require_arch(*options.arch);
  implementation_->inputs = std::move(inputs);
  implementation_->options = std::move(options);
  implementation_->backend = which_backend();
}

CompilerBackend Linker::which_backend() {
  return detail::NvJitLink::is_available() ? CompilerBackend::nvjitlink : CompilerBackend::driver;
}

ObjectCode Linker::link(CodeType target) {
  Implementation& job = *implementation_;
  const std::lock_guard lock{job.mutex};
  if (job.closed) throw InvalidStateError{"this Linker is closed"};
  if (job.linked) throw InvalidStateError{"this Linker has linked already: make a new one"};
  if (target != CodeType::cubin && target != CodeType::ptx) {
    throw std::invalid_argument{std::string{"Unsupported target type: "} + code_type_name(target) +
                                "; it must be 'cubin' or 'ptx'"};
  }
  job.linked = true;
  std::string bytes;
  if (detail::code_runs_on_the_cpu_device()) {
    bytes = link_for_cpu_device(job, target);
  } else if (which_backend() == CompilerBackend::nvjitlink) {
    bytes = detail::link_with_nvjitlink(job, job.inputs, target);
  } else {
    bytes = detail::link_with_driver(job, job.inputs, target);
  }
  SymbolMapping mapping;
  for (const ObjectCode& input : job.inputs)
    mapping.insert(input.symbol_mapping().begin(), input.symbol_mapping().end());
  return {target, std::move(bytes), job.options.name, std::move(mapping)};
}

std::string Linker::get_error_log() const {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->error_log;
}

std::string Linker::get_info_log() const {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->info_log;
}

void* Linker::handle() const noexcept {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->state.get();
}

CompilerBackend Linker::backend() const noexcept {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->backend;
}

bool Linker::is_closed() const noexcept {
  const std::lock_guard lock{implementation_->mutex};
  return implementation_->closed;
}

void Linker::close() noexcept {
  const std::lock_guard lock{implementation_->mutex};
  implementation_->closed = true;
  implementation_->state.reset();
}

}  // namespace cucore
