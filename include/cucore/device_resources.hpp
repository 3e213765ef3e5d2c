// SPDX-License-Identifier: Apache-2.0
// cucore/device_resources.hpp: device resources (multiprocessors, work queues) and green contexts.
#pragma once

#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/export.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// Options of one group of multiprocessors for SMResource::split().
struct SMGroupOptions {
  unsigned count = 0;                 ///< number of multiprocessors; 0: chosen by the driver
  unsigned coscheduled_sm_count = 0;  ///< multiprocessors that run a cluster together; 0: any
  unsigned preferred_coscheduled_sm_count = 0;  ///< preferred coscheduled_sm_count, if available
  bool backfill = false;  ///< adds other multiprocessors if `count` cannot be met
};

/// A set of multiprocessors of a device. A value type.
class CUCORE_EXPORT SMResource {
 public:
  /// Wraps the driver's structure.
  explicit SMResource(const CUdevResource& raw) : raw_{raw} {}
  /// Number of multiprocessors.
  [[nodiscard]] unsigned sm_count() const noexcept { return raw_.sm.smCount; }
  /// Minimum number of multiprocessors of a partition.
  [[nodiscard]] unsigned min_partition_size() const noexcept { return raw_.sm.minSmPartitionSize; }
  /// Granularity: numbers of multiprocessors are rounded up to a multiple of it.
  [[nodiscard]] unsigned coscheduled_alignment() const noexcept {
    return raw_.sm.smCoscheduledAlignment;
  }
  [[nodiscard]] unsigned flags() const noexcept { return raw_.sm.flags; }  ///< flags of the group
  /// Divides the multiprocessors into groups. Returns the groups and the remainder. Throws
  /// CUDAError if the driver cannot create the groups. Drivers before CUDA 13.1 support only groups
  /// of equal size without further options.
  [[nodiscard]] std::pair<std::vector<SMResource>, SMResource> split(
      std::span<const SMGroupOptions> groups) const;
  /// The driver's structure.
  [[nodiscard]] const CUdevResource& raw() const noexcept { return raw_; }

 private:
  CUdevResource raw_;
};

/// Which contexts share work queues.
enum class WorkqueueSharingScope {
  device_ctx = CU_WORKQUEUE_SCOPE_DEVICE_CTX,  ///< shared by all contexts of the device
  green_ctx_balanced = CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED  ///< each green context has its own
};

/// Configuration of work queues: number of concurrent workloads and sharing scope. A value type.
class CUCORE_EXPORT WorkqueueResource {
 public:
  /// Wraps the driver's structure.
  explicit WorkqueueResource(const CUdevResource& raw) : raw_{raw} {}
  /// The device's ordinal.
  [[nodiscard]] int device_id() const noexcept { return raw_.wqConfig.device; }
  /// Maximum number of concurrent stream-ordered workloads.
  [[nodiscard]] unsigned concurrency_limit() const noexcept {
    return raw_.wqConfig.wqConcurrencyLimit;
  }
  /// Sets the limit for contexts created with this resource. Throws std::invalid_argument if it is
  /// less than 1.
  void set_concurrency_limit(long long limit);
  /// Which contexts share the work queues.
  [[nodiscard]] WorkqueueSharingScope sharing_scope() const noexcept {
    return static_cast<WorkqueueSharingScope>(raw_.wqConfig.sharingScope);
  }
  /// Sets the sharing scope for contexts created with this resource.
  void set_sharing_scope(WorkqueueSharingScope scope) noexcept;
  /// The driver's structure.
  [[nodiscard]] const CUdevResource& raw() const noexcept { return raw_; }

 private:
  CUdevResource raw_;
};

/// The resources of a device, context or stream. A view: must not outlive that object.
class CUCORE_EXPORT DeviceResources {
 public:
  explicit DeviceResources(int device) : of_{device} {}  ///< Resources of a device.
  /// Resources of a context.
  explicit DeviceResources(Context context) : of_{std::move(context)} {}
  explicit DeviceResources(StreamRef stream) : of_{stream} {}  ///< Resources of a stream.
  [[nodiscard]] SMResource sm() const;                         ///< Returns the multiprocessors.
  [[nodiscard]] WorkqueueResource workqueue() const;           ///< Returns the work queues.

 private:
  [[nodiscard]] CUdevResource get(CUdevResourceType type) const;
  std::variant<int, Context, StreamRef> of_;
};

/// A resource that a green context can be created with.
using DeviceResource = std::variant<SMResource, WorkqueueResource>;

/// Creates a green context that runs on these resources of a device. Throws std::invalid_argument
/// if `resources` is empty.
[[nodiscard]] CUCORE_EXPORT Context create_context(int device,
                                                   std::span<const DeviceResource> resources);

}  // namespace cucore
