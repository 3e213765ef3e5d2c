// SPDX-License-Identifier: Apache-2.0
// cucore/context.hpp: owning and non-owning context objects, and a scope that makes one current.
#pragma once

#include <memory>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

class EventRef;

/// A non-owning reference to a context. Pass by value; must not outlive the context.
class CUCORE_EXPORT ContextRef {
 public:
  /// Refers to the context with handle `raw`; a null handle creates a null reference.
  constexpr explicit ContextRef(CUcontext raw = nullptr) noexcept : raw_{raw} {}
  /// Returns the calling thread's current context, or a null reference if there is none.
  static ContextRef current();

  /// The driver's handle; null for a null reference.
  [[nodiscard]] constexpr CUcontext handle() const noexcept { return raw_; }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return raw_ != nullptr; }
  /// Returns the device's ordinal, or -1 for a null reference. Queries the driver.
  [[nodiscard]] int device() const;

  /// Makes the context current on the calling thread, in place of the current one.
  void set_current() const;
  /// Blocks until all work of the context is complete.
  void sync() const;
  /// Records in `event` all work enqueued in the context so far.
  void record(EventRef event) const;

  /// True if both refer to the same context.
  friend constexpr bool operator==(ContextRef a, ContextRef b) noexcept { return a.raw_ == b.raw_; }

 protected:
  CUcontext raw_;
};

namespace detail {
struct DestroyGreenContext {
  void operator()(CUgreenCtx context) const noexcept;
};
/// State shared by all copies of a Context.
struct ContextBox {
  int device = 0;
  bool primary = false;
  Owned<CUgreenCtx, DestroyGreenContext> green{};
};
}  // namespace detail

/// Owns a context, or refers to one with another owner (view()); copies share it. The last copy
/// destroys a green context. A primary context is retained once and stays until the process ends,
/// so that it outlives the objects created in it.
class CUCORE_EXPORT Context : public ContextRef {
 public:
  Context() = default;  ///< Creates a null context.
  /// Returns the device's primary context, which the CUDA runtime and other libraries use too.
  static Context primary(int device);
  /// Returns the calling thread's current context, or a null context if there is none.
  static Context current();
  /// Creates a view of a context with another owner; device() and is_primary() are those of that
  /// context. The view must not outlive it.
  static Context view(ContextRef named);
  /// Creates a green context, which runs on part of a device. The caller keeps ownership of
  /// `descriptor`.
  static Context create_green(int device, CUdevResourceDesc descriptor);

  /// The green context's handle; null if the context is not green.
  [[nodiscard]] CUgreenCtx green_handle() const noexcept {
    return box_ ? box_->green.get() : nullptr;
  }
  /// The device's ordinal, or -1 for a null context.
  [[nodiscard]] int device() const noexcept { return box_ ? box_->device : -1; }
  /// True for a context returned by primary().
  [[nodiscard]] bool is_primary() const noexcept { return box_ && box_->primary; }
  /// Returns whether a primary context was destroyed by cuDevicePrimaryCtxReset or by unbalanced
  /// releases. Objects created in it are then invalid, and primary() returns a new context.
  [[nodiscard]] bool was_reset() const noexcept;
  /// True for a green context, which runs on part of a device.
  [[nodiscard]] bool is_green() const noexcept { return box_ && box_->green != nullptr; }

 private:
  Context(CUcontext raw, std::shared_ptr<detail::ContextBox> box)
      : ContextRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::ContextBox> box_;
};

/// Makes a context current for a scope and restores the previous one at its end. Costs one query if
/// the context is already current.
class CUCORE_EXPORT ScopedContext {
 public:
  explicit ScopedContext(ContextRef context);  ///< a null reference is a no-op
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace cucore
