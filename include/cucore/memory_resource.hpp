// SPDX-License-Identifier: Apache-2.0
// cucore/memory_resource.hpp: where buffers get their memory from.
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

/// Allocates and frees memory, ordered on a stream where the kind of memory allows it. Derive from
/// it to give buffers memory of your own. Must be safe to use from several threads.
class CUCORE_EXPORT MemoryResource {
 public:
  virtual ~MemoryResource();
  /// Memory that work queued on `stream` from now on may use. Throws OutOfMemoryError.
  [[nodiscard]] virtual CUdeviceptr allocate(std::size_t size, StreamRef stream) = 0;
  /// Takes memory back once the work queued on `stream` is done with it.
  virtual void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) = 0;
  /// kernels can use the memory
  [[nodiscard]] virtual bool is_device_accessible() const noexcept = 0;
  /// the host can read and write it directly
  [[nodiscard]] virtual bool is_host_accessible() const noexcept = 0;
  /// It moves between host and device by itself.
  [[nodiscard]] virtual bool is_managed() const noexcept { return false; }
  [[nodiscard]] virtual int device_id() const noexcept = 0;  ///< -1: no device of its own
  /// True when deallocate() waits for work: it is not ordered on a stream.
  [[nodiscard]] virtual bool deallocation_waits() const noexcept { return false; }
};

/// What a pool's memory is and where it lies.
struct PoolOptions {
  CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;  ///< what kind of memory
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {0}};  ///< where it lies
  bool ipc_enabled = false;  ///< the pool can be exported as a file descriptor
  std::size_t max_size = 0;  ///< 0: the driver's own limit
};

/// What a pool of page-locked host memory is.
struct PinnedOptions {
  bool ipc_enabled = false;    ///< the pool can be exported; its memory is then of a NUMA node
  std::optional<int> numa_id;  ///< the NUMA node; none: any, or the device's where it must be one
  std::size_t max_size = 0;    ///< 0: the driver's own limit
};

/// Names a pool of the driver without owning it. Pass by value; must not outlive the pool.
class CUCORE_EXPORT MemoryPoolRef {
 public:
  /// Names the pool of this handle.
  constexpr explicit MemoryPoolRef(CUmemoryPool raw = nullptr) noexcept : raw_{raw} {}
  [[nodiscard]] constexpr CUmemoryPool handle() const noexcept { return raw_; }  ///< the driver's

  /// What the driver says about the pool now.
  [[nodiscard]] std::size_t attribute(CUmemPool_attribute attribute) const;
  /// Changes it; counters can be set to zero only.
  void set_attribute(CUmemPool_attribute attribute, std::size_t value) const;
  void trim_to(std::size_t keep_bytes) const;  ///< Gives unused memory back to the system.
  /// A new file descriptor that names the pool; the caller closes it.
  [[nodiscard]] int export_file_descriptor() const;
  /// Lets another device use the memory, or no longer.
  void set_access(int device, CUmemAccess_flags flags) const;
  [[nodiscard]] CUmemAccess_flags access(int device) const;  ///< What a device may do with it.

 protected:
  CUmemoryPool raw_;
};

namespace detail {
struct DestroyPool {
  void operator()(CUmemoryPool pool) const noexcept;
};
}  // namespace detail

/// A pool of the driver: allocation and release are ordered on streams and reuse memory. Pools that
/// create() made and from_file_descriptor() opened are destroyed with it.
class CUCORE_EXPORT MemoryPool final : public MemoryResource, public MemoryPoolRef {
 public:
  /// The pool cuMemAllocAsync uses on a device now. Not ours: never destroyed.
  static std::shared_ptr<MemoryPool> current_of(int device);
  /// The driver's default pool for a kind and place of memory.
  static std::shared_ptr<MemoryPool> default_of(const CUmemLocation& location,
                                                CUmemAllocationType type);
  /// A new pool, destroyed with its last owner.
  static std::shared_ptr<MemoryPool> create(const PoolOptions& options);
  /// A new pool of page-locked host memory, which all devices can use. Throws std::invalid_argument
  /// for a NUMA node below 0.
  static std::shared_ptr<MemoryPool> create_pinned(const PinnedOptions& options);
  /// The driver's default pool of it; a new one where the driver (before CUDA 13) has none.
  static std::shared_ptr<MemoryPool> default_pinned();
  /// Opens a pool that another process exported. The file descriptor stays the caller's.
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

  /// destroyed with this object
  [[nodiscard]] bool is_handle_owned() const noexcept { return owned_ != nullptr; }
  /// can be exported
  [[nodiscard]] bool is_ipc_enabled() const noexcept { return options_.ipc_enabled; }
  [[nodiscard]] bool is_mapped() const noexcept { return mapped_; }  ///< came from another process
  /// how it was made
  [[nodiscard]] const PoolOptions& options() const noexcept { return options_; }

  /// The other devices that can use the memory, by number.
  [[nodiscard]] std::vector<int> peer_accessible_by() const;
  /// Lets a device use the memory. Throws std::invalid_argument where it cannot reach it.
  void add_peer_accessible_by(int device) const;
  void remove_peer_accessible_by(int device) const;  ///< not any more
  /// These devices and no others, beside the pool's own.
  void set_peer_accessible_by(std::span<const int> devices) const;
  /// What another process needs to open an allocation of an exported pool.
  [[nodiscard]] CUmemPoolPtrExportData export_pointer(CUdeviceptr ptr) const;
  /// Opens an allocation of the process the pool came from.
  [[nodiscard]] CUdeviceptr import_pointer(const CUmemPoolPtrExportData& data) const;

 private:
  enum class Origin { this_process, other_process };
  MemoryPool(MemoryPoolRef pool, const PoolOptions& options, Origin origin);
  void own(CUmemoryPool pool) noexcept;
  [[nodiscard]] const Context& home() const;  ///< the context calls are made in

  PoolOptions options_;
  bool mapped_;
  mutable std::atomic<bool> exported_{false};
  Context context_;
  Owned<CUmemoryPool, detail::DestroyPool> owned_;  // none for a pool that the driver keeps
};

/// Page-locked host memory from cuMemAllocHost. Release waits for the given stream; needs no pool
/// support.
class CUCORE_EXPORT LegacyPinnedMemory final : public MemoryResource {
 public:
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return true; }
  [[nodiscard]] int device_id() const noexcept override { return -1; }
  [[nodiscard]] bool deallocation_waits() const noexcept override { return true; }
};

/// Device memory from cuMemAlloc, for devices without pools. Release waits for the given stream.
class CUCORE_EXPORT SynchronousMemory final : public MemoryResource {
 public:
  explicit SynchronousMemory(int device) : device_{device} {}  ///< On this device.
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return false; }
  [[nodiscard]] int device_id() const noexcept override { return device_; }
  [[nodiscard]] bool deallocation_waits() const noexcept override { return true; }

 private:
  int device_;
};

/// Memory that belongs to a graph being captured; allocate() takes capturing streams only.
class CUCORE_EXPORT GraphMemory final : public MemoryResource {
 public:
  explicit GraphMemory(int device) : device_{device} {}  ///< Of the graphs of this device.
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  [[nodiscard]] bool is_device_accessible() const noexcept override { return true; }
  [[nodiscard]] bool is_host_accessible() const noexcept override { return false; }
  [[nodiscard]] int device_id() const noexcept override { return device_; }

  /// How much memory the graphs hold.
  [[nodiscard]] std::size_t attribute(CUgraphMem_attribute attribute) const;
  void reset_attribute(CUgraphMem_attribute attribute);  ///< Sets a high mark back to zero.
  void trim();  ///< Gives memory that no graph uses now back.

 private:
  int device_;
};

}  // namespace cucore
