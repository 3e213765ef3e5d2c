// SPDX-License-Identifier: Apache-2.0
// cucore/stream.hpp: a queue of device work that runs in order.
#pragma once

#include <memory>
#include <optional>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

/// How a stream is made.
struct StreamOptions {
  bool nonblocking = true;        ///< does not wait for the legacy default stream
  std::optional<int> priority{};  ///< lower numbers go first; none: the default
};

/// Names a stream without owning it. Pass by value; must not outlive the stream.
class CUCORE_EXPORT StreamRef {
 public:
  /// Names the stream of this handle; null is the default stream.
  constexpr explicit StreamRef(CUstream raw = nullptr) noexcept : raw_{raw} {}
  [[nodiscard]] constexpr CUstream handle() const noexcept { return raw_; }  ///< the driver's

  [[nodiscard]] ContextRef context() const;   ///< what it was made in; asks the driver
  [[nodiscard]] bool is_nonblocking() const;  ///< does not wait for the legacy default stream
  [[nodiscard]] int priority() const;         ///< lower numbers go first

  void sync() const;  ///< Blocks until queued work is done.
  [[nodiscard]] bool is_done()
      const;  ///< False while work is pending: pending is an answer, not an error.
  void record(EventRef event) const;  ///< Marks this point of the queue in `event`.
  void wait(EventRef event) const;    ///< Later work here starts after `event`.
  void wait(
      StreamRef other) const;  ///< Later work here starts after what `other` has queued by now.
  [[nodiscard]] bool is_capturing() const;  ///< its work becomes nodes of a graph
  /// The number of the capture it takes part in; 0 outside one.
  [[nodiscard]] cuuint64_t capture_id() const noexcept;
  /// Calls a function on the host at this point of the queue, with no CUDA calls in it. `data` must
  /// live until then.
  void call_host(CUhostFn function, void* data) const;

 protected:
  CUstream raw_;
};

namespace detail {
struct DestroyStream {
  void operator()(CUstream stream) const noexcept;
};
/// What all copies of one Stream share. The stream is destroyed before the objects that it uses.
struct StreamBox {
  Context context{};              // a stream keeps its context alive
  std::shared_ptr<void> owner{};  // what a stream made elsewhere belongs to
  unsigned long long context_id = 0;
  Owned<CUstream, DestroyStream> stream{};  // none for a stream made elsewhere
};
}  // namespace detail

/// A stream; copies share it, the last one destroys it. Work still queued then runs to its end.
class CUCORE_EXPORT Stream : public StreamRef {
 public:
  Stream() = default;  ///< Names none.
  /// A new stream; throws std::invalid_argument for a priority the device does not have.
  static Stream create(const Context& context, const StreamOptions& options = {});
  /// A stream that was made elsewhere; keeps `owner`, which the stream belongs to.
  static Stream view(CUstream raw, std::shared_ptr<void> owner = nullptr);
  static Stream legacy_default();      ///< waits for, and is waited for by, blocking streams
  static Stream per_thread_default();  ///< each thread's own

  [[nodiscard]] bool is_closed() const noexcept { return box_ == nullptr; }  ///< names none
  /// True for copies of one another.
  [[nodiscard]] bool is_same(const Stream& other) const noexcept { return box_ == other.box_; }
  void close() noexcept;  ///< releases it; copies keep it
  /// A view of the same stream, for callers that know that another copy lives longer.
  [[nodiscard]] Stream unheld() const noexcept {
    Stream name;
    name.raw_ = raw_;
    name.box_ = {std::shared_ptr<void>{}, box_.get()};
    return name;
  }

  /// The context it was made in; asks the driver for streams made elsewhere.
  [[nodiscard]] Context context() const;
  /// The number of the context it was made in, which no other context ever has; 0 for streams made
  /// elsewhere, and where the driver gives contexts no numbers.
  [[nodiscard]] unsigned long long context_id() const noexcept {
    return box_ != nullptr ? box_->context_id : 0;
  }
  [[nodiscard]] int device() const;  ///< its device's number

  using StreamRef::record;
  /// Makes an event and records it here.
  [[nodiscard]] Event record(const EventOptions& options = {}) const;

 private:
  Stream(CUstream raw, std::shared_ptr<detail::StreamBox> box)
      : StreamRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::StreamBox> box_;
};

}  // namespace cucore
