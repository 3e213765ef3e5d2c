// library.cpp: loads code into the driver, with the driver's own words when it refuses.
#include "core/library.hpp"

#include <array>
#include <cstdint>

#include "cucore/error.hpp"

namespace cucore::detail {

/// The driver keeps its complaints in a buffer that it must be given beforehand.
class JitLog {
 public:
  static constexpr std::size_t kBytes = 8192;
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{text_.data(),
                              reinterpret_cast<void*>(static_cast<std::uintptr_t>(kBytes))};
  [[nodiscard]] const char* text() const { return text_.data(); }

 private:
  std::array<char, kBytes + 1> text_{};
};

namespace {
[[noreturn]] void fail_with(const JitLog& log, CUresult code, const char* call, std::string_view what) {
  try {
    fail(code, call);
  } catch (const CUDAError& error) {
    std::string text = std::string{error.what()} + "\n  while loading " + std::string{what};
    if (*log.text() != '\0') text += std::string{"\n"} + log.text();
    throw CUDAError{error.code(), error.name(), text};
  }
}
}  // namespace

Library::Library(CUlibrary handle, std::unique_ptr<JitLog> log) noexcept
    : handle_{handle}, log_{std::move(log)} {}

std::shared_ptr<Library> Library::load(const std::string& code, std::string_view what) {
  auto log = std::make_unique<JitLog>();
  CUlibrary handle = nullptr;
  const CUresult result =
      driver().cuLibraryLoadData(&handle, code.data(), log->options.data(), log->values.data(),
                                 static_cast<unsigned>(log->options.size()), nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) fail_with(*log, result, "cuLibraryLoadData", what);
  return std::make_shared<Library>(handle, std::move(log));
}

void Library::fail_with_log(CUresult code, const char* call, std::string_view what) const {
  fail_with(*log_, code, call, what);
}

Library::~Library() {
  if (handle_ != nullptr && driver_is_loaded()) driver().cuLibraryUnload(handle_);
}

CUdevice current_device_or_first() {
  CUdevice device = 0;
  if (driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) return device;
  CUCORE_CALL(cuDeviceGet(&device, 0));
  return device;
}

}  // namespace cucore::detail
