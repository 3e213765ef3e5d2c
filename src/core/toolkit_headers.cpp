// SPDX-License-Identifier: Apache-2.0
// toolkit_headers.cpp: finds toolkit headers that are split into several packages.
#include "core/toolkit_headers.hpp"

#include <filesystem>

namespace cucore::detail {
namespace {

constexpr std::string_view kIncludeFlag = "--include-path=";
constexpr std::string_view kCompilerHeader = "crt/host_defines.h";

bool has(std::string_view folder, std::string_view file) {
  std::error_code error;
  return std::filesystem::is_regular_file(std::filesystem::path{folder} / file, error);
}

/// The prefix of a header's name, its header set in the pathfinder, and the packages that install
/// it for CUDA 13 and for CUDA 12.
struct Package {
  std::string_view prefix;
  std::string_view set;
  std::string_view cuda13;
  std::string_view cuda12;
};
constexpr Package kPackages[] = {
    {"crt/", "cudart", "nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12"},
    {"cuda/", "cccl", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12"},
    {"cub/", "cccl", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12"},
    {"nv/", "cccl", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12"},
    {"thrust/", "cccl", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12"},
    {"curand", "curand", "nvidia-curand", "nvidia-curand-cu12"},
    {"cooperative_groups", "cudart", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"},
    {"cuda", "cudart", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"},
    {"mma.h", "cudart", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"},
};

}  // namespace

std::optional<std::string> folder_to_add(
    const std::vector<std::string>& flags,
    const std::function<std::optional<std::string>()>& search) {
  bool wanted = false;
  for (const std::string_view flag : flags) {
    if (!flag.starts_with(kIncludeFlag)) continue;
    const auto folder = flag.substr(kIncludeFlag.size());
    if (has(folder, kCompilerHeader)) return std::nullopt;
    wanted = wanted || has(folder, "cuda_runtime_api.h");
  }
  return wanted ? search() : std::nullopt;
}

std::string hint_for_missing_header(std::string_view log) {
  constexpr std::string_view kSaid = "open source file \"";
  const auto at = log.find(kSaid);
  if (at == log.npos) return {};
  const auto rest = log.substr(at + kSaid.size());
  const std::string header{rest.substr(0, rest.find('"'))};
  for (const auto& package : kPackages) {
    if (!header.starts_with(package.prefix)) continue;
    std::string text =
        "\"" + header + "\" comes with the CUDA toolkit. Either set use_bundled_headers";
    text +=
        " (NVRTC 13.3 and later carry the headers), or pip install " + std::string{package.cuda13};
    text +=
        " (CUDA 12: " + std::string{package.cuda12} + "), or install a toolkit and set CUDA_HOME;";
    text += " then include_path takes the folder of find_nvidia_header_directory(\"";
    return text + std::string{package.set} + "\").";
  }
  return {};
}

}  // namespace cucore::detail
