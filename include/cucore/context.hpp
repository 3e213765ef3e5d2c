// SPDX-License-Identifier: Apache-2.0
// cucore/context.hpp: the state of one device for this process, and how a call is made in it.
#pragma once

#include <memory>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

class EventRef;

/// Names a context without owning it. Pass by value; must not outlive the context.
class CUCORE_EXPORT ContextRef {
 public:
  /// Names the context of this handle; null names none.
  constexpr explicit ContextRef(CUcontext raw = nullptr) noexcept : raw_{raw} {}
  /// What is current on this thread; names none when nothing is.
  static ContextRef current();

  /// null when it names none
  [[nodiscard]] constexpr CUcontext handle() const noexcept { return raw_; }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return raw_ != nullptr; }
  /// its device's number, -1 when it names none; asks the driver
  [[nodiscard]] int device() const;

  /// Makes it current on this thread (it replaces what was current).
  void set_current() const;
  /// Blocks until all work of the context is done.
  void sync() const;
  /// Records all work of the context so far in `event`.
  void record(EventRef event) const;

  /// True for names of one context.
  friend constexpr bool operator==(ContextRef a, ContextRef b) noexcept { return a.raw_ == b.raw_; }

 protected:
  CUcontext raw_;
};

namespace detail {
struct DestroyGreenContext {
  void operator()(CUgreenCtx context) const noexcept;
};
/// What all copies of one Context share.
struct ContextBox {
  int device = 0;
  bool primary = false;
  Owned<CUgreenCtx, DestroyGreenContext> green{};
};
}  // namespace detail

/// A context; copies share it. The last one destroys a green context. Primary contexts are retained
/// once and stay until the process ends, so that objects made in them are never left without one.
class CUCORE_EXPORT Context : public ContextRef {
 public:
  Context() = default;  ///< Names none.
  /// The device's primary context, which the CUDA runtime and other libraries use too.
  static Context primary(int device);
  /// What is current on this thread; empty when nothing is.
  static Context current();
  /// A view of a context with another owner, with its properties. Must not outlive it.
  static Context view(ContextRef named);
  /// A context that runs on part of a device only. `descriptor` stays the caller's.
  static Context create_green(int device, CUdevResourceDesc descriptor);

  /// null for contexts that are not green
  [[nodiscard]] CUgreenCtx green_handle() const noexcept {
    return box_ ? box_->green.get() : nullptr;
  }
  /// its number, -1 when it names none
  [[nodiscard]] int device() const noexcept { return box_ ? box_->device : -1; }
  /// came from primary()
  [[nodiscard]] bool is_primary() const noexcept { return box_ && box_->primary; }
  /// True for a primary context that cuDevicePrimaryCtxReset, or releases that do not match, have
  /// ended: what was made in it is gone, and primary() gives a new one.
  [[nodiscard]] bool was_reset() const noexcept;
  /// runs on part of a device only
  [[nodiscard]] bool is_green() const noexcept { return box_ && box_->green != nullptr; }

 private:
  Context(CUcontext raw, std::shared_ptr<detail::ContextBox> box)
      : ContextRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::ContextBox> box_;
};

/// Makes a context current for a scope and leaves the caller's as it was. Costs one query when it
/// already is.
class CUCORE_EXPORT ScopedContext {
 public:
  explicit ScopedContext(ContextRef context);  ///< one that names none changes nothing
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace cucore
