// SPDX-License-Identifier: Apache-2.0
// program_ptx.cpp: PTX programs, compiled to machine code by a linker.
#include "core/program_implementation.hpp"
#include "core/program_options.hpp"
#include "cucore/linker.hpp"

namespace cucore::detail {

LinkerOptions linker_options(const ProgramOptions& o) {
  LinkerOptions options;
  options.name = o.name;
  options.arch = o.arch;
  options.max_register_count = o.max_register_count;
  if (o.time) options.time = true;
  options.link_time_optimization = o.link_time_optimization;
  options.debug = o.debug;
  options.lineinfo = o.lineinfo;
  options.ftz = o.ftz;
  options.prec_div = o.prec_div;
  options.prec_sqrt = o.prec_sqrt;
  options.fma = o.fma;
  options.ptxas_options = o.ptxas_options;
  options.split_compile = o.split_compile;
  options.no_cache = o.no_cache;
  options.numba_debug = o.numba_debug;
  if (o.device_code_optimize) options.optimization_level = *o.device_code_optimize ? 3 : 0;
  return options;
}

namespace {

class PtxProgram final : public Program::Implementation {
 public:
  PtxProgram(std::string code, ProgramOptions options)
      : Implementation{std::move(code), std::move(options)}, backend_{Linker::which_backend()} {}

  ObjectCode compile(CodeType target, std::span<const std::string> name_expressions,
                     std::string& log) override {
    if (target != CodeType::cubin && target != CodeType::ptx)
      refuse_target(target, SourceType::ptx, "'cubin' or 'ptx'");
    if (!name_expressions.empty())
      throw std::invalid_argument{
          "name_expressions are for C++ code; PTX names its kernels itself"};
    const ObjectCode ptx{CodeType::ptx, code_, options_.name};
    if (target == CodeType::ptx) return ptx;
    Linker linker{{ptx}, linker_options(options_)};
    ObjectCode code = linker.link(target);
    backend_ = linker.backend();
    log = linker.get_info_log();
    return code;
  }
  CompilerBackend backend() const noexcept override { return backend_; }
  SourceType source_type() const noexcept override { return SourceType::ptx; }
  void* handle() override { return nullptr; }
  void release() noexcept override {}

 private:
  CompilerBackend backend_;
};

}  // namespace

std::shared_ptr<Program::Implementation> make_ptx_program(std::string code,
                                                          ProgramOptions options) {
  return std::make_shared<PtxProgram>(std::move(code), std::move(options));
}

}  // namespace cucore::detail
