// SPDX-License-Identifier: Apache-2.0
// A library loaded into the driver, and what all copies of one Kernel share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
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

/// Owns a CUlibrary: unloaded with its last user. Quiet at the end of the process, when the driver
/// may be gone.
class Library {
 public:
  /// Loads code. Errors name it and carry the driver's compile log.
  static std::shared_ptr<Library> load(std::shared_ptr<const CodeImage> image);
  Library(CUlibrary handle, std::unique_ptr<JitLog> log,
          std::shared_ptr<const CodeImage> image) noexcept;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library();

  /// The library of this handle, where it was loaded here and is still used; else null.
  static std::shared_ptr<Library> find(CUlibrary handle);

  [[nodiscard]] CUlibrary handle() const noexcept { return handle_; }
  /// The handle for a program that may unload the library itself, as numba-cuda does. From now on
  /// this object does not unload it: a second unload could hit another library with the same
  /// handle.
  [[nodiscard]] CUlibrary lend() noexcept {
    lent_.store(true, std::memory_order_relaxed);
    return handle_;
  }
  /// The code this was loaded from.
  [[nodiscard]] const std::shared_ptr<const CodeImage>& image() const noexcept { return image_; }
  /// Throws what `fail` throws, with the name of the code and the driver's compile log: a driver
  /// may compile PTX only when a kernel of it is first asked for.
  [[noreturn]] void fail_with_log(CUresult code, const char* call, std::string_view what) const;

 private:
  CUlibrary handle_;
  std::atomic<bool> lent_{false};
  std::unique_ptr<JitLog> log_;  // the driver may write to it until the library is unloaded
  const std::shared_ptr<const CodeImage> image_;
};

/// The values of four and eight bytes that most parameters take, as bits: one test compares size
/// and kind of an argument with those of a parameter.
enum UsualValues : std::uint8_t { kWord64 = 1, kWord32 = 2, kFloat64 = 4, kFloat32 = 8 };
/// Those of a size and kind; 0 for other sizes. A parameter takes an argument if they have a bit in
/// common, as is_compatible() says.
constexpr std::uint8_t usual_values(std::size_t size, ParamKind kind) noexcept {
  if (size != 4 && size != 8) return 0;
  const int words = kind == ParamKind::floating ? 0 : size == 8 ? kWord64 : kWord32;
  const bool is_number = kind == ParamKind::floating || kind == ParamKind::unknown;
  const int floats = !is_number ? 0 : size == 8 ? kFloat64 : kFloat32;
  return static_cast<std::uint8_t>(words | floats);
}

/// A kernel as a function of one context, which launches sooner than the kernel itself.
struct ContextFunction {
  unsigned long long context;  // cuCtxGetId: never used for another context again
  CUfunction function;
  bool has_local_memory;  // the driver may have to wait for the device to make room for it
  const ContextFunction* next;
};

struct alignas(64) KernelState {
  KernelState(CUkernel kernel, std::shared_ptr<Library> owner, std::string symbol,
              std::shared_ptr<const CodeImage> source = nullptr)
      : library{std::move(owner)},
        image{std::move(source)},
        name{std::move(symbol)},
        handle_{kernel} {}
  /// A kernel of `source` that is looked for when it is first used; the code is not loaded before.
  KernelState(ObjectCode source, std::string symbol)
      : code{std::move(source)}, name{std::move(symbol)} {}
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;
  ~KernelState();

  /// What is known of the kernel in a context; null before the first launch there.
  const ContextFunction* known(unsigned long long context) const noexcept {
    const ContextFunction* f = functions.load(std::memory_order_acquire);
    while (f != nullptr && f->context != context) f = f->next;
    return f;
  }
  /// What to launch on this thread: the current context's function, or the kernel itself where no
  /// context is current.
  CUfunction launchable();

  /// The driver's handle. Throws CUDAError where the kernel has yet to be looked for, and is not
  /// there.
  CUkernel handle() {
    const CUkernel known = handle_.load(std::memory_order_acquire);
    return known != nullptr ? known : find();
  }

  // What every launch looks at, in one line of the cache.
  std::atomic<bool> params_read{false};  // true: params and params_size are final
  std::vector<ParamInfo> params;
  std::size_t params_size = 0;
  std::atomic<const ContextFunction*> functions{nullptr};  // a list that only grows, at its head
  std::array<std::uint8_t, 16> usual{};  // usual_values() of the first parameters; as `params`

  std::vector<std::string> param_names;  // empty, or one per parameter; final with `params`

  const std::shared_ptr<Library> library;  // null for a handle made elsewhere, and where `code` is
  const std::shared_ptr<const CodeImage>
      image;  // where it was compiled from; null for a handle made elsewhere, and where `code` is
  const std::optional<ObjectCode> code;  // of a kernel that is looked for late; keeps it loaded
  const std::string name;

  cucore::detail::Mutex mutex;  // guards the first read of what every launch looks at
  /// The context where it was last captured, by cuCtxGetId; 0: none. Its code is loaded there.
  std::atomic<unsigned long long> captured_in{0};

 private:
  CUkernel find();
  std::atomic<CUkernel> handle_{nullptr};
};

/// The CUdevice of the thread's current context, else 0.
CUdevice current_device_or_first();

}  // namespace cucore::detail
