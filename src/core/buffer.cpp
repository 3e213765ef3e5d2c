// SPDX-License-Identifier: Apache-2.0
// buffer.cpp: buffers, which own memory.
#include "cucore/buffer.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

Buffer::Buffer(Buffer&& other) noexcept
    : ptr_{std::exchange(other.ptr_, 0)},
      size_{std::exchange(other.size_, 0)},
      resource_{std::move(other.resource_)},
      owner_{std::move(other.owner_)},
      stream_{std::move(other.stream_)},
      closed_{std::exchange(other.closed_, true)} {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Buffer old{std::move(*this)};
    ptr_ = std::exchange(other.ptr_, 0);
    size_ = std::exchange(other.size_, 0);
    resource_ = std::move(other.resource_);
    owner_ = std::move(other.owner_);
    stream_ = std::move(other.stream_);
    closed_ = std::exchange(other.closed_, true);
  }
  return *this;
}

void Buffer::close_quietly() noexcept {
  if (driver_is_loaded() && !detail::may_free()) {
    release();
    return;
  }
  try {
    close();
  } catch (...) {  // destructors do not throw; close() reports errors
  }
}

Buffer Buffer::allocate(std::shared_ptr<MemoryResource> resource, std::size_t size,
                        const Stream& stream) {
  const CUdeviceptr ptr = resource->allocate(size, stream);
  return Buffer{ptr, size, std::move(resource), stream};
}

MemoryTraits memory_traits(CUdeviceptr ptr) noexcept {
  MemoryTraits traits;
  unsigned type = 0;
  int ordinal = -1;
  unsigned managed = 0;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* answers[] = {&type, &ordinal, &managed};
  const CUresult code = driver().cuPointerGetAttributes(3, wanted, answers, ptr);
  if (code != CUDA_SUCCESS || type == 0) {
    traits.host = true;
    return traits;
  }
  traits.device = true;
  traits.managed = managed != 0;
  traits.host = type == CU_MEMORYTYPE_HOST || traits.managed;
  traits.device_id = ordinal;
  return traits;
}

MemoryTraits Buffer::traits() const noexcept {
  if (resource_ == nullptr) return memory_traits(ptr_);
  return {resource_->is_device_accessible(), resource_->is_host_accessible(),
          resource_->is_managed(), resource_->device_id()};
}

Buffer Buffer::view(CUdeviceptr ptr, std::size_t size, std::shared_ptr<void> owner) {
  Buffer buffer;
  buffer.ptr_ = ptr;
  buffer.size_ = size;
  buffer.owner_ = std::move(owner);
  buffer.closed_ = false;
  return buffer;
}

void Buffer::deallocate(StreamRef stream) {
  closed_ = true;
  const CUdeviceptr ptr = std::exchange(ptr_, 0);
  const std::size_t size = std::exchange(size_, 0);
  const auto resource = std::move(resource_);
  const auto owner = std::move(owner_);
  if (resource != nullptr) resource->deallocate(ptr, size, stream);
}

void Buffer::close() {
  if (closed_) return;
  const Stream stream = std::move(stream_);
  deallocate(stream);
}

void Buffer::close(const Stream& stream) {
  if (closed_) return;
  const Stream old = std::move(stream_);
  deallocate(stream);
}

static void check_open(const Buffer& buffer) {
  if (buffer.is_closed()) throw InvalidStateError("the buffer is closed");
}

/// Calls a transfer function. The driver uses the stream's context if it can. If the call fails and
/// another context is current, it is retried with the stream's context current.
template <class Call>
static void transfer(StreamRef stream, const char* name, Call call) {
  CUresult code = call();
  if (code == CUDA_SUCCESS) [[likely]]
    return;
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream.handle()) <= 2;
  CUcontext home = nullptr;
  CUcontext current = nullptr;
  if (!is_default && driver().cuStreamGetCtx(stream.handle(), &home) == CUDA_SUCCESS &&
      driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && home != current) {
    const ScopedContext scope{ContextRef{home}};
    code = call();
  }
  check(code, name);
}

void Buffer::copy_from(const Buffer& source, StreamRef stream) {
  check_open(*this);
  check_open(source);
  if (source.size_ != size_) {
    throw std::invalid_argument("buffers of different sizes cannot be copied: the source has " +
                                std::to_string(source.size_) + " bytes, the destination " +
                                std::to_string(size_));
  }
  if (size_ == 0) return;
  transfer(stream, "cuMemcpyAsync",
           [&] { return driver().cuMemcpyAsync(ptr_, source.ptr_, size_, stream.handle()); });
}

/// Returns whether memory is inaccessible to the host. Only then are the host-device copy functions
/// used: they reject pinned memory as the device address. cuMemcpyAsync detects the memory types.
static bool is_device_only(const std::shared_ptr<MemoryResource>& resource) noexcept {
  return resource && !resource->is_host_accessible();
}

void Buffer::copy_from(std::span<const std::byte> source, StreamRef stream) {
  check_open(*this);
  if (source.size() > size_) {
    throw std::invalid_argument("the source has " + std::to_string(source.size()) +
                                " bytes, more than the buffer's " + std::to_string(size_));
  }
  if (source.empty()) return;
  if (!is_device_only(resource_)) {
    const auto from = reinterpret_cast<CUdeviceptr>(source.data());
    return transfer(stream, "cuMemcpyAsync", [&] {
      return driver().cuMemcpyAsync(ptr_, from, source.size(), stream.handle());
    });
  }
  transfer(stream, "cuMemcpyHtoDAsync", [&] {
    return driver().cuMemcpyHtoDAsync(ptr_, source.data(), source.size(), stream.handle());
  });
}

void Buffer::copy_to(std::span<std::byte> destination, StreamRef stream) const {
  check_open(*this);
  if (destination.size() != size_) {
    throw std::invalid_argument("the destination has " + std::to_string(destination.size()) +
                                " bytes, the buffer " + std::to_string(size_) +
                                ": they must be of one size");
  }
  if (destination.empty()) return;
  if (!is_device_only(resource_)) {
    const auto into = reinterpret_cast<CUdeviceptr>(destination.data());
    return transfer(stream, "cuMemcpyAsync", [&] {
      return driver().cuMemcpyAsync(into, ptr_, destination.size(), stream.handle());
    });
  }
  transfer(stream, "cuMemcpyDtoHAsync", [&] {
    return driver().cuMemcpyDtoHAsync(destination.data(), ptr_, destination.size(),
                                      stream.handle());
  });
}

void Buffer::fill(std::span<const std::byte> pattern, StreamRef stream) {
  check_open(*this);
  const std::size_t width = pattern.size();
  if (width != 1 && width != 2 && width != 4) {
    throw std::invalid_argument("a fill pattern has 1, 2 or 4 bytes, not " + std::to_string(width));
  }
  if (size_ % width != 0) {
    throw std::invalid_argument("the buffer's size, " + std::to_string(size_) +
                                " bytes, is not a multiple of the " + std::to_string(width) +
                                "-byte pattern");
  }
  if (size_ == 0) return;
  if (width == 1) {
    const auto value = std::to_integer<unsigned char>(pattern[0]);
    transfer(stream, "cuMemsetD8Async",
             [&] { return driver().cuMemsetD8Async(ptr_, value, size_, stream.handle()); });
  } else if (width == 2) {
    unsigned short value = 0;
    std::memcpy(&value, pattern.data(), sizeof value);
    transfer(stream, "cuMemsetD16Async",
             [&] { return driver().cuMemsetD16Async(ptr_, value, size_ / 2, stream.handle()); });
  } else {
    unsigned value = 0;
    std::memcpy(&value, pattern.data(), sizeof value);
    transfer(stream, "cuMemsetD32Async",
             [&] { return driver().cuMemsetD32Async(ptr_, value, size_ / 4, stream.handle()); });
  }
}

}  // namespace cucore
