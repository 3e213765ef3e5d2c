// SPDX-License-Identifier: Apache-2.0
// cucore/virtual_memory.hpp: virtual memory: addresses are reserved apart from the physical memory
// that is mapped there, so that an allocation can grow in place.
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

/// Where memory lies, who may use it, and how sizes are rounded.
struct VirtualMemoryResourceOptions {
  CUmemAllocationType allocation_type = CU_MEM_ALLOCATION_TYPE_PINNED;  ///< or managed
  CUmemLocationType location_type = CU_MEM_LOCATION_TYPE_DEVICE;        ///< the device, or the host
  /// How other processes can be given it.
  CUmemAllocationHandleType handle_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  /// What sizes are rounded up to.
  CUmemAllocationGranularity_flags granularity = CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
  bool gpu_direct_rdma = false;  ///< network cards can read and write it
  CUdeviceptr addr_hint = 0;     ///< where addresses are wished; 0: anywhere
  std::size_t addr_align = 0;    ///< of the addresses; 0: the driver's own
  std::vector<int> peers;        ///< devices beside its own that may use it
  CUmemAccess_flags self_access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  ///< of its own device
  CUmemAccess_flags peer_access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  ///< of the peers
};

/// Allocates by reserving addresses and mapping memory to them; modify_allocation() makes a buffer
/// larger. Safe to use from several threads.
class CUCORE_EXPORT VirtualMemoryResource final
    : public MemoryResource,
      public std::enable_shared_from_this<VirtualMemoryResource> {
 public:
  /// Memory for one device. Throws std::runtime_error where the device has no virtual memory
  /// management, or no GPUDirect RDMA that the options ask for; std::invalid_argument for handles
  /// of another operating system.
  static std::shared_ptr<VirtualMemoryResource> create(int device,
                                                       VirtualMemoryResourceOptions options = {});
  ~VirtualMemoryResource() override;

  /// A buffer of at least `size` bytes: whole pages. Usable at once.
  [[nodiscard]] Buffer allocate_buffer(std::size_t size);
  /// The same by address; `stream` is not needed. size_of() says how large it is.
  [[nodiscard]] CUdeviceptr allocate(std::size_t size, StreamRef stream) override;
  /// Waits for the stream, and gives memory and addresses back. Every step is made, also when one
  /// fails; the first error is thrown.
  void deallocate(CUdeviceptr ptr, std::size_t size, StreamRef stream) override;
  /// Makes a buffer larger and keeps its contents, at the same address where there is room: the
  /// result replaces `buffer`, whose memory it takes over. A smaller size changes only who may use
  /// it. When a step fails, `buffer` is as it was.
  [[nodiscard]] Buffer modify_allocation(
      Buffer buffer, std::size_t new_size,
      const std::optional<VirtualMemoryResourceOptions>& options = std::nullopt);
  /// The same for an allocation by address. The old address is not valid any more where the new one
  /// differs.
  [[nodiscard]] BufferRef modify_allocation(
      CUdeviceptr ptr, std::size_t new_size,
      const std::optional<VirtualMemoryResourceOptions>& options = std::nullopt);
  /// How large an allocation is; 0 for an address that is none.
  [[nodiscard]] std::size_t size_of(CUdeviceptr ptr) const;
  [[nodiscard]] std::size_t num_allocations() const;  ///< how many are not given back

  /// False for memory of the host, which belongs to no device.
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
  /// how it was made
  [[nodiscard]] const VirtualMemoryResourceOptions& options() const noexcept { return options_; }

 private:
  struct Mapping;      // memory at addresses; undone with it
  struct Reservation;  // addresses; freed with it
  struct Allocation;   // what one address stands for
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
