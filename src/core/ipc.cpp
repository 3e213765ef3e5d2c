// SPDX-License-Identifier: Apache-2.0
// ipc.cpp: imports allocations of other processes.
#include "cucore/ipc.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "core/query.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/managed.hpp"

namespace cucore {
namespace {

/// A plain (not pooled) allocation of another process. The call that unmaps it blocks.
class OpenedMemory final : public MemoryResource {
 public:
  explicit OpenedMemory(Context context) : context_{std::move(context)} {}
  CUdeviceptr allocate(std::size_t, StreamRef) override {
    throw InvalidStateError("memory of another process cannot be allocated here");
  }
  void deallocate(CUdeviceptr ptr, std::size_t, StreamRef stream) override {
    const detail::RelaxedCaptureScope relaxed;
    const ScopedContext scope{context_};
    const CUresult waited =
        stream.handle() != nullptr ? driver().cuStreamSynchronize(stream.handle()) : CUDA_SUCCESS;
    CUCORE_CALL(cuIpcCloseMemHandle(ptr));
    check(waited, "cuStreamSynchronize");
  }
  bool is_device_accessible() const noexcept override { return true; }
  bool is_host_accessible() const noexcept override { return false; }
  int device_id() const noexcept override { return context_.device(); }
  bool deallocation_waits() const noexcept override { return true; }

 private:
  Context context_;
};

void CUDA_CB end_lease(void* held) { delete static_cast<std::shared_ptr<void>*>(held); }

/// Releases a lease in stream order. A host function of the driver releases it, because this
/// process may make no further call for a long time while the exporter waits for its memory.
void end_after(StreamRef stream, std::shared_ptr<void> lease) noexcept {
  if (lease == nullptr) return;
  const detail::RelaxedCaptureScope relaxed;
  auto* const held = new (std::nothrow) std::shared_ptr<void>{lease};
  if (held != nullptr &&
      driver().cuLaunchHostFunc(stream.handle(), &end_lease, held) == CUDA_SUCCESS)
    return;
  delete held;
  (void)detail::synchronize(stream);
}

/// A mapping shared by several buffers. The last buffer that is freed unmaps it.
class Mapping final : public MemoryResource {
 public:
  Mapping(std::shared_ptr<MemoryResource> from, CUdeviceptr ptr, std::size_t size,
          std::shared_ptr<void> lease)
      : from_{std::move(from)}, ptr_{ptr}, size_{size}, lease_{std::move(lease)} {}
  CUdeviceptr allocate(std::size_t, StreamRef) override {
    throw InvalidStateError("memory of another process cannot be allocated here");
  }
  void deallocate(CUdeviceptr, std::size_t, StreamRef stream) override {
    const std::lock_guard lock{mutex_};  // a concurrent open() waits until the memory is unmapped
    if (--users_ != 0) return;
    from_->deallocate(ptr_, size_, stream);
    end_after(stream, std::move(lease_));
  }
  bool is_device_accessible() const noexcept override { return from_->is_device_accessible(); }
  bool is_host_accessible() const noexcept override { return from_->is_host_accessible(); }
  bool is_managed() const noexcept override { return from_->is_managed(); }
  int device_id() const noexcept override { return from_->device_id(); }
  bool deallocation_waits() const noexcept override { return from_->deallocation_waits(); }

  /// Adds a user. Returns false if the last user is already gone.
  bool use() {
    const std::lock_guard lock{mutex_};
    if (users_ == 0) return false;
    ++users_;
    return true;
  }
  [[nodiscard]] CUdeviceptr ptr() const noexcept { return ptr_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  const std::shared_ptr<MemoryResource> from_;
  const CUdeviceptr ptr_;
  const std::size_t size_;
  std::shared_ptr<void> lease_;
  std::mutex mutex_;
  std::size_t users_ = 1;
};

struct Mappings {
  std::mutex mutex;
  /// Key: pool and handle, because handles are unique only within a pool.
  std::map<std::pair<const void*, std::string>, std::weak_ptr<Mapping>> known;
};
Mappings& mappings() {
  // Never destroyed: buffers may be freed until the process ends.
  static Mappings& m = *new Mappings;
  return m;
}

/// Opens the buffer of an allocation. If this process has not mapped it yet, calls `map`, which
/// returns the address and the memory resource that unmaps it.
template <class Map>
Buffer open(const void* pool, std::string_view handle, std::size_t size, const Stream& stream,
            std::shared_ptr<void> lease, Map map) {
  Mappings& all = mappings();
  std::shared_ptr<Mapping> mapping;
  {
    const std::lock_guard lock{all.mutex};
    std::erase_if(all.known, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Mapping>& place = all.known[{pool, std::string{handle}}];
    mapping = place.lock();
    if (mapping == nullptr || !mapping->use()) {
      auto [from, ptr] = map();
      // The sender's size is not trusted; the driver reports the mapped size.
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      const bool is_known =
          driver().cuMemGetAddressRange(&base, &bytes, ptr) == CUDA_SUCCESS && ptr - base <= bytes;
      mapping = std::make_shared<Mapping>(std::move(from), ptr,
                                          is_known ? bytes - (ptr - base) : size, std::move(lease));
      place = mapping;
    }
  }
  if (size > mapping->size()) {
    const std::size_t has = mapping->size();
    mapping->deallocate(mapping->ptr(), has, stream);
    throw std::invalid_argument("the descriptor says " + std::to_string(size) +
                                " bytes, more than the " + std::to_string(has) +
                                " that are mapped");
  }
  const CUdeviceptr ptr = mapping->ptr();
  return Buffer::adopt(ptr, size, std::move(mapping), stream);
}

/// Extracts the driver's handle from a descriptor that another process sent.
template <class Handle>
Handle handle_of(const IPCBufferDescriptor& descriptor) {
  static_assert(sizeof(Handle) == sizeof descriptor.payload);
  Handle handle;
  std::memcpy(&handle, descriptor.payload.data(), sizeof handle);
  return handle;
}

}  // namespace

IPCBufferDescriptor IPCBufferDescriptor::from_parts(std::span<const std::byte> payload,
                                                    std::uint64_t size, std::string_view kind) {
  IPCBufferDescriptor out;
  if (payload.size() != out.payload.size())
    throw std::invalid_argument{"an IPC buffer handle has " + std::to_string(out.payload.size()) +
                                " bytes, not " + std::to_string(payload.size())};
  if (kind != "pool" && kind != "memory")
    throw std::invalid_argument{"unknown kind of IPC buffer: '" + std::string{kind} +
                                "', neither 'pool' nor 'memory'"};
  std::memcpy(out.payload.data(), payload.data(), payload.size());
  out.size = size;
  out.kind = kind == "pool" ? Kind::pool : Kind::memory;
  return out;
}

const char* IPCBufferDescriptor::kind_name() const noexcept {
  return kind == Kind::pool ? "pool" : "memory";
}

CUipcEventHandle ipc_event_handle(std::span<const std::byte> bytes) {
  CUipcEventHandle handle{};
  if (bytes.size() != sizeof handle)
    throw std::invalid_argument{"an IPC event handle has " + std::to_string(sizeof handle) +
                                " bytes, not " + std::to_string(bytes.size())};
  std::memcpy(&handle, bytes.data(), sizeof handle);
  return handle;
}

IPCBufferDescriptor export_memory(BufferRef memory, const MemoryPool* pool) {
  if (pool != nullptr ? pool->is_managed() : is_managed(memory)) {
    throw InvalidStateError{
        "the buffer cannot be shared: no driver exports managed memory; allocate it from a "
        "DeviceMemoryResource or a PinnedMemoryResource made with ipc_enabled=True"};
  }
  IPCBufferDescriptor out;
  out.size = memory.size();
  if (pool != nullptr) {
    if (!pool->is_ipc_enabled()) {
      throw InvalidStateError{
          "the buffer cannot be shared: its memory resource was made without ipc_enabled=True"};
    }
    const CUmemPoolPtrExportData data = pool->export_pointer(memory.handle());
    std::memcpy(out.payload.data(), &data, sizeof out.payload);
    return out;
  }
  CUipcMemHandle handle{};
  CUCORE_CALL(cuIpcGetMemHandle(&handle, memory.handle()));
  std::memcpy(out.payload.data(), &handle, sizeof out.payload);
  out.kind = IPCBufferDescriptor::Kind::memory;
  return out;
}

IPCBufferDescriptor export_buffer(const Buffer& buffer) {
  return export_memory(buffer, dynamic_cast<const MemoryPool*>(buffer.memory_resource().get()));
}

Buffer import_buffer(const std::shared_ptr<MemoryPool>& pool, const IPCBufferDescriptor& descriptor,
                     const Stream& stream, std::shared_ptr<void> lease) {
  using Opened = std::pair<std::shared_ptr<MemoryResource>, CUdeviceptr>;
  const std::string_view name{reinterpret_cast<const char*>(descriptor.payload.data()),
                              descriptor.payload.size()};
  if (descriptor.kind == IPCBufferDescriptor::Kind::memory) {
    return open(nullptr, name, descriptor.size, stream, std::move(lease), [&] {
      auto opened = std::make_shared<OpenedMemory>(Context::current());
      CUdeviceptr ptr = 0;
      CUCORE_CALL(cuIpcOpenMemHandle(&ptr, handle_of<CUipcMemHandle>(descriptor),
                                     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      return Opened{std::move(opened), ptr};
    });
  }
  if (pool == nullptr || !pool->is_ipc_enabled()) {
    throw InvalidStateError{
        "the buffer needs its own memory resource, opened with from_allocation_handle()"};
  }
  return open(pool.get(), name, descriptor.size, stream, std::move(lease), [&] {
    return Opened{pool, pool->import_pointer(handle_of<CUmemPoolPtrExportData>(descriptor))};
  });
}

}  // namespace cucore
