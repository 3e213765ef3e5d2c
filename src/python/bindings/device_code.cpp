// SPDX-License-Identifier: Apache-2.0
// device_code.cpp: NVRTC's and nvJitLink's cubins on the CPU device. Programs request a
// cubin for "sm_90"; the CPU device cannot run its machine code, so the cubin also carries the PTX
// (cucore/container.hpp).
#include "device_code.hpp"

#include <atomic>
#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/program_implementation.hpp"
#include "cucore/abi/nvjitlink.h"
#include "cucore/abi/nvrtc.h"
#include "cucore/container.hpp"
#include "cucore/linker.hpp"
#include "driver/mutex.hpp"
#include "library.hpp"

namespace cucore::bindings {
namespace {

/// A table by handle; never destroyed, since other threads may call until the process ends.
template <class Value>
class ByHandle {
 public:
  void set(void* handle, Value value) {
    const std::lock_guard lock{mutex_};
    values_.insert_or_assign(handle, std::move(value));
  }
  std::optional<Value> find(void* handle) {
    const std::lock_guard lock{mutex_};
    const auto found = values_.find(handle);
    return found != values_.end() ? std::optional<Value>{found->second} : std::nullopt;
  }
  void erase(void* handle) {
    const std::lock_guard lock{mutex_};
    values_.erase(handle);
  }

 private:
  detail::Mutex mutex_;
  std::unordered_map<void*, Value> values_;
};

/// The value of "-name=value" or "--name=value", where the option is that.
std::optional<std::string_view> value_of(std::string_view option, std::string_view name) {
  if (option.starts_with("--")) option.remove_prefix(1);
  if (!option.starts_with('-')) return std::nullopt;
  option.remove_prefix(1);
  if (!option.starts_with(name)) return std::nullopt;
  option.remove_prefix(name.size());
  if (!option.starts_with('=')) return std::nullopt;
  return option.substr(1);
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{number}
                                                                  : std::nullopt;
}

// ---- NVRTC

ByHandle<unsigned>& register_limits() {
  static auto* const table = new ByHandle<unsigned>;
  return *table;
}

using SizeFunction = nvrtcResult (*)(nvrtcProgram, std::size_t*);
using TextFunction = nvrtcResult (*)(nvrtcProgram, char*);
std::atomic<SizeFunction> nvrtc_cubin_size{nullptr};
std::atomic<TextFunction> nvrtc_cubin{nullptr};

template <class Function>
Function nvrtc_symbol(const char* name) {
  return reinterpret_cast<Function>(library_symbol("nvrtc", name));
}

nvrtcResult read(nvrtcProgram program, SizeFunction size_of, TextFunction get, std::string& out) {
  std::size_t size = 0;
  nvrtcResult code = size_of(program, &size);
  if (code != NVRTC_SUCCESS) return code;
  out.assign(size, '\0');
  return size == 0 ? NVRTC_SUCCESS : get(program, out.data());
}

/// What a program's cubin is on the CPU device. NVRTC has PTX too after it made machine code; where
/// it has none (LTO-IR), the cubin stays as it is.
nvrtcResult container_of(nvrtcProgram program, std::string& out) {
  static const auto cubin_size = nvrtc_symbol<SizeFunction>("nvrtcGetCUBINSize");
  static const auto get_cubin = nvrtc_symbol<TextFunction>("nvrtcGetCUBIN");
  static const auto ptx_size = nvrtc_symbol<SizeFunction>("nvrtcGetPTXSize");
  static const auto get_ptx = nvrtc_symbol<TextFunction>("nvrtcGetPTX");
  const nvrtcResult code = read(program, cubin_size, get_cubin, out);
  std::string ptx;
  if (code != NVRTC_SUCCESS || out.empty() ||
      read(program, ptx_size, get_ptx, ptx) != NVRTC_SUCCESS)
    return code;
  while (ptx.ends_with('\0')) ptx.pop_back();
  if (ptx.empty()) return code;
  if (const auto limit = register_limits().find(program)) ptx = limit_registers(ptx, *limit);
  out = make_container(out, ptx);
  return code;
}

nvrtcResult container_size(nvrtcProgram program, std::size_t* size) {
  if (size == nullptr || !detail::code_runs_on_the_cpu_device())
    return nvrtc_cubin_size.load(std::memory_order_relaxed)(program, size);
  try {
    std::string made;
    const nvrtcResult code = container_of(program, made);
    if (code == NVRTC_SUCCESS) *size = made.size();
    return code;
  } catch (const std::exception&) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
}

nvrtcResult container(nvrtcProgram program, char* cubin) {
  if (cubin == nullptr || !detail::code_runs_on_the_cpu_device())
    return nvrtc_cubin.load(std::memory_order_relaxed)(program, cubin);
  try {
    std::string made;
    const nvrtcResult code = container_of(program, made);
    if (code == NVRTC_SUCCESS) made.copy(cubin, made.size());
    return code;
  } catch (const std::exception&) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
}

// ---- nvJitLink

/// What a link was given, so that it can be done again for the CPU device.
struct Link {
  LinkerOptions options;
  std::vector<ObjectCode> inputs;
  std::optional<std::string> linked;  // made when first asked for
  detail::Mutex mutex;
};

ByHandle<std::shared_ptr<Link>>& links() {
  static auto* const table = new ByHandle<std::shared_ptr<Link>>;
  return *table;
}

std::atomic<decltype(&::nvJitLinkCreate)> jit_create{nullptr};
std::atomic<decltype(&::nvJitLinkDestroy)> jit_destroy{nullptr};
std::atomic<decltype(&::nvJitLinkAddData)> jit_add_data{nullptr};
std::atomic<decltype(&::nvJitLinkAddFile)> jit_add_file{nullptr};
std::atomic<decltype(&::nvJitLinkGetLinkedCubinSize)> jit_cubin_size{nullptr};
std::atomic<decltype(&::nvJitLinkGetLinkedCubin)> jit_cubin{nullptr};

bool is_true(std::string_view value) { return value == "1" || value == "true"; }

/// nvJitLink's command line as options of cuda.core's linker. What does not change the meaning of
/// code for the CPU device is left out.
LinkerOptions options_of(std::uint32_t count, const char** given) {
  LinkerOptions options;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view option{given[i]};
    if (const auto arch = value_of(option, "arch")) options.arch = std::string{*arch};
    if (const auto limit = value_of(option, "maxrregcount"))
      options.max_register_count = number_in(*limit);
    if (const auto value = value_of(option, "ftz")) options.ftz = is_true(*value);
    if (const auto value = value_of(option, "prec-div")) options.prec_div = is_true(*value);
    if (const auto value = value_of(option, "prec-sqrt")) options.prec_sqrt = is_true(*value);
    if (const auto value = value_of(option, "fma")) options.fma = is_true(*value);
    if (const auto value = value_of(option, "kernels-used"))
      options.kernels_used.emplace_back(*value);
    if (const auto value = value_of(option, "variables-used"))
      options.variables_used.emplace_back(*value);
    if (option == "-lto") options.link_time_optimization = true;
    if (option == "-g") options.debug = true;
    if (option == "-lineinfo") options.lineinfo = true;
    if (option == "-optimize-unused-variables") options.optimize_unused_variables = true;
  }
  return options;
}

/// NVJITLINK_INPUT_ANY: what the bytes begin with tells.
CodeType type_of_bytes(std::string_view bytes) {
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return CodeType::cubin;
  if (bytes.starts_with("!<arch>")) return CodeType::library;
  if (bytes.starts_with("\x50\xED\x55\xBA")) return CodeType::fatbin;
  return bytes.find(".version") != bytes.npos ? CodeType::ptx : CodeType::ltoir;
}

CodeType type_of(nvJitLinkInputType type, std::string_view bytes) {
  switch (type) {
    case NVJITLINK_INPUT_CUBIN:
      return CodeType::cubin;
    case NVJITLINK_INPUT_PTX:
      return CodeType::ptx;
    case NVJITLINK_INPUT_LTOIR:
      return CodeType::ltoir;
    case NVJITLINK_INPUT_FATBIN:
      return CodeType::fatbin;
    case NVJITLINK_INPUT_OBJECT:
      return CodeType::object;
    case NVJITLINK_INPUT_LIBRARY:
      return CodeType::library;
    default:
      return type_of_bytes(bytes);
  }
}

nvJitLinkResult link_create(nvJitLinkHandle* handle, std::uint32_t count, const char** options) {
  const nvJitLinkResult code = jit_create.load(std::memory_order_relaxed)(handle, count, options);
  if (code != NVJITLINK_SUCCESS || !detail::code_runs_on_the_cpu_device()) return code;
  try {
    auto link = std::make_shared<Link>();
    link->options = options_of(count, options);
    links().set(*handle, std::move(link));
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
  return code;
}

nvJitLinkResult link_destroy(nvJitLinkHandle* handle) {
  if (handle != nullptr) links().erase(*handle);
  return jit_destroy.load(std::memory_order_relaxed)(handle);
}

/// Passes an input to nvJitLink too, whose errors and logs the program reads. A container may hold
/// no machine code: then nvJitLink gets its PTX.
nvJitLinkResult add(Link& link, nvJitLinkHandle handle, nvJitLinkInputType type, std::string bytes,
                    const std::string& name) {
  const auto real = jit_add_data.load(std::memory_order_relaxed);
  nvJitLinkResult code = NVJITLINK_SUCCESS;
  const std::vector<std::string_view> modules = ptx_of_container(bytes);
  for (const std::string_view module : modules) {
    const std::string text{module};  // ends with a zero, which is counted
    code = real(handle, NVJITLINK_INPUT_PTX, text.c_str(), text.size() + 1, name.c_str());
    if (code != NVJITLINK_SUCCESS) return code;
  }
  if (modules.empty()) code = real(handle, type, bytes.data(), bytes.size(), name.c_str());
  if (code != NVJITLINK_SUCCESS) return code;
  const CodeType kind = type_of(type, bytes);
  if (kind == CodeType::ptx)
    while (bytes.ends_with('\0')) bytes.pop_back();
  const std::lock_guard lock{link.mutex};
  link.inputs.emplace_back(kind, std::move(bytes), name);
  return code;
}

nvJitLinkResult link_add_data(nvJitLinkHandle handle, nvJitLinkInputType type, const void* data,
                              std::size_t size, const char* name) {
  const auto real = jit_add_data.load(std::memory_order_relaxed);
  const auto link = links().find(handle);
  if (!link || data == nullptr) return real(handle, type, data, size, name);
  try {
    return add(**link, handle, type, std::string{static_cast<const char*>(data), size},
               name != nullptr ? name : "");
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
}

nvJitLinkResult link_add_file(nvJitLinkHandle handle, nvJitLinkInputType type, const char* name) {
  const auto real = jit_add_file.load(std::memory_order_relaxed);
  const auto link = links().find(handle);
  if (!link || name == nullptr) return real(handle, type, name);
  try {
    std::ifstream file{name, std::ios::binary};
    if (!file) return real(handle, type, name);
    std::string bytes{std::istreambuf_iterator<char>{file}, {}};
    if (jit_add_data.load(std::memory_order_relaxed) == nullptr)
      jit_add_data.store(reinterpret_cast<decltype(&::nvJitLinkAddData)>(
                             library_symbol("nvJitLink", "nvJitLinkAddData")),
                         std::memory_order_relaxed);
    if (type_of(type, bytes) == CodeType::ptx) bytes.push_back('\0');
    return add(**link, handle, type, std::move(bytes), name);
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
}

/// The linked program as a container; null where the library's own cubin is the answer.
const std::string* linked_container(nvJitLinkHandle handle, std::shared_ptr<Link>& link) {
  const auto found = links().find(handle);
  if (!found) return nullptr;
  link = *found;
  const std::lock_guard lock{link->mutex};
  if (link->linked) return link->linked->empty() ? nullptr : &*link->linked;
  link->linked.emplace();
  try {
    link->linked = Linker{link->inputs, link->options}.link(CodeType::cubin).code();
  } catch (const std::exception&) {
    // Machine code without PTX among the inputs. The library's cubin is then what there is, and the
    // CPU device says when it is loaded why it cannot run it.
    return nullptr;
  }
  return &*link->linked;
}

nvJitLinkResult linked_size(nvJitLinkHandle handle, std::size_t* size) {
  const nvJitLinkResult code = jit_cubin_size.load(std::memory_order_relaxed)(handle, size);
  if (code != NVJITLINK_SUCCESS) return code;  // nothing linked so far, or not with success
  std::shared_ptr<Link> link;
  if (const std::string* made = linked_container(handle, link)) *size = made->size();
  return code;
}

nvJitLinkResult linked_cubin(nvJitLinkHandle handle, void* cubin) {
  std::shared_ptr<Link> link;
  const std::string* const made = cubin != nullptr ? linked_container(handle, link) : nullptr;
  if (made == nullptr) return jit_cubin.load(std::memory_order_relaxed)(handle, cubin);
  made->copy(static_cast<char*>(cubin), made->size());
  return NVJITLINK_SUCCESS;
}

template <class Function>
void* replace(std::atomic<Function>& real, void* address, Function ours) {
  real.store(reinterpret_cast<Function>(address), std::memory_order_relaxed);
  return reinterpret_cast<void*>(ours);
}

}  // namespace

void* device_code_in_place_of(std::string_view function, void* address) {
  if (function == "nvrtcGetCUBINSize")
    return replace(nvrtc_cubin_size, address, SizeFunction{&container_size});
  if (function == "nvrtcGetCUBIN") return replace(nvrtc_cubin, address, TextFunction{&container});
  if (function == "nvJitLinkCreate") return replace(jit_create, address, &link_create);
  if (function == "nvJitLinkDestroy") return replace(jit_destroy, address, &link_destroy);
  if (function == "nvJitLinkAddData") return replace(jit_add_data, address, &link_add_data);
  if (function == "nvJitLinkAddFile") return replace(jit_add_file, address, &link_add_file);
  if (function == "nvJitLinkGetLinkedCubinSize")
    return replace(jit_cubin_size, address, &linked_size);
  if (function == "nvJitLinkGetLinkedCubin") return replace(jit_cubin, address, &linked_cubin);
  return nullptr;
}

void note_compilation(void* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    const std::string_view option{options[i] != nullptr ? options[i] : ""};
    std::optional<std::string_view> limit = value_of(option, "maxrregcount");
    const bool apart = option == "-maxrregcount" || option == "--maxrregcount";
    if (apart && i + 1 < count) limit = options[i + 1];
    const std::optional<int> number = limit ? number_in(*limit) : std::nullopt;
    if (number && *number > 0)
      return register_limits().set(program, static_cast<unsigned>(*number));
  }
  register_limits().erase(program);
}

void forget_compilation(void* program) { register_limits().erase(program); }

}  // namespace cucore::bindings
