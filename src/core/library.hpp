// SPDX-License-Identifier: Apache-2.0
// library.hpp: a library loaded into the driver, and the state that all copies of a Kernel share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/code_image.hpp"
#include "cucore/driver.hpp"
#include "cucore/kernel.hpp"
#include "cucore/object_code.hpp"
#include "driver/mutex.hpp"

namespace cucore::detail {

class JitLog;

/// Owns a CUlibrary. The last owner unloads it, except at the end of the process, when the driver
/// may already be shut down.
class Library {
 public:
  /// Loads code. Errors name the code and include the driver's compile log.
  static std::shared_ptr<Library> load(std::shared_ptr<const CodeImage> image);
  Library(CUlibrary handle, std::unique_ptr<JitLog> log,
          std::shared_ptr<const CodeImage> image) noexcept;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  /// Returns the library with this handle if it was loaded here and still has an owner, else null.
  static std::shared_ptr<Library> find(CUlibrary handle);

  [[nodiscard]] CUlibrary handle() const noexcept { return handle_; }
  /// Returns the handle for a program that may unload the library itself, as numba-cuda does. After
  /// this call, this object does not unload the library: a second unload could affect another
  /// library with the same handle.
  [[nodiscard]] CUlibrary lend() noexcept {
    lent_.store(true, std::memory_order_relaxed);
    return handle_;
  }
  /// The code that this library was loaded from.
  [[nodiscard]] const std::shared_ptr<const CodeImage>& image() const noexcept { return image_; }
  /// Throws as `fail` does, with the name of the code and the driver's compile log. A driver may
  /// defer the compilation of PTX until a kernel is first looked up.
  [[noreturn]] void fail_with_log(CUresult code, const char* call, std::string_view what) const;

 private:
  CUlibrary handle_;
  std::atomic<bool> lent_{false};
  std::unique_ptr<JitLog> log_;  // the driver may write to it until the library is unloaded
  const std::shared_ptr<const CodeImage> image_;
};

/// A kernel as a function of one context, which launches faster than the CUkernel itself.
struct ContextFunction {
  unsigned long long context;  // from cuCtxGetId: never reused for another context
  CUfunction function;
  bool has_local_memory;  // the driver may wait for the device before it allocates local memory
  const ContextFunction* next;
};

struct alignas(64) KernelState {
  KernelState(CUkernel kernel, std::shared_ptr<Library> owner, std::string symbol,
              std::shared_ptr<const CodeImage> source = nullptr)
      : library{std::move(owner)},
        image{std::move(source)},
        name{std::move(symbol)},
        handle_{kernel} {}
  /// A kernel of `source` that is looked up on first use; the code is not loaded before.
  KernelState(ObjectCode source, std::string symbol)
      : code{std::move(source)}, name{std::move(symbol)} {}
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;
  ~KernelState();

  /// Returns the cached function of the kernel in a context, or null before the first launch there.
  const ContextFunction* known(unsigned long long context) const noexcept {
    const ContextFunction* f = functions.load(std::memory_order_acquire);
    while (f != nullptr && f->context != context) f = f->next;
    return f;
  }
  /// Returns the function to launch on this thread: the current context's function, or the CUkernel
  /// itself if no context is current.
  CUfunction launchable();

  /// Returns the driver's handle. Looks the kernel up on first use; throws CUDAError if that fails.
  CUkernel handle() {
    const CUkernel known = handle_.load(std::memory_order_acquire);
    return known != nullptr ? known : find();
  }

  // Fields that every launch reads, in one cache line.
  std::atomic<bool> params_read{false};  // true if params and params_size are final
  std::vector<ParamInfo> params;
  std::size_t params_size = 0;
  // Singly linked list; entries are added at the head and never removed.
  std::atomic<const ContextFunction*> functions{nullptr};

  // Empty, or one per parameter; final together with `params`.
  std::vector<std::string> param_names;

  const std::shared_ptr<Library> library;  // null for a foreign handle, or if `code` is set
  const std::shared_ptr<const CodeImage>
      image;  // the code it was loaded from; null for a foreign handle, or if `code` is set
  // Code of a kernel that is looked up lazily; keeps the code loaded.
  const std::optional<ObjectCode> code;
  const std::string name;

  cucore::detail::Mutex mutex;  // guards the first read of the fields that every launch reads
  /// The context, by cuCtxGetId, in which the kernel was last captured, or 0. Its code is loaded
  /// there.
  std::atomic<unsigned long long> captured_in{0};

 private:
  CUkernel find();
  std::atomic<CUkernel> handle_{nullptr};
};

/// Returns the device of the calling thread's current context, or device 0 if there is none.
CUdevice current_device_or_first();

}  // namespace cucore::detail
