// SPDX-License-Identifier: Apache-2.0
// device_code_nvrtc.cpp: NVRTC's cubins on the CPU device.
#include <string>

#include "core/device_code.hpp"
#include "core/program_implementation.hpp"
#include "core/replacement.hpp"
#include "cucore/abi/nvrtc.h"
#include "cucore/container.hpp"
#include "driver/library.hpp"

namespace cucore::detail {
namespace {

struct NvrtcFunctions {
  decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&::nvrtcGetCUBIN) cubin = nullptr;
  decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
  decltype(&::nvrtcGetPTX) ptx = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy = nullptr;

  void load(void* library) {
    find_function(library, cubin_size, "nvrtcGetCUBINSize");
    find_function(library, cubin, "nvrtcGetCUBIN");
    find_function(library, ptx_size, "nvrtcGetPTXSize");
    find_function(library, ptx, "nvrtcGetPTX");
    find_function(library, compile, "nvrtcCompileProgram");
    find_function(library, destroy, "nvrtcDestroyProgram");
  }
};

/// Register limits of programs (`-maxrregcount`), kept until the cubin is read: the PTX does not
/// contain the option.
ByHandle<unsigned>& register_limits() {
  static auto* const table = new ByHandle<unsigned>;
  return *table;
}

nvrtcResult read(nvrtcProgram program, decltype(NvrtcFunctions::ptx_size) size_of,
                 decltype(NvrtcFunctions::ptx) get, std::string& out) {
  std::size_t size = 0;
  const nvrtcResult code = size_of(program, &size);
  if (code != NVRTC_SUCCESS) return code;
  out.assign(size, '\0');
  return size == 0 ? NVRTC_SUCCESS : get(program, out.data());
}

/// Reads a program's cubin as a container for the CPU device. NVRTC also has the PTX after it
/// generated machine code. If it has none (LTO-IR), the cubin is returned unchanged.
nvrtcResult container_of(const NvrtcFunctions& nvrtc, nvrtcProgram program, std::string& out) {
  const nvrtcResult code = read(program, nvrtc.cubin_size, nvrtc.cubin, out);
  std::string ptx;
  if (code != NVRTC_SUCCESS || out.empty() ||
      read(program, nvrtc.ptx_size, nvrtc.ptx, ptx) != NVRTC_SUCCESS)
    return code;
  while (ptx.ends_with('\0')) ptx.pop_back();
  if (ptx.empty()) return code;
  if (const auto limit = register_limits().find(program)) ptx = limit_registers(ptx, *limit);
  out = make_container(out, ptx);
  return code;
}

nvrtcResult container_size(const NvrtcFunctions& nvrtc, nvrtcProgram program, std::size_t* size) {
  if (size == nullptr || !code_runs_on_the_cpu_device()) return nvrtc.cubin_size(program, size);
  try {
    std::string made;
    const nvrtcResult code = container_of(nvrtc, program, made);
    if (code == NVRTC_SUCCESS) *size = made.size();
    return code;
  } catch (const std::exception&) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
}

nvrtcResult container(const NvrtcFunctions& nvrtc, nvrtcProgram program, char* cubin) {
  if (cubin == nullptr || !code_runs_on_the_cpu_device()) return nvrtc.cubin(program, cubin);
  try {
    std::string made;
    const nvrtcResult code = container_of(nvrtc, program, made);
    if (code == NVRTC_SUCCESS) made.copy(cubin, made.size());
    return code;
  } catch (const std::exception&) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
}

std::optional<unsigned> register_limit(int count, const char* const* options) {
  for (int i = 0; options != nullptr && i < count; ++i) {
    const std::string_view option{options[i] != nullptr ? options[i] : ""};
    std::optional<std::string_view> limit = value_of_option(option, "maxrregcount");
    const bool apart = option == "-maxrregcount" || option == "--maxrregcount";
    if (apart && i + 1 < count && options[i + 1] != nullptr) limit = options[i + 1];
    const std::optional<int> number = limit ? number_in(*limit) : std::nullopt;
    if (number && *number > 0) return static_cast<unsigned>(*number);
  }
  return std::nullopt;
}

nvrtcResult compile(const NvrtcFunctions& nvrtc, nvrtcProgram program, int count,
                    const char* const* options) {
  const DriverNameScope name;  // NVRTC loads the driver by name
  try {
    if (const auto limit = register_limit(count, options))
      register_limits().set(program, *limit);
    else
      register_limits().erase(program);
  } catch (const std::exception&) {
    return NVRTC_ERROR_OUT_OF_MEMORY;
  }
  return nvrtc.compile(program, count, options);
}

nvrtcResult destroy(const NvrtcFunctions& nvrtc, nvrtcProgram* program) {
  if (program != nullptr) register_limits().erase(*program);
  return nvrtc.destroy(program);
}

const auto& replacements() {
  static const Replacement<NvrtcFunctions> rows[] = {
      {"nvrtcGetCUBINSize", PerRelease<&container_size>::all(),
       [](const NvrtcFunctions& n) { return reinterpret_cast<void*>(n.cubin_size); }},
      {"nvrtcGetCUBIN", PerRelease<&container>::all(),
       [](const NvrtcFunctions& n) { return reinterpret_cast<void*>(n.cubin); }},
      {"nvrtcCompileProgram", PerRelease<&compile>::all(),
       [](const NvrtcFunctions& n) { return reinterpret_cast<void*>(n.compile); }},
      {"nvrtcDestroyProgram", PerRelease<&destroy>::all(),
       [](const NvrtcFunctions& n) { return reinterpret_cast<void*>(n.destroy); }},
  };
  return rows;
}

}  // namespace

void* nvrtc_in_place_of(std::string_view function, void* address) {
  return replacement_of<NvrtcFunctions>(replacements(), function, address);
}
void* replaced_nvrtc(void* address) { return replaced_by<NvrtcFunctions>(replacements(), address); }

}  // namespace cucore::detail
