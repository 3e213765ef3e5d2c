// A library loaded into the driver, and what all copies of one Kernel share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/kernel.hpp"

namespace cucore::detail {

/// Owns a CUlibrary: unloaded with its last user. Quiet at the end of the process, when the driver may be gone.
class Library {
 public:
  /// Loads code; `what` names it in errors, which carry the driver's compile log.
  static std::shared_ptr<Library> load(const std::string& code, std::string_view what);
  explicit Library(CUlibrary handle) noexcept : handle_{handle} {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  [[nodiscard]] CUlibrary handle() const noexcept { return handle_; }

 private:
  CUlibrary handle_;
};

struct KernelState {
  KernelState(CUkernel kernel, std::shared_ptr<Library> owner, std::string symbol)
      : handle{kernel}, library{std::move(owner)}, name{std::move(symbol)} {}

  const CUkernel handle;
  const std::shared_ptr<Library> library;  // null for a handle made elsewhere
  const std::string name;

  std::mutex mutex;                      // guards the first read of what follows
  std::atomic<bool> params_read{false};  // true: params and params_size are final
  std::vector<ParamInfo> params;
  std::size_t params_size = 0;
};

/// The CUdevice of the thread's current context, else 0.
CUdevice current_device_or_first();

}  // namespace cucore::detail
