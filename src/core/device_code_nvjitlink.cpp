// SPDX-License-Identifier: Apache-2.0
// device_code_nvjitlink.cpp: nvJitLink's cubins on the CPU device. nvJitLink keeps no PTX, so its
// inputs are recorded and linked again by cuda.core's linker, which merges PTX on the CPU device.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "core/device_code.hpp"
#include "core/program_implementation.hpp"
#include "core/replacement.hpp"
#include "cucore/abi/nvjitlink.h"
#include "cucore/container.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/linker.hpp"

namespace cucore::detail {
namespace {

struct NvJitLinkFunctions {
  decltype(&::nvJitLinkCreate) create = nullptr;
  decltype(&::nvJitLinkDestroy) destroy = nullptr;
  decltype(&::nvJitLinkAddData) add_data = nullptr;
  decltype(&::nvJitLinkAddFile) add_file = nullptr;
  decltype(&::nvJitLinkGetLinkedCubinSize) cubin_size = nullptr;
  decltype(&::nvJitLinkGetLinkedCubin) cubin = nullptr;

  void load(void* library) {
    find_function(library, create, "nvJitLinkCreate");
    find_function(library, destroy, "nvJitLinkDestroy");
    find_function(library, add_data, "nvJitLinkAddData");
    find_function(library, add_file, "nvJitLinkAddFile");
    find_function(library, cubin_size, "nvJitLinkGetLinkedCubinSize");
    find_function(library, cubin, "nvJitLinkGetLinkedCubin");
  }
};

/// The inputs and options of a link, recorded so that it can be repeated for the CPU device.
struct Link {
  LinkerOptions options;
  std::vector<ObjectCode> inputs;
  std::optional<std::string> linked;  // created on first use
  Mutex mutex;
};

ByHandle<std::shared_ptr<Link>>& links() {
  static auto* const table = new ByHandle<std::shared_ptr<Link>>;
  return *table;
}

bool is_true(std::string_view value) { return value == "1" || value == "true"; }

/// Converts nvJitLink's command line to options of cuda.core's linker. Options that do not change
/// the meaning of code on the CPU device are ignored.
LinkerOptions options_of(std::uint32_t count, const char** given) {
  LinkerOptions options;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view option{given[i]};
    if (const auto arch = value_of_option(option, "arch")) options.arch = std::string{*arch};
    if (const auto limit = value_of_option(option, "maxrregcount"))
      options.max_register_count = number_in(*limit);
    if (const auto value = value_of_option(option, "ftz")) options.ftz = is_true(*value);
    if (const auto value = value_of_option(option, "prec-div")) options.prec_div = is_true(*value);
    if (const auto value = value_of_option(option, "prec-sqrt"))
      options.prec_sqrt = is_true(*value);
    if (const auto value = value_of_option(option, "fma")) options.fma = is_true(*value);
    if (const auto value = value_of_option(option, "kernels-used"))
      options.kernels_used.emplace_back(*value);
    if (const auto value = value_of_option(option, "variables-used"))
      options.variables_used.emplace_back(*value);
    if (option == "-lto") options.link_time_optimization = true;
    if (option == "-g") options.debug = true;
    if (option == "-lineinfo") options.lineinfo = true;
    if (option == "-optimize-unused-variables") options.optimize_unused_variables = true;
  }
  return options;
}

/// Determines the type of an NVJITLINK_INPUT_ANY input from its first bytes.
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

nvJitLinkResult link_create(const NvJitLinkFunctions& library, nvJitLinkHandle* handle,
                            std::uint32_t count, const char** options) {
  const nvJitLinkResult code = library.create(handle, count, options);
  if (code != NVJITLINK_SUCCESS || !code_runs_on_the_cpu_device()) return code;
  try {
    auto link = std::make_shared<Link>();
    link->options = options_of(count, options);
    links().set(*handle, std::move(link));
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
  return code;
}

nvJitLinkResult link_destroy(const NvJitLinkFunctions& library, nvJitLinkHandle* handle) {
  if (handle != nullptr) links().erase(*handle);
  return library.destroy(handle);
}

/// Passes an input on to nvJitLink as well, because the program reads nvJitLink's errors and logs.
/// If a container holds no machine code, nvJitLink receives its PTX.
nvJitLinkResult add(const NvJitLinkFunctions& library, Link& link, nvJitLinkHandle handle,
                    nvJitLinkInputType type, std::string bytes, const std::string& name) {
  const auto real = library.add_data;
  nvJitLinkResult code = NVJITLINK_SUCCESS;
  const std::vector<std::string_view> modules = ptx_of_container(bytes);
  for (const std::string_view module : modules) {
    const std::string text{module};  // null-terminated; the terminator counts
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

nvJitLinkResult link_add_data(const NvJitLinkFunctions& library, nvJitLinkHandle handle,
                              nvJitLinkInputType type, const void* data, std::size_t size,
                              const char* name) {
  const auto real = library.add_data;
  const auto link = links().find(handle);
  if (!link || data == nullptr) return real(handle, type, data, size, name);
  try {
    return add(library, **link, handle, type, std::string{static_cast<const char*>(data), size},
               name != nullptr ? name : "");
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
}

nvJitLinkResult link_add_file(const NvJitLinkFunctions& library, nvJitLinkHandle handle,
                              nvJitLinkInputType type, const char* name) {
  const auto real = library.add_file;
  const auto link = links().find(handle);
  if (!link || name == nullptr) return real(handle, type, name);
  try {
    std::ifstream file{name, std::ios::binary};
    if (!file) return real(handle, type, name);
    std::string bytes{std::istreambuf_iterator<char>{file}, {}};
    if (type_of(type, bytes) == CodeType::ptx) bytes.push_back('\0');
    return add(library, **link, handle, type, std::move(bytes), name);
  } catch (const std::exception&) {
    return NVJITLINK_ERROR_INTERNAL;
  }
}

/// Makes a context current for the link on the CPU device, which needs one although nvJitLink does
/// not. Keeps the thread's current context if there is one; otherwise the primary context of device
/// 0 is current for the lifetime of this object.
class LinkContext {
 public:
  LinkContext() {
    CUcontext current = nullptr;
    if (driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) return;
    CUCORE_CALL(cuInit(0));
    CUdevice first = 0;
    CUCORE_CALL(cuDeviceGet(&first, 0));
    CUCORE_CALL(cuDevicePrimaryCtxRetain(&current, first));
    device_ = first;
    if (const CUresult code = driver().cuCtxPushCurrent(current); code != CUDA_SUCCESS) {
      driver().cuDevicePrimaryCtxRelease(first);
      check(code, "cuCtxPushCurrent");
    }
  }
  ~LinkContext() {
    if (!device_) return;
    CUcontext popped = nullptr;
    driver().cuCtxPopCurrent(&popped);
    driver().cuDevicePrimaryCtxRelease(*device_);
  }
  LinkContext(const LinkContext&) = delete;
  LinkContext& operator=(const LinkContext&) = delete;

 private:
  std::optional<CUdevice> device_;
};

/// Returns the linked program as a container, or null if the library's own cubin is to be returned.
const std::string* linked_container(nvJitLinkHandle handle, std::shared_ptr<Link>& link) {
  const auto found = links().find(handle);
  if (!found) return nullptr;
  link = *found;
  const std::lock_guard lock{link->mutex};
  if (link->linked) return link->linked->empty() ? nullptr : &*link->linked;
  link->linked.emplace();
  try {
    const LinkContext context;
    link->linked = Linker{link->inputs, link->options}.link(CodeType::cubin).code();
  } catch (const std::exception&) {
    // The inputs contain machine code without PTX. Return the library's cubin; loading it on the
    // CPU device fails with an error that explains why.
    return nullptr;
  }
  return &*link->linked;
}

nvJitLinkResult linked_size(const NvJitLinkFunctions& library, nvJitLinkHandle handle,
                            std::size_t* size) {
  const nvJitLinkResult code = library.cubin_size(handle, size);
  if (code != NVJITLINK_SUCCESS) return code;  // nothing linked yet, or the link failed
  std::shared_ptr<Link> link;
  if (const std::string* made = linked_container(handle, link)) *size = made->size();
  return code;
}

nvJitLinkResult linked_cubin(const NvJitLinkFunctions& library, nvJitLinkHandle handle,
                             void* cubin) {
  std::shared_ptr<Link> link;
  const std::string* const made = cubin != nullptr ? linked_container(handle, link) : nullptr;
  if (made == nullptr) return library.cubin(handle, cubin);
  made->copy(static_cast<char*>(cubin), made->size());
  return NVJITLINK_SUCCESS;
}

const auto& replacements() {
  using Functions = NvJitLinkFunctions;
  static const Replacement<Functions> rows[] = {
      {"nvJitLinkCreate", PerRelease<&link_create>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.create); }},
      {"nvJitLinkDestroy", PerRelease<&link_destroy>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.destroy); }},
      {"nvJitLinkAddData", PerRelease<&link_add_data>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.add_data); }},
      {"nvJitLinkAddFile", PerRelease<&link_add_file>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.add_file); }},
      {"nvJitLinkGetLinkedCubinSize", PerRelease<&linked_size>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.cubin_size); }},
      {"nvJitLinkGetLinkedCubin", PerRelease<&linked_cubin>::all(),
       [](const Functions& f) { return reinterpret_cast<void*>(f.cubin); }},
  };
  return rows;
}

}  // namespace

void* nvjitlink_in_place_of(std::string_view function, void* address) {
  return replacement_of<NvJitLinkFunctions>(replacements(), function, address);
}
void* replaced_nvjitlink(void* address) {
  return replaced_by<NvJitLinkFunctions>(replacements(), address);
}

}  // namespace cucore::detail
