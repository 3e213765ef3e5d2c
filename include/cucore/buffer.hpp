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

/// Accessibility and location of memory.
struct MemoryTraits {
  bool device = false;   ///< accessible by kernels
  bool host = false;     ///< directly accessible by the host
  bool managed = false;  ///< managed memory: migrates between host and devices
  int device_id = -1;    ///< ordinal of the device the memory belongs to; -1: none
};
/// Returns the traits of the memory at `ptr`, from the driver's pointer attributes. Memory unknown
/// to the driver is host memory.
[[nodiscard]] CUCORE_EXPORT MemoryTraits memory_traits(CUdeviceptr ptr) noexcept;

/// Owns memory that a device can access, or, if created by view(), refers to memory of another
/// owner. Move-only. The memory is deallocated in order on the deallocation stream (by default the
/// stream it was allocated on) or on the stream passed to close(): work enqueued there earlier can
/// still use it.
class CUCORE_EXPORT Buffer {
 public:
  Buffer() = default;  ///< Creates a closed buffer.
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (!closed_) close_quietly();
  }

  /// Allocates `size` bytes from `resource` in order on `stream`. Throws OutOfMemoryError.
  static Buffer allocate(std::shared_ptr<MemoryResource> resource, std::size_t size,
                         const Stream& stream);
  /// Takes ownership of memory at `ptr`, which is returned to `resource`.
  static Buffer adopt(CUdeviceptr ptr, std::size_t size, std::shared_ptr<MemoryResource> resource,
                      const Stream& stream) {
    return Buffer{ptr, size, std::move(resource), stream};
  }
  /// Creates a view of memory with another owner. Keeps `owner` alive.
  static Buffer view(CUdeviceptr ptr, std::size_t size, std::shared_ptr<void> owner = nullptr);

  /// Returns a non-owning view of the memory.
  operator BufferRef() const noexcept { return {ptr_, size_}; }  // NOLINT: an owner is a view
  /// The address; 0 if the buffer is closed.
  [[nodiscard]] CUdeviceptr handle() const noexcept { return ptr_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< size in bytes
  /// The memory resource that frees the memory; null for a view.
  [[nodiscard]] const std::shared_ptr<MemoryResource>& memory_resource() const noexcept {
    return resource_;
  }
  /// The stream on which close() and the destructor free the memory.
  [[nodiscard]] const Stream& deallocation_stream() const noexcept { return stream_; }
  /// Sets the deallocation stream.
  void set_deallocation_stream(const Stream& stream) { stream_ = stream; }
  /// True for a default-constructed buffer, and after close() or release().
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }
  /// Returns the traits of the memory: those of the memory resource, or, for a view, those that the
  /// driver reports.
  [[nodiscard]] MemoryTraits traits() const noexcept;

  /// Frees the memory in order on the deallocation stream; a view releases its owner. Idempotent.
  /// Throws CUDAError if the driver call fails.
  void close();
  void close(const Stream& stream);  ///< As close(), in order on `stream`.
  /// Releases ownership: the caller must free the memory. Returns the address.
  CUdeviceptr release() noexcept {
    closed_ = true;
    size_ = 0;
    resource_ = nullptr;
    owner_ = nullptr;
    stream_ = Stream{};
    return std::exchange(ptr_, 0);
  }

  /// Enqueues a copy from a buffer of the same size. Throws std::invalid_argument if the sizes
  /// differ.
  void copy_from(const Buffer& source, StreamRef stream);
  /// Enqueues a copy from host memory to the beginning of the buffer. Pageable memory may be reused
  /// when the call returns. Throws std::invalid_argument if the source is larger than the buffer.
  void copy_from(std::span<const std::byte> source, StreamRef stream);
  /// Enqueues a copy to a buffer of the same size, as destination.copy_from(*this, stream).
  void copy_to(Buffer& destination, StreamRef stream) const {
    destination.copy_from(*this, stream);
  }
  /// Enqueues a copy to host memory of the same size, which completes in stream order. Throws
  /// std::invalid_argument if the sizes differ.
  void copy_to(std::span<std::byte> destination, StreamRef stream) const;
  /// As copy_from() with bytes, for a span of trivially copyable elements.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
  void copy_from(std::span<T, N> source, StreamRef stream) {
    copy_from(std::span<const std::byte>{std::as_bytes(source)}, stream);
  }
  /// As copy_to() with bytes, for a span of writable, trivially copyable elements.
  template <class T, std::size_t N>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_const_v<T>) void copy_to(std::span<T, N> destination, StreamRef stream) const {
    copy_to(std::span<std::byte>{std::as_writable_bytes(destination)}, stream);
  }
  /// Enqueues a fill with a repeated pattern of 1, 2 or 4 bytes. Throws std::invalid_argument if
  /// the pattern has another size, or if the buffer's size is not a multiple of it.
  void fill(std::span<const std::byte> pattern, StreamRef stream);
  /// Enqueues a fill with one repeated byte.
  void fill(unsigned char value, StreamRef stream) {
    fill(std::as_bytes(std::span{&value, 1}), stream);
  }

 private:
  Buffer(CUdeviceptr ptr, std::size_t size, std::shared_ptr<MemoryResource> resource,
         const Stream& stream)
      : ptr_{ptr}, size_{size}, resource_{std::move(resource)}, stream_{stream}, closed_{false} {}
  void close_quietly() noexcept;
  void deallocate(StreamRef stream);

  CUdeviceptr ptr_ = 0;
  std::size_t size_ = 0;
  std::shared_ptr<MemoryResource> resource_;
  std::shared_ptr<void> owner_;
  Stream stream_;
  bool closed_ = true;
};

}  // namespace cucore
