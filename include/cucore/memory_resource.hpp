// SPDX-License-Identifier: Apache-2.0
// cucore/memory_resource.hpp: memory resources, from which buffers are allocated.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"
#include "cucore/owned.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Allocates and deallocates memory, in stream order if the type of memory supports it. Derive from
/// it to implement a custom allocator. Implementations must be thread-safe.
class CUCORE_EXPORT MemoryResource {
 public:
  virtual ~MemoryResource();
  /// Allocates `size` bytes. Work enqueued on `stream` after the call may use the memory. Throws
  /// OutOfMemoryError.
  [[nodiscard]] virtual CUdeviceptr allocate(std::size_t size, StreamRef stream) = 0;
  /// Frees the memory after the work enqueued on `stream` is complete.
  virtual void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) = 0;
  /// Returns whether kernels can access the memory.
  [[nodiscard]] virtual bool is_device_accessible() const noexcept = 0;
  /// Returns whether the host can access the memory directly.
  [[nodiscard]] virtual bool is_host_accessible() const noexcept = 0;
  /// Returns whether the memory is managed: it migrates between host and devices.
  [[nodiscard]] virtual bool is_managed() const noexcept { return false; }
  /// Returns the ordinal of the device that the memory belongs to, or -1 if there is none.
  [[nodiscard]] virtual int device_id() const noexcept = 0;
  /// Returns whether deallocate() blocks until enqueued work is complete, instead of being
  /// stream-ordered.
  [[nodiscard]] virtual bool deallocation_waits() const noexcept { return false; }
};

/// Properties of a memory pool.
struct PoolOptions {
  CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;  ///< type of the memory
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {0}};  ///< location of the memory
  bool ipc_enabled = false;  ///< the pool can be exported as a file descriptor
  std::size_t max_size = 0;  ///< maximum size in bytes; 0: the driver's limit
};

/// Properties of a pool of pinned host memory.
struct PinnedOptions {
  bool ipc_enabled = false;    ///< the pool can be exported; it is then on a NUMA node
  std::optional<int> numa_id;  ///< NUMA node; unset: any, or the nearest one with `ipc_enabled`
  std::size_t max_size = 0;    ///< maximum size in bytes; 0: the driver's limit
};

/// A non-owning reference to a memory pool. Pass by value; must not outlive the pool.
class CUCORE_EXPORT MemoryPoolRef {
 public:
  /// Refers to the pool with this driver handle.
  constexpr explicit MemoryPoolRef(CUmemoryPool raw = nullptr) noexcept : raw_{raw} {}
  /// Returns the driver handle.
  [[nodiscard]] constexpr CUmemoryPool handle() const noexcept { return raw_; }

  /// Returns the current value of an attribute.
  [[nodiscard]] std::size_t attribute(CUmemPool_attribute attribute) const;
  /// Sets an attribute. High-water marks accept only 0, which resets them.
  void set_attribute(CUmemPool_attribute attribute, std::size_t value) const;
  /// Releases unused memory to the system, down to `keep_bytes` bytes.
  void trim_to(std::size_t keep_bytes) const;
  /// Exports the pool as a new file descriptor, which the caller must close.
  [[nodiscard]] int export_file_descriptor() const;
  /// Sets the access of a device to the pool's memory.
  void set_access(int device, CUmemAccess_flags flags) const;
  /// Returns the access of a device to the pool's memory.
  [[nodiscard]] CUmemAccess_flags access(int device) const;

 protected:
  CUmemoryPool raw_;
};

namespace detail {
struct DestroyPool {
  void operator()(CUmemoryPool pool) const noexcept;
};
}  // namespace detail

/// A memory pool of the driver, with stream-ordered allocation and deallocation. Owns the pool if
/// it was created or imported here; does not own the driver's current and default pools.
class CUCORE_EXPORT MemoryPool final : public MemoryResource, public MemoryPoolRef {
 public:
  /// Returns the current pool of a device, which cuMemAllocAsync uses. Non-owning.
  static std::shared_ptr<MemoryPool> current_of(int device);
  /// Returns the driver's default pool for a location and an allocation type. Non-owning.
  static std::shared_ptr<MemoryPool> default_of(const CUmemLocation& location,
                                                CUmemAllocationType type);
  /// Creates a pool, which is destroyed with its last owner.
  static std::shared_ptr<MemoryPool> create(const PoolOptions& options);
  /// Creates a pool of pinned host memory, which all devices can access. Throws
  /// std::invalid_argument if the NUMA node is negative.
  static std::shared_ptr<MemoryPool> create_pinned(const PinnedOptions& options);
  /// Returns the driver's default pool of pinned host memory. Creates a pool if the driver has none
  /// (before CUDA 13).
  static std::shared_ptr<MemoryPool> default_pinned();
  /// Imports a pool that another process exported. The caller keeps ownership of `fd`.
  static std::shared_ptr<MemoryPool> from_file_descriptor(int fd, const PoolOptions& options);
  ~MemoryPool() override;

  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override;
  [[nodiscard]] bool is_host_accessible() const noexcept override;
  [[nodiscard]] bool is_managed() const noexcept override {
    return options_.type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  }
  [[nodiscard]] int device_id() const noexcept override;

  /// Returns whether the pool is destroyed with this object.
  [[nodiscard]] bool is_handle_owned() const noexcept { return owned_ != nullptr; }
  /// Returns whether the pool can be exported.
  [[nodiscard]] bool is_ipc_enabled() const noexcept { return options_.ipc_enabled; }
  /// Returns whether the pool was imported from another process. It then cannot allocate.
  [[nodiscard]] bool is_mapped() const noexcept { return mapped_; }
  /// Returns the properties of the pool.
  [[nodiscard]] const PoolOptions& options() const noexcept { return options_; }

  /// Returns the ordinals of the peer devices that can access the memory.
  [[nodiscard]] std::vector<int> peer_accessible_by() const;
  /// Grants a device access. Throws std::invalid_argument if the device does not support peer
  /// access to the pool's device. No-op for the pool's device.
  void add_peer_accessible_by(int device) const;
  /// Revokes the access of a device. No-op for the pool's device.
  void remove_peer_accessible_by(int device) const;
  /// Grants these devices access and revokes that of all other peers.
  void set_peer_accessible_by(std::span<const int> devices) const;
  /// Exports an allocation of the pool, for import_pointer() in another process.
  [[nodiscard]] CUmemPoolPtrExportData export_pointer(CUdeviceptr ptr) const;
  /// Imports an allocation from the process that exported the pool.
  [[nodiscard]] CUdeviceptr import_pointer(const CUmemPoolPtrExportData& data) const;

 private:
  enum class Origin { this_process, other_process };
  MemoryPool(MemoryPoolRef pool, const PoolOptions& options, Origin origin);
  void own(CUmemoryPool pool) noexcept;
  [[nodiscard]] const Context& home()
      const;  ///< primary context of the device; null for host pools

  PoolOptions options_;
  bool mapped_;
  mutable std::atomic<bool> exported_{false};
  Context context_;
  Owned<CUmemoryPool, detail::DestroyPool> owned_;  // null for the driver's pools
};

/// Pinned host memory from cuMemAllocHost. deallocate() synchronizes the given stream. Does not
/// need memory pools.
class CUCORE_EXPORT LegacyPinnedMemory final : public MemoryResource {
 public:
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return true; }
  [[nodiscard]] int device_id() const noexcept override { return -1; }
  [[nodiscard]] bool deallocation_waits() const noexcept override { return true; }
};

/// Device memory from cuMemAlloc, for devices without memory pools. deallocate() synchronizes the
/// given stream.
class CUCORE_EXPORT SynchronousMemory final : public MemoryResource {
 public:
  /// Allocates on the device with this ordinal.
  explicit SynchronousMemory(int device) : device_{device} {}
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return false; }
  [[nodiscard]] int device_id() const noexcept override { return device_; }
  [[nodiscard]] bool deallocation_waits() const noexcept override { return true; }

 private:
  int device_;
};

/// Memory of graphs. allocate() adds an allocation node to the graph that the stream captures, and
/// throws InvalidStateError if the stream is not capturing.
class CUCORE_EXPORT GraphMemory final : public MemoryResource {
 public:
  /// Allocates on the device with this ordinal.
  explicit GraphMemory(int device) : device_{device} {}
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return false; }
  [[nodiscard]] int device_id() const noexcept override { return device_; }

  /// Returns a graph memory attribute of the device, in bytes.
  [[nodiscard]] std::size_t attribute(CUgraphMem_attribute attribute) const;
  /// Resets a high-water mark to zero.
  void reset_attribute(CUgraphMem_attribute attribute);
  /// Releases graph memory that is not in use to the system.
  void trim();

 private:
  int device_;
};

}  // namespace cucore
