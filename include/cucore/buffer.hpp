// SPDX-License-Identifier: Apache-2.0
// cucore/buffer.hpp: an owner of memory that a device can access.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Where memory can be used from, and where it lies.
struct MemoryTraits {
  bool device = false;   ///< kernels can use it
  bool host = false;     ///< the host can read and write it directly
  bool managed = false;  ///< it moves between host and device by itself
  int device_id = -1;    ///< -1: no device's own
};
/// What the driver says about an address; memory that it does not know is the host's own.
[[nodiscard]] CUCORE_EXPORT MemoryTraits memory_traits(CUdeviceptr ptr) noexcept;

/// Owns (or, made with view(), names) memory. Moves, never copies. The memory is returned
/// to its resource on the stream it was allocated on, or the one given to close(), so that work
/// queued there before still finds it.
class CUCORE_EXPORT Buffer {
 public:
  Buffer() = default;  ///< Closed: names nothing.
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (!closed_) close_quietly();
  }

  /// New memory from `resource`. Throws OutOfMemoryError.
  static Buffer allocate(std::shared_ptr<MemoryResource> resource, std::size_t size,
                         const Stream& stream);
  /// Takes over memory that `resource` will take back.
  static Buffer adopt(CUdeviceptr ptr, std::size_t size, std::shared_ptr<MemoryResource> resource,
                      const Stream& stream) {
    return Buffer{ptr, size, std::move(resource), stream};
  }
  /// A view of memory with another owner; keeps `owner` alive.
  static Buffer view(CUdeviceptr ptr, std::size_t size, std::shared_ptr<void> owner = nullptr);

  /// The memory without owning it.
  operator BufferRef() const noexcept { return {ptr_, size_}; }  // NOLINT: an owner is a view
  /// the address; 0 when closed
  [[nodiscard]] CUdeviceptr handle() const noexcept { return ptr_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< in bytes
  /// The resource that frees it; null for a view.
  [[nodiscard]] const std::shared_ptr<MemoryResource>& memory_resource() const noexcept {
    return resource_;
  }
  /// Where close() orders the release.
  [[nodiscard]] const Stream& deallocation_stream() const noexcept { return stream_; }
  /// Orders the release on another stream.
  void set_deallocation_stream(const Stream& stream) { stream_ = stream; }
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }  ///< its memory is gone
  /// As its resource says; asks the driver about a view.
  [[nodiscard]] MemoryTraits traits() const noexcept;

  /// Gives the memory back, on the deallocation stream. Does nothing the second time. Throws when
  /// the driver refuses.
  void close();
  void close(const Stream& stream);  ///< the same, on another stream
  /// Lets go of the memory without giving it back; the caller owns it from here.
  CUdeviceptr release() noexcept {
    closed_ = true;
    size_ = 0;
    resource_ = nullptr;
    owner_ = nullptr;
    stream_ = Stream{};
    return std::exchange(ptr_, 0);
  }

  /// Copies a buffer of the same size; throws std::invalid_argument for another one.
  void copy_from(const Buffer& source, StreamRef stream);
  /// Copies host bytes to the head of the buffer. Pageable memory may be reused when this returns.
  void copy_from(std::span<const std::byte> source, StreamRef stream);
  /// The same in the other direction.
  void copy_to(Buffer& destination, StreamRef stream) const {
    destination.copy_from(*this, stream);
  }
  /// Copies the buffer to host memory of the same size; done when the stream has got there. Throws
  /// std::invalid_argument for another size.
  void copy_to(std::span<std::byte> destination, StreamRef stream) const;
  /// The same with values that can be copied byte by byte.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
  void copy_from(std::span<T, N> source, StreamRef stream) {
    copy_from(std::span<const std::byte>{std::as_bytes(source)}, stream);
  }
  /// The same with values that can be copied byte by byte, and written.
  template <class T, std::size_t N>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_const_v<T>) void copy_to(std::span<T, N> destination, StreamRef stream) const {
    copy_to(std::span<std::byte>{std::as_writable_bytes(destination)}, stream);
  }
  /// Repeats a pattern of 1, 2 or 4 bytes; the size must be a multiple of the pattern's.
  void fill(std::span<const std::byte> pattern, StreamRef stream);
  /// Repeats one byte.
  void fill(unsigned char value, StreamRef stream) {
    fill(std::as_bytes(std::span{&value, 1}), stream);
  }

 private:
  Buffer(CUdeviceptr ptr, std::size_t size, std::shared_ptr<MemoryResource> resource,
         const Stream& stream)
      : ptr_{ptr}, size_{size}, resource_{std::move(resource)}, stream_{stream}, closed_{false} {}
  void close_quietly() noexcept;
  void give_back(StreamRef stream);

  CUdeviceptr ptr_ = 0;
  std::size_t size_ = 0;
  std::shared_ptr<MemoryResource> resource_;
  std::shared_ptr<void> owner_;
  Stream stream_;
  bool closed_ = true;
};

}  // namespace cucore
