// SPDX-License-Identifier: Apache-2.0
// cucore/event.hpp: events, which mark points in the work of a stream.
#pragma once

#include <memory>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

/// Options for the creation of an event.
struct EventOptions {
  bool timing_enabled = false;  ///< records timestamps for elapsed_ms()
  bool blocking_sync = false;   ///< sync() blocks the thread instead of spinning
  bool ipc_enabled = false;     ///< other processes can open the event; excludes timing_enabled
};

/// A non-owning reference to an event. Pass by value; must not outlive the event.
class CUCORE_EXPORT EventRef {
 public:
  /// Refers to the event with handle `raw`.
  constexpr explicit EventRef(CUevent raw = nullptr) noexcept : raw_{raw} {}
  /// The driver's handle.
  [[nodiscard]] constexpr CUevent handle() const noexcept { return raw_; }
  void sync() const;  ///< Blocks until the work that precedes the event is complete.
  /// Returns whether the work that precedes the event is complete. Pending work is not an error.
  [[nodiscard]] bool is_done() const;

 protected:
  CUevent raw_;
};

namespace detail {
struct DestroyEvent {
  void operator()(CUevent event) const noexcept;
};
/// State shared by all copies of an Event. The event is destroyed before its context is released.
struct EventBox {
  Context context{};
  EventOptions options{};
  bool imported = false;
  Owned<CUevent, DestroyEvent> event{};  // null for a view
};
}  // namespace detail

/// Owns an event; copies share ownership, and the last one destroys it.
class CUCORE_EXPORT Event : public EventRef {
 public:
  Event() = default;  ///< Creates a closed event.
  /// Creates an event. Throws std::invalid_argument if both ipc_enabled and timing_enabled are set.
  static Event create(const Context& context, const EventOptions& options = {});
  /// Opens an event of another process. Timing is never available on it.
  static Event from_ipc_handle(const Context& context, const CUipcEventHandle& handle);
  /// Creates a view of an event with another owner. The view must not outlive the event.
  static Event view(CUevent raw, const Context& context, const EventOptions& options);

  /// The context in which the event was created.
  [[nodiscard]] const Context& context() const noexcept { return box_->context; }
  /// The options with which the event was created.
  [[nodiscard]] const EventOptions& options() const noexcept { return box_->options; }
  /// True for an event of another process, opened by from_ipc_handle().
  [[nodiscard]] bool is_imported() const noexcept { return box_->imported; }
  /// Returns a handle that other processes can open. Throws InvalidStateError without ipc_enabled.
  [[nodiscard]] CUipcEventHandle ipc_handle() const;
  /// True for a closed event, which refers to no event of the driver.
  [[nodiscard]] bool is_closed() const noexcept { return box_ == nullptr; }
  void close() noexcept;  ///< Releases this reference; other copies keep the event.

  /// Returns the time from `start` to `end` in milliseconds. Both need `timing_enabled` and must be
  /// complete; otherwise throws InvalidStateError with the reason.
  static float elapsed_ms(const Event& start, const Event& end);

 private:
  Event(CUevent raw, std::shared_ptr<detail::EventBox> box) : EventRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::EventBox> box_;
};

}  // namespace cucore
