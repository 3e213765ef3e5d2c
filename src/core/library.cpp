// SPDX-License-Identifier: Apache-2.0
// library.cpp: loads code into the driver; errors include the driver's log.
#include "core/library.hpp"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "core/backlog.hpp"
#include "core/blocking_calls.hpp"
#include "core/relaxed_capture.hpp"
#include "core/unload_count.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {

/// The buffer for the driver's error log, which must be passed to the driver when code is loaded.
class JitLog {
  static constexpr std::size_t kBytes = 8192;
  std::array<char, kBytes + 1> text_{};  // before `values`, which holds its address

 public:
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{text_.data(),
                              reinterpret_cast<void*>(static_cast<std::uintptr_t>(kBytes))};
  [[nodiscard]] const char* text() const { return text_.data(); }
};

namespace {
/// Returns a note for an error message if `code` has no format that a driver loads, else an empty
/// string.
std::string no_known_form(std::string_view code) {
  if (code.starts_with(ELFMAG) || code.starts_with(kFatbinMagic) || code.starts_with("!<arch>") ||
      code.find(".version") != std::string_view::npos)
    return {};
  return "\n  the code is neither an ELF file (cubin), a fatbin nor PTX: pass the bytes that "
         "Program.compile or nvcc wrote, unchanged";
}

[[noreturn]] void fail_with(const JitLog& log, CUresult code, const char* call,
                            std::string_view what, std::string_view image = ".version") {
  try {
    fail(code, call);
  } catch (const CUDAError& error) {
    std::string text =
        std::string{error.what()} + "\n  while loading " + std::string{what} + no_known_form(image);
    if (*log.text() != '\0') text += std::string{"\n"} + log.text();
    throw CUDAError{error, text, std::string{what}};
  }
}
}  // namespace

namespace {
/// All libraries loaded here, by handle; used to find the library of a kernel given by its handle.
struct Loaded {
  Mutex mutex;
  std::unordered_map<CUlibrary, std::weak_ptr<Library>> libraries;
};
Loaded& loaded() {
  // Never destroyed: libraries may be unloaded until the process ends.
  static Loaded& l = *new Loaded;
  return l;
}
}  // namespace

Library::Library(CUlibrary handle, std::unique_ptr<JitLog> log,
                 std::shared_ptr<const CodeImage> image) noexcept
    : handle_{handle}, log_{std::move(log)}, image_{std::move(image)} {}

namespace {
/// Returns whether the headers of an image refer to data past its end. Drivers receive the address
/// of an image without its size, so they cannot check this.
bool reaches_past_its_end(const std::string& code) {
  const auto fits = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= code.size() && bytes <= code.size() - offset;
  };
  if (code.starts_with(ELFMAG)) {
    Elf64_Ehdr header;
    if (!fits(0, sizeof header)) return true;
    std::memcpy(&header, code.data(), sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return true;
    const auto sections = std::uint64_t{header.e_shnum} * header.e_shentsize;
    if (!fits(header.e_shoff, sections)) return true;
    if (!fits(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize)) return true;
    if (header.e_shnum != 0 &&
        (header.e_shentsize < sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum))
      return true;
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      Elf64_Shdr section;
      std::memcpy(&section, code.data() + header.e_shoff + i * header.e_shentsize, sizeof section);
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
          !fits(section.sh_offset, section.sh_size))
        return true;
    }
    return false;
  }
  if (!code.starts_with(kFatbinMagic)) return false;
  struct {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
  } header;
  if (!fits(0, sizeof header)) return true;
  std::memcpy(&header, code.data(), sizeof header);
  return !fits(header.header_bytes, header.bytes);
}
}  // namespace

namespace {

[[noreturn]] void no_image(const std::string& why, std::string_view what) {
  throw CUDAError{CUDA_ERROR_INVALID_IMAGE, result_name(CUDA_ERROR_INVALID_IMAGE),
                  std::string{result_name(CUDA_ERROR_INVALID_IMAGE)} + ": " + why +
                      "\n  while loading " + std::string{what},
                  "cuLibraryLoadData", std::string{what}};
}

/// Throws if `code` is an ELF file for a host without device code in an nvcc section. The headers
/// are known to lie inside `code`.
void require_device_code(const std::string& code, std::string_view what) {
  constexpr Elf64_Half kCuda = 190;  // EM_CUDA
  if (!code.starts_with(ELFMAG)) return;
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof header);
  if (header.e_machine == kCuda || code.find("nv_fatbin") != std::string::npos ||
      code.find("__nv_relfatbin") != std::string::npos)
    return;
  const char* const name = header.e_machine == EM_X86_64    ? "x86-64"
                           : header.e_machine == EM_AARCH64 ? "AArch64"
                                                            : "another machine";
  no_image(std::string{"the code is an ELF file for "} + name + " (machine " +
               std::to_string(header.e_machine) + "), not for a GPU (machine " +
               std::to_string(kCuda) + ")",
           what);
}

}  // namespace

std::shared_ptr<Library> Library::load(std::shared_ptr<const CodeImage> image) {
  const std::string& code = image->code();
  const std::string what = image->description();
  if (reaches_past_its_end(code))
    no_image("the code is cut off or damaged: its headers reach past its end", what);
  require_device_code(code, what);
  auto log = std::make_unique<JitLog>();
  CUlibrary handle = nullptr;
  const CUresult result =
      driver().cuLibraryLoadData(&handle, code.data(), log->options.data(), log->values.data(),
                                 static_cast<unsigned>(log->options.size()), nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) fail_with(*log, result, "cuLibraryLoadData", what, code);
  auto library = std::make_shared<Library>(handle, std::move(log), std::move(image));
  Loaded& all = loaded();
  const std::lock_guard lock{all.mutex};
  all.libraries[handle] = library;
  return library;
}

std::shared_ptr<Library> Library::find(CUlibrary handle) {
  Loaded& all = loaded();
  const std::lock_guard lock{all.mutex};
  const auto at = all.libraries.find(handle);
  return at != all.libraries.end() ? at->second.lock() : nullptr;
}

void Library::fail_with_log(CUresult code, const char* call, std::string_view what) const {
  fail_with(*log_, code, call, what);
}

std::atomic<std::uint64_t> unload_count{0};
std::atomic<const WaitHooks*> wait_hooks{nullptr};
std::atomic<long> host_calls{0};
constinit Backlog backlog;

Library::~Library() {
  {  // before it is unloaded: the driver may reuse the handle
    Loaded& all = loaded();
    const std::lock_guard lock{all.mutex};
    all.libraries.erase(handle_);
  }
  if (lent_.load(std::memory_order_relaxed)) {
    static_cast<void>(log_.release());  // the driver may still write to it
    return;
  }
  if (handle_ == nullptr || !may_free()) return;
  unload_count.fetch_add(1);
  // Unloading waits for running kernels, and so for host functions that precede them.
  const Waiting waiting;
  const RelaxedCaptureScope relaxed;
  driver().cuLibraryUnload(handle_);
}

CUdevice current_device_or_first() {
  CUdevice device = 0;
  if (driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) return device;
  CUCORE_CALL(cuDeviceGet(&device, 0));
  return device;
}

}  // namespace cucore::detail
