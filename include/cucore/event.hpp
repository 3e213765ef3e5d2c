// SPDX-License-Identifier: Apache-2.0
// cucore/event.hpp: a point in the work queued on a stream.
#pragma once

#include <memory>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

/// How an event is made.
struct EventOptions {
  bool timing_enabled = false;  ///< events can be subtracted
  bool blocking_sync = false;   ///< sync() sleeps instead of spinning
  bool ipc_enabled = false;     ///< other processes can open it; excludes timing
};

/// Names an event without owning it. Pass by value; must not outlive the event.
class CUCORE_EXPORT EventRef {
 public:
  /// Names the event of this handle.
  constexpr explicit EventRef(CUevent raw = nullptr) noexcept : raw_{raw} {}
  [[nodiscard]] constexpr CUevent handle() const noexcept { return raw_; }  ///< the driver's
  void sync() const;  ///< Blocks until the work before it is done.
  [[nodiscard]] bool is_done()
      const;  ///< False while work is pending: pending is an answer, not an error.

 protected:
  CUevent raw_;
};

namespace detail {
struct DestroyEvent {
  void operator()(CUevent event) const noexcept;
};
/// What all copies of one Event share. The event is destroyed before its context is released.
struct EventBox {
  Context context{};
  EventOptions options{};
  bool imported = false;
  Owned<CUevent, DestroyEvent> event{};  // none for an event made elsewhere
};
}  // namespace detail

/// An event; copies share it, the last one destroys it.
class CUCORE_EXPORT Event : public EventRef {
 public:
  Event() = default;  ///< Names none.
  /// A new event; throws std::invalid_argument where the options exclude each other.
  static Event create(const Context& context, const EventOptions& options = {});
  /// Opens another process's event. Timing is never available on it.
  static Event from_ipc_handle(const Context& context, const CUipcEventHandle& handle);
  /// An event that was made elsewhere, which must not outlive it.
  static Event view(CUevent raw, const Context& context, const EventOptions& options);

  /// what it was made in
  [[nodiscard]] const Context& context() const noexcept { return box_->context; }
  /// how it was made
  [[nodiscard]] const EventOptions& options() const noexcept { return box_->options; }
  /// came from another process
  [[nodiscard]] bool is_imported() const noexcept { return box_->imported; }
  [[nodiscard]] CUipcEventHandle ipc_handle() const;  ///< for other processes; needs ipc_enabled
  [[nodiscard]] bool is_closed() const noexcept { return box_ == nullptr; }  ///< names none
  void close() noexcept;  ///< releases it; copies keep it

  /// Milliseconds from `start` to `end`. Both need `timing_enabled` and must be done; the exception
  /// says which is not.
  static float elapsed_ms(const Event& start, const Event& end);

 private:
  Event(CUevent raw, std::shared_ptr<detail::EventBox> box) : EventRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::EventBox> box_;
};

}  // namespace cucore
