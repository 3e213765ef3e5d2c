// SPDX-License-Identifier: Apache-2.0
// nvrtc.cpp: NVRTC's function table, errors and headers.
#include "core/nvrtc.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "core/cache_folder.hpp"
#include "core/private_folders.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {
namespace {

/// Makes glibc keep freed heap memory. A compilation allocates some megabytes and frees them all.
/// glibc would return them to the system each time, and page faults would cost the next compilation
/// of a small kernel a tenth of its time. Freeing a block of this size raises the threshold
/// (mallopt(3), M_MMAP_THRESHOLD), unless the program has set it.
void keep_heap() noexcept {
  void* volatile block = std::malloc(std::size_t{8} << 20);
  std::free(block);
}

Nvrtc load() {
  const ToolLibrary library{"nvrtc"};
  Nvrtc t;
#define CUCORE_LOAD(name) library.required(t.name, #name);
#define CUCORE_TRY(name) library.optional(t.name, #name);
  CUCORE_NVRTC(CUCORE_LOAD)
  CUCORE_NVRTC_NEW(CUCORE_TRY)
#undef CUCORE_LOAD
#undef CUCORE_TRY
  t.nvrtcVersion(&t.major, &t.minor);
  keep_heap();
  return t;
}

/// Returns the user's cache folder, else a folder in the temporary folder named after the user ID.
std::filesystem::path cache_folder() {
  if (auto folder = detail::user_cache_folder()) return *std::move(folder);
  return std::filesystem::temp_directory_path() / ("cucore-" + std::to_string(::geteuid()));
}

/// Creates a folder that only its owner can access. Throws if it is a symbolic link, or if other
/// users own it or can write to it: another user must not control the headers that are compiled.
void make_private_folder(const std::filesystem::path& folder) {
  make_private_folders(folder);
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0)
    throw std::system_error{errno, std::generic_category(), "cannot make " + folder.string()};
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid())
    throw std::runtime_error{
        "the cache folder " + folder.string() +
        " is a link, no folder, or another user's: remove it, or set XDG_CACHE_HOME"};
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0 && ::chmod(folder.c_str(), S_IRWXU) != 0)
    throw std::system_error{errno, std::generic_category(), "cannot change " + folder.string()};
}

}  // namespace

const Nvrtc& Nvrtc::get() {
  static const Nvrtc table = load();
  return table;
}

const char* nvrtc_result_name(nvrtcResult code) noexcept {
  switch (code) {
#define CUCORE_NAME(name) \
  case name:              \
    return #name;
    CUCORE_NAME(NVRTC_SUCCESS)
    CUCORE_NAME(NVRTC_ERROR_OUT_OF_MEMORY)
    CUCORE_NAME(NVRTC_ERROR_PROGRAM_CREATION_FAILURE)
    CUCORE_NAME(NVRTC_ERROR_INVALID_INPUT)
    CUCORE_NAME(NVRTC_ERROR_INVALID_PROGRAM)
    CUCORE_NAME(NVRTC_ERROR_INVALID_OPTION)
    CUCORE_NAME(NVRTC_ERROR_COMPILATION)
    CUCORE_NAME(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    CUCORE_NAME(NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION)
    CUCORE_NAME(NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION)
    CUCORE_NAME(NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID)
    CUCORE_NAME(NVRTC_ERROR_INTERNAL_ERROR)
    CUCORE_NAME(NVRTC_ERROR_TIME_FILE_WRITE_FAILED)
    CUCORE_NAME(NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED)
    CUCORE_NAME(NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED)
    CUCORE_NAME(NVRTC_ERROR_PCH_CREATE)
    CUCORE_NAME(NVRTC_ERROR_CANCELLED)
    CUCORE_NAME(NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED)
    CUCORE_NAME(NVRTC_ERROR_BUSY)
#undef CUCORE_NAME
  }
  return "NVRTC_ERROR_UNKNOWN_CODE";
}

void fail_nvrtc(nvrtcResult code, const char* call, const std::string& log) {
  const char* name = nvrtc_result_name(code);
  std::string text = std::string{name} + " (" + call + ")";
  if (!log.empty()) text += ", compilation log:\n\n" + log;
  throw NVRTCError{static_cast<int>(code), name, text, call};
}

std::string nvrtc_log(nvrtcProgram program) {
  const Nvrtc& nvrtc = Nvrtc::get();
  std::size_t size = 0;
  if (nvrtc.nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1) return {};
  std::string log(size, '\0');
  if (nvrtc.nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return {};
  while (!log.empty() && log.back() == '\0') log.pop_back();
  return log;
}

std::vector<std::string> bundled_header_folders() {
  const Nvrtc& nvrtc = Nvrtc::get();
  if (nvrtc.nvrtcInstallBundledHeaders != nullptr) {
    const auto folder = cache_folder() / ("nvrtc-headers-" + std::to_string(nvrtc.major) + "." +
                                          std::to_string(nvrtc.minor));
    make_private_folder(folder.parent_path());
    const char* log = nullptr;
    const nvrtcResult code = nvrtc.nvrtcInstallBundledHeaders(
        folder.c_str(), NVRTC_INSTALL_HEADERS_SKIP_IF_EXISTS, &log);
    if (code != NVRTC_SUCCESS)
      fail_nvrtc(code, "nvrtcInstallBundledHeaders", log != nullptr ? log : "");
    return {folder.string(), (folder / "cccl").string()};
  }
  std::vector<std::string> folders;
  for (const char* name : {"cudart", "cccl"}) {
    if (const auto found = pathfinder::locate_nvidia_header_directory(name))
      folders.push_back(found->abs_path);
  }
  if (folders.empty()) {
    throw std::runtime_error{
        "use_bundled_headers needs NVRTC 13.3 or later, or the toolkit's headers; found NVRTC " +
        std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) + " and no headers"};
  }
  return folders;
}

}  // namespace cucore::detail
