// SPDX-License-Identifier: Apache-2.0
// cucore/context.hpp: the state of one device for this process, and how a call is made in it.
#pragma once

#include <memory>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

namespace detail {
/// What all copies of one Context share; frees the context when it is ours.
struct ContextBox {
  CUcontext handle = nullptr;
  CUgreenCtx green = nullptr;
  int device = 0;
  bool owned = false;
  bool primary = false;
  ~ContextBox();
};
}  // namespace detail

/// A context; copies share it, the last one frees it. Primary contexts are retained once and stay
/// until the process ends, so that objects made in them are never left without one.
class CUCORE_EXPORT Context {
 public:
  Context() = default;  ///< Names none.
  /// The device's primary context, which the CUDA runtime and other libraries use too.
  static Context primary(int device);
  /// What is current on this thread; empty when nothing is.
  static Context current();
  /// Names a context that somebody else owns.
  static Context view(CUcontext handle);
  /// A context that runs on part of a device only. `descriptor` stays the caller's.
  static Context create_green(int device, CUdevResourceDesc descriptor);

  /// null when it names none
  [[nodiscard]] CUcontext handle() const noexcept { return box_ ? box_->handle : nullptr; }
  /// null for others
  [[nodiscard]] CUgreenCtx green_handle() const noexcept { return box_ ? box_->green : nullptr; }
  /// its number, -1 when it names none
  [[nodiscard]] int device() const noexcept { return box_ ? box_->device : -1; }
  /// came from primary()
  [[nodiscard]] bool is_primary() const noexcept { return box_ && box_->primary; }
  /// runs on part of a device only
  [[nodiscard]] bool is_green() const noexcept { return box_ && box_->green != nullptr; }
  [[nodiscard]] explicit operator bool() const noexcept { return handle() != nullptr; }

  /// Makes it current on this thread (it replaces what was current).
  void set_current() const;
  /// Blocks until all work of the context is done.
  void sync() const;

  friend bool operator==(const Context& a, const Context& b) noexcept {
    return a.handle() == b.handle();
  }

 private:
  explicit Context(std::shared_ptr<detail::ContextBox> box) : box_{std::move(box)} {}
  std::shared_ptr<detail::ContextBox> box_;
};

/// Makes a context current for a scope and leaves the caller's as it was. Costs one query when it
/// already is.
class CUCORE_EXPORT ScopedContext {
 public:
  explicit ScopedContext(CUcontext context);  ///< null changes nothing
  /// The same by object.
  explicit ScopedContext(const Context& context) : ScopedContext{context.handle()} {}
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace cucore
