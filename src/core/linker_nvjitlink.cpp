// SPDX-License-Identifier: Apache-2.0
// linker_nvjitlink.cpp: links with nvJitLink.
#include <algorithm>

#include "core/linker_implementation.hpp"
#include "core/nvjitlink.hpp"

namespace cucore::detail {
namespace {

nvJitLinkInputType input_type(CodeType type) {
  switch (type) {
    case CodeType::ptx:
      return NVJITLINK_INPUT_PTX;
    case CodeType::cubin:
      return NVJITLINK_INPUT_CUBIN;
    case CodeType::ltoir:
      return NVJITLINK_INPUT_LTOIR;
    case CodeType::fatbin:
      return NVJITLINK_INPUT_FATBIN;
    case CodeType::object:
      return NVJITLINK_INPUT_OBJECT;
    case CodeType::library:
      return NVJITLINK_INPUT_LIBRARY;
  }
  return NVJITLINK_INPUT_NONE;
}

const char* result_text(nvJitLinkResult code) {
  switch (code) {
#define CUCORE_NAME(name) \
  case name:              \
    return #name;
    CUCORE_NAME(NVJITLINK_SUCCESS)
    CUCORE_NAME(NVJITLINK_ERROR_UNRECOGNIZED_OPTION)
    CUCORE_NAME(NVJITLINK_ERROR_MISSING_ARCH)
    CUCORE_NAME(NVJITLINK_ERROR_INVALID_INPUT)
    CUCORE_NAME(NVJITLINK_ERROR_PTX_COMPILE)
    CUCORE_NAME(NVJITLINK_ERROR_NVVM_COMPILE)
    CUCORE_NAME(NVJITLINK_ERROR_INTERNAL)
    CUCORE_NAME(NVJITLINK_ERROR_THREADPOOL)
    CUCORE_NAME(NVJITLINK_ERROR_UNRECOGNIZED_INPUT)
    CUCORE_NAME(NVJITLINK_ERROR_FINALIZE)
    CUCORE_NAME(NVJITLINK_ERROR_NULL_INPUT)
    CUCORE_NAME(NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS)
    CUCORE_NAME(NVJITLINK_ERROR_INCORRECT_INPUT_TYPE)
    CUCORE_NAME(NVJITLINK_ERROR_ARCH_MISMATCH)
    CUCORE_NAME(NVJITLINK_ERROR_OUTDATED_LIBRARY)
    CUCORE_NAME(NVJITLINK_ERROR_MISSING_FATBIN)
    CUCORE_NAME(NVJITLINK_ERROR_UNRECOGNIZED_ARCH)
    CUCORE_NAME(NVJITLINK_ERROR_UNSUPPORTED_ARCH)
    CUCORE_NAME(NVJITLINK_ERROR_LTO_NOT_ENABLED)
#undef CUCORE_NAME
  }
  return "NVJITLINK_ERROR_UNKNOWN_CODE";
}

/// Converts "-ftz=true" to "-ftz=1": LinkerOptions uses true and false as NVIDIA's package does,
/// nvJitLink takes numbers.
std::string with_number(std::string flag) {
  for (const char* name : {"-ftz=", "-prec-div=", "-prec-sqrt=", "-fma="}) {
    if (flag.starts_with(name)) return name + std::string{flag.ends_with("=true") ? "1" : "0"};
  }
  return flag;
}

class Session {
 public:
  explicit Session(Linker::Implementation& job) : job_{job} {}

  std::string run(const std::vector<ObjectCode>& inputs, const std::vector<std::string>& flags,
                  CodeType target) {
    std::vector<std::string> given;
    for (const auto& flag : flags) given.push_back(with_number(flag));
    std::vector<const char*> pointers;
    for (const auto& flag : given) pointers.push_back(flag.c_str());
    nvJitLinkHandle created = nullptr;
    const nvJitLinkResult code = table_.nvJitLinkCreate(
        &created, static_cast<std::uint32_t>(pointers.size()), pointers.data());
    if (created != nullptr) {
      handle_ = created;
      job_.state = std::shared_ptr<void>{created, [](void* raw) {
                                           auto handle = static_cast<nvJitLinkHandle>(raw);
                                           NvJitLink::get().nvJitLinkDestroy(&handle);
                                         }};
    }
    check(code, "nvJitLinkCreate");
    for (const ObjectCode& input : inputs) {
      std::string name = input.name().empty()
                             ? std::string{"unnamed "} + code_type_name(input.code_type())
                             : input.name();
      const std::string& bytes = input.code();
      // The size of PTX includes its null terminator.
      const std::size_t size = bytes.size() + (input.code_type() == CodeType::ptx ? 1 : 0);
      check(table_.nvJitLinkAddData(handle_, input_type(input.code_type()), bytes.c_str(), size,
                                    name.c_str()),
            "nvJitLinkAddData");
    }
    check(table_.nvJitLinkComplete(handle_), "nvJitLinkComplete");
    std::size_t size = 0;
    std::string result;
    if (target == CodeType::ptx) {
      check(table_.nvJitLinkGetLinkedPtxSize(handle_, &size), "nvJitLinkGetLinkedPtxSize");
      result.resize(size);
      check(table_.nvJitLinkGetLinkedPtx(handle_, result.data()), "nvJitLinkGetLinkedPtx");
      while (result.ends_with('\0')) result.pop_back();
    } else {
      check(table_.nvJitLinkGetLinkedCubinSize(handle_, &size), "nvJitLinkGetLinkedCubinSize");
      result.resize(size);
      check(table_.nvJitLinkGetLinkedCubin(handle_, result.data()), "nvJitLinkGetLinkedCubin");
    }
    read_logs();
    return result;
  }

 private:
  void check(nvJitLinkResult code, const char* call) {
    if (code == NVJITLINK_SUCCESS) return;
    read_logs();
    fail_link(static_cast<int>(code), std::string{result_text(code)} + " (" + call + ")", job_);
  }

  using SizeFunction = decltype(NvJitLink::nvJitLinkGetErrorLogSize);
  using TextFunction = decltype(NvJitLink::nvJitLinkGetErrorLog);
  std::string read(SizeFunction size_of, TextFunction get) const {
    std::size_t size = 0;
    if (handle_ == nullptr || size_of(handle_, &size) != NVJITLINK_SUCCESS || size == 0) return {};
    std::string text(size, '\0');
    if (get(handle_, text.data()) != NVJITLINK_SUCCESS) return {};
    while (text.ends_with('\0')) text.pop_back();
    return text;
  }
  void read_logs() {
    job_.error_log = read(table_.nvJitLinkGetErrorLogSize, table_.nvJitLinkGetErrorLog);
    job_.info_log = read(table_.nvJitLinkGetInfoLogSize, table_.nvJitLinkGetInfoLog);
  }

  const NvJitLink& table_ = NvJitLink::get();
  Linker::Implementation& job_;
  nvJitLinkHandle handle_ = nullptr;
};

}  // namespace

std::string link_with_nvjitlink(Linker::Implementation& job, const std::vector<ObjectCode>& inputs,
                                CodeType target) {
  job.backend = CompilerBackend::nvjitlink;
  auto flags = job.options.flags();
  const auto add = [&flags](const char* flag) {
    if (std::ranges::find(flags, flag) == flags.end()) flags.emplace_back(flag);
  };
  if (std::ranges::find(inputs, CodeType::ltoir, &ObjectCode::code_type) != inputs.end())
    add("-lto");
  if (target == CodeType::ptx) add("-ptx");
  return Session{job}.run(inputs, flags, target);
}

}  // namespace cucore::detail
