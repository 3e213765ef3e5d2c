// SPDX-License-Identifier: Apache-2.0
// cucore/stream.hpp: CUDA streams: queues of device work that executes in order.
#pragma once

#include <memory>
#include <optional>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"

namespace cucore {

/// Options for creating a stream.
struct StreamOptions {
  bool nonblocking = true;        ///< no implicit synchronization with the legacy default stream
  std::optional<int> priority{};  ///< lower numbers are higher priorities; unset: the default
};

/// A non-owning reference to a stream. Pass by value; must not outlive the stream.
class CUCORE_EXPORT StreamRef {
 public:
  /// Refers to the stream with this driver handle; null is the default stream.
  constexpr explicit StreamRef(CUstream raw = nullptr) noexcept : raw_{raw} {}
  /// Returns the driver handle.
  [[nodiscard]] constexpr CUstream handle() const noexcept { return raw_; }

  /// Returns the context of the stream. Queries the driver.
  [[nodiscard]] ContextRef context() const;
  /// Returns whether the stream does not synchronize implicitly with the legacy default stream.
  [[nodiscard]] bool is_nonblocking() const;
  /// Returns the priority; lower numbers are higher priorities.
  [[nodiscard]] int priority() const;

  /// Blocks until all enqueued work is complete.
  void sync() const;
  /// Returns whether all enqueued work is complete. Does not block; pending work is not an error.
  [[nodiscard]] bool is_done() const;
  /// Records an event: it completes when all work enqueued so far is complete.
  void record(EventRef event) const;
  /// Makes work enqueued later wait for an event.
  void wait(EventRef event) const;
  /// Makes work enqueued later wait for all work enqueued on `other` so far.
  void wait(StreamRef other) const;
  /// Returns whether the stream is capturing.
  [[nodiscard]] bool is_capturing() const;
  /// Returns the identifier of the stream's capture, or 0 if the stream is not capturing.
  [[nodiscard]] cuuint64_t capture_id() const noexcept;
  /// Enqueues a call of a host function, which must not call CUDA. `data` must stay valid until the
  /// function returns.
  void call_host(CUhostFn function, void* data) const;

 protected:
  CUstream raw_;
};

namespace detail {
struct DestroyStream {
  void operator()(CUstream stream) const noexcept;
};
/// State shared by all copies of a Stream. The order of the members matters: the stream is
/// destroyed before the objects that it uses.
struct StreamBox {
  Context context{};              // a stream keeps its context alive
  std::shared_ptr<void> owner{};  // owner of a foreign stream
  unsigned long long context_id = 0;
  Owned<CUstream, DestroyStream> stream{};  // null for a foreign stream
};
}  // namespace detail

/// Owns a stream, or wraps a foreign stream, which was created outside this library. Copies share
/// the stream; the last one destroys it. Work that is enqueued at that time still completes.
class CUCORE_EXPORT Stream : public StreamRef {
 public:
  Stream() = default;  ///< Creates a closed stream.
  /// Creates a stream. Throws std::invalid_argument if the device does not support the priority.
  static Stream create(const Context& context, const StreamOptions& options = {});
  /// Wraps a foreign stream without owning it; keeps `owner` alive.
  static Stream view(CUstream raw, std::shared_ptr<void> owner = nullptr);
  /// Returns the legacy default stream, which synchronizes with all blocking streams.
  static Stream legacy_default();
  /// Returns the per-thread default stream.
  static Stream per_thread_default();

  /// Returns whether the stream is closed or default-constructed.
  [[nodiscard]] bool is_closed() const noexcept { return box_ == nullptr; }
  /// Returns whether both are copies of one object.
  [[nodiscard]] bool is_same(const Stream& other) const noexcept { return box_ == other.box_; }
  /// Releases this copy's share of the stream; other copies stay valid. Idempotent.
  void close() noexcept;
  /// Returns a copy without a share of the ownership, for callers that keep another copy alive.
  [[nodiscard]] Stream unheld() const noexcept {
    Stream name;
    name.raw_ = raw_;
    name.box_ = {std::shared_ptr<void>{}, box_.get()};
    return name;
  }

  /// Returns the context of the stream. Queries the driver for foreign streams.
  [[nodiscard]] Context context() const;
  /// Returns the unique identifier of the stream's context (cuCtxGetId); 0 for foreign streams, for
  /// streams of green contexts, and if the driver does not have cuCtxGetId.
  [[nodiscard]] unsigned long long context_id() const noexcept {
    return box_ != nullptr ? box_->context_id : 0;
  }
  [[nodiscard]] int device() const;  ///< Returns the ordinal of the stream's device.

  using StreamRef::record;
  /// Creates an event and records it.
  [[nodiscard]] Event record(const EventOptions& options = {}) const;

 private:
  Stream(CUstream raw, std::shared_ptr<detail::StreamBox> box)
      : StreamRef{raw}, box_{std::move(box)} {}
  std::shared_ptr<detail::StreamBox> box_;
};

}  // namespace cucore
