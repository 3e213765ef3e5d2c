// SPDX-License-Identifier: Apache-2.0
// cucore/virtual_memory.hpp: allocations by virtual memory management, which can grow in place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/buffer_ref.hpp"
#include "cucore/export.hpp"
#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Properties of allocations: location, access, and granularity.
struct VirtualMemoryResourceOptions {
  CUmemAllocationType allocation_type = CU_MEM_ALLOCATION_TYPE_PINNED;  ///< pinned or managed
  CUmemLocationType location_type = CU_MEM_LOCATION_TYPE_DEVICE;        ///< device or host
  /// Handle type with which the memory can be exported to other processes.
  CUmemAllocationHandleType handle_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  /// Granularity to which sizes are rounded up.
  CUmemAllocationGranularity_flags granularity = CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
  bool gpu_direct_rdma = false;  ///< the memory supports GPUDirect RDMA
  CUdeviceptr addr_hint = 0;     ///< preferred address; 0: any
  std::size_t addr_align = 0;    ///< alignment of the address in bytes; 0: the driver's default
  std::vector<int> peers;        ///< ordinals of the peer devices with access
  CUmemAccess_flags self_access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  ///< access of the device
  CUmemAccess_flags peer_access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  ///< access of the peers
};

/// Allocates memory by reserving an address range and mapping physical memory to it.
/// modify_allocation() grows an allocation. Thread-safe.
class CUCORE_EXPORT VirtualMemoryResource final
    : public MemoryResource,
      public std::enable_shared_from_this<VirtualMemoryResource> {
 public:
  /// Creates a resource for a device. Throws std::runtime_error if the device does not support
  /// virtual memory management, or GPUDirect RDMA if `options` request it, and
  /// std::invalid_argument for Windows handle types.
  static std::shared_ptr<VirtualMemoryResource> create(int device,
                                                       VirtualMemoryResourceOptions options = {});
  ~VirtualMemoryResource() override;

  /// Allocates a buffer of `size` bytes, rounded up to the granularity. Not stream-ordered: the
  /// memory can be used immediately.
  [[nodiscard]] Buffer allocate_buffer(std::size_t size);
  /// Allocates like allocate_buffer() and returns the address; `stream` is ignored. size_of()
  /// returns the actual size.
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  /// Synchronizes the stream, unmaps the memory and frees the address range. No-op for an unknown
  /// address. Executes all steps even if one fails, then throws the first error.
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  /// Grows a buffer. The contents stay; the address stays if the addresses that follow are free.
  /// The result takes over the memory of `buffer`. A size that is not larger changes only the
  /// access. Throws std::invalid_argument for a buffer of another resource. If a step fails, throws
  /// and frees the memory with `buffer`; the overload with an address leaves it unchanged.
  [[nodiscard]] Buffer modify_allocation(
      Buffer buffer, std::size_t new_size,
      const std::optional<VirtualMemoryResourceOptions>& options = std::nullopt);
  /// Grows an allocation by address. If the returned address differs, the old one is invalid. If a
  /// step fails, the allocation is unchanged. Throws std::invalid_argument for an unknown address.
  [[nodiscard]] BufferRef modify_allocation(
      CUdeviceptr ptr, std::size_t new_size,
      const std::optional<VirtualMemoryResourceOptions>& options = std::nullopt);
  /// Returns the size of an allocation in bytes, or 0 for an unknown address.
  [[nodiscard]] std::size_t size_of(CUdeviceptr ptr) const;
  /// Returns the number of live allocations.
  [[nodiscard]] std::size_t num_allocations() const;

  /// Returns true for device and managed memory, false for host memory, which belongs to no device.
  [[nodiscard]] bool is_device_accessible() const noexcept override {
    return options_.location_type == CU_MEM_LOCATION_TYPE_DEVICE || is_managed();
  }
  [[nodiscard]] bool is_host_accessible() const noexcept override {
    return options_.location_type != CU_MEM_LOCATION_TYPE_DEVICE;
  }
  [[nodiscard]] bool is_managed() const noexcept override {
    return options_.allocation_type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  }
  [[nodiscard]] int device_id() const noexcept override {
    return is_host_accessible() ? -1 : device_;
  }
  [[nodiscard]] bool deallocation_waits() const noexcept override { return true; }
  /// Returns the properties of new allocations.
  [[nodiscard]] const VirtualMemoryResourceOptions& options() const noexcept { return options_; }

 private:
  struct Mapping;      // owns a mapping of physical memory
  struct Reservation;  // owns a reserved address range
  struct Allocation;   // the reservations and mappings of one allocation
  struct Allocations;
  VirtualMemoryResource(int device, VirtualMemoryResourceOptions options);
  [[nodiscard]] std::size_t rounded(std::size_t size,
                                    const VirtualMemoryResourceOptions& options) const;
  [[nodiscard]] CUmemAllocationProp properties(const VirtualMemoryResourceOptions& options) const;
  [[nodiscard]] Allocation grow(Allocation& old, CUdeviceptr ptr, std::size_t bytes,
                                const VirtualMemoryResourceOptions& options) const;
  void grant(CUdeviceptr ptr, std::size_t size, const VirtualMemoryResourceOptions& options) const;

  int device_;
  VirtualMemoryResourceOptions options_;
  std::unique_ptr<Allocations> allocations_;
};

}  // namespace cucore
