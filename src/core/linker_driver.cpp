// SPDX-License-Identifier: Apache-2.0
// linker_driver.cpp: links with the driver, which on the CPU device merges PTX modules.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "core/linker_implementation.hpp"
#include "core/program_implementation.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {
namespace {

constexpr std::size_t kLogBytes = 16384;

CUjitInputType input_type(const ObjectCode& code) {
  switch (code.code_type()) {
    case CodeType::ptx:
      return CU_JIT_INPUT_PTX;
    case CodeType::cubin:
      return CU_JIT_INPUT_CUBIN;
    case CodeType::fatbin:
      return CU_JIT_INPUT_FATBINARY;
    case CodeType::object:
      return CU_JIT_INPUT_OBJECT;
    case CodeType::library:
      return CU_JIT_INPUT_LIBRARY;
    case CodeType::ltoir:
      break;
  }
  throw std::invalid_argument{
      "the driver cannot link LTO-IR: install nvJitLink (pip install nvidia-nvjitlink)"};
}

/// The option list of cuLinkCreate: two parallel arrays.
class JitOptions {
 public:
  void add(CUjit_option option, std::uintptr_t value) {
    names_.push_back(option);
    values_.push_back(reinterpret_cast<void*>(value));
  }
  void add(CUjit_option option, const std::optional<bool>& value) {
    if (value) add(option, static_cast<std::uintptr_t>(*value));
  }
  unsigned size() const { return static_cast<unsigned>(names_.size()); }
  CUjit_option* names() { return names_.data(); }
  void** values() { return values_.data(); }

 private:
  std::vector<CUjit_option> names_;
  std::vector<void*> values_;
};

/// Throws if options are set that the driver's linker does not support. The CPU device accepts
/// them, because it compiles the merged PTX itself and they only affect a linker that it does not
/// use.
void refuse_unsupported(const LinkerOptions& o) {
  if (code_runs_on_the_cpu_device()) return;
  std::string names;
  const auto refuse = [&names](bool is_set, const char* name) {
    if (is_set) names += (names.empty() ? "" : ", ") + std::string{name};
  };
  refuse(o.link_time_optimization.value_or(false), "link_time_optimization");
  refuse(o.ptx.value_or(false), "ptx");
  refuse(!o.ptxas_options.empty(), "ptxas_options");
  refuse(o.split_compile.has_value(), "split_compile");
  refuse(o.split_compile_extended.has_value(), "split_compile_extended");
  if (!names.empty())
    throw std::invalid_argument{
        "these options need nvJitLink, the driver's linker does not have them: " + names};
}

/// Keeps a context current, which the driver's linker requires: the primary context of device 0 if
/// the thread has none.
class BorrowedContext {
 public:
  BorrowedContext() {
    CUcontext current = nullptr;
    CUCORE_CALL(cuCtxGetCurrent(&current));
    if (current != nullptr) return;
    CUCORE_CALL(cuDeviceGet(&device_, 0));
    CUCORE_CALL(cuDevicePrimaryCtxRetain(&current, device_));
    retained_ = true;
    if (const CUresult code = driver().cuCtxPushCurrent(current); code != CUDA_SUCCESS) {
      driver().cuDevicePrimaryCtxRelease(device_);
      fail(code, "cuCtxPushCurrent");
    }
  }
  BorrowedContext(const BorrowedContext&) = delete;
  BorrowedContext& operator=(const BorrowedContext&) = delete;
  ~BorrowedContext() {
    if (!retained_) return;
    CUcontext popped = nullptr;
    driver().cuCtxPopCurrent(&popped);
    driver().cuDevicePrimaryCtxRelease(device_);
  }

 private:
  CUdevice device_ = 0;
  bool retained_ = false;
};

}  // namespace

std::string link_with_driver(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                             CodeType target) {
  job.backend = CompilerBackend::driver;
  if (target != CodeType::cubin)
    throw std::invalid_argument{
        "the driver's linker makes cubins only: link to 'cubin', or install nvJitLink (pip install "
        "nvidia-nvjitlink)"};
  const LinkerOptions& o = job.options;
  refuse_unsupported(o);

  std::string info(kLogBytes, '\0');
  std::string error(kLogBytes, '\0');
  JitOptions options;
  options.add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<std::uintptr_t>(info.data()));
  options.add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, kLogBytes);
  options.add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<std::uintptr_t>(error.data()));
  options.add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, kLogBytes);
  if (o.arch && o.arch->starts_with("sm_")) {
    options.add(CU_JIT_TARGET,
                static_cast<std::uintptr_t>(std::strtoul(o.arch->c_str() + 3, nullptr, 10)));
  }
  if (o.max_register_count)
    options.add(CU_JIT_MAX_REGISTERS, static_cast<std::uintptr_t>(*o.max_register_count));
  if (o.optimization_level)
    options.add(CU_JIT_OPTIMIZATION_LEVEL, static_cast<std::uintptr_t>(*o.optimization_level));
  options.add(CU_JIT_LOG_VERBOSE, o.verbose);
  options.add(CU_JIT_GENERATE_DEBUG_INFO, o.debug);
  options.add(CU_JIT_GENERATE_LINE_INFO, o.lineinfo);
  if (o.no_cache.value_or(false))
    options.add(CU_JIT_CACHE_MODE, static_cast<std::uintptr_t>(CU_JIT_CACHE_OPTION_NONE));

  const BorrowedContext context;
  const auto keep_logs = [&] {
    job.info_log = info.c_str();
    job.error_log = error.c_str();
  };
  const auto check_link = [&](CUresult code, const char* call) {
    if (code == CUDA_SUCCESS) return;
    keep_logs();
    fail_link(static_cast<int>(code),
              std::string{result_name(code)} + ": " + result_text(code) + " (" + call + ")", job);
  };
  CUlinkState state = nullptr;
  check_link(driver().cuLinkCreate(options.size(), options.names(), options.values(), &state),
             "cuLinkCreate");
  const std::shared_ptr<void> owner{
      state, [](void* raw) { driver().cuLinkDestroy(static_cast<CUlinkState>(raw)); }};
  for (const ObjectCode& input : inputs) {
    std::string data = input.code();  // a copy, because the driver takes non-const data
    const CUjitInputType type = input_type(input);
    if (type == CU_JIT_INPUT_PTX) data.push_back('\0');
    check_link(driver().cuLinkAddData(state, type, data.data(), data.size(), input.name().c_str(),
                                      0, nullptr, nullptr),
               "cuLinkAddData");
  }
  void* cubin = nullptr;
  std::size_t size = 0;
  check_link(driver().cuLinkComplete(state, &cubin, &size), "cuLinkComplete");
  keep_logs();
  return {static_cast<const char*>(cubin), size};  // the driver frees its copy with the link state
}

}  // namespace cucore::detail
