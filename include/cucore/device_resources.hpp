// SPDX-License-Identifier: Apache-2.0
// cucore/device_resources.hpp: parts of a device (multiprocessors, work queues), and contexts that
// run on them (green contexts).
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

/// One group of multiprocessors that SMResource::split() makes.
struct SMGroupOptions {
  unsigned count = 0;                           ///< multiprocessors; 0: the driver chooses
  unsigned coscheduled_sm_count = 0;            ///< that run clusters together; 0: any
  unsigned preferred_coscheduled_sm_count = 0;  ///< the same where it can be had
  bool backfill = false;                        ///< take others where the count cannot be met
};

/// Some of a device's multiprocessors. A value.
class CUCORE_EXPORT SMResource {
 public:
  explicit SMResource(const CUdevResource& raw) : raw_{raw} {}  ///< The driver's description.
  [[nodiscard]] unsigned sm_count() const noexcept { return raw_.sm.smCount; }  ///< how many
  /// the fewest multiprocessors a part can have
  [[nodiscard]] unsigned min_partition_size() const noexcept { return raw_.sm.minSmPartitionSize; }
  /// counts are rounded up to a multiple of this
  [[nodiscard]] unsigned coscheduled_alignment() const noexcept {
    return raw_.sm.smCoscheduledAlignment;
  }
  [[nodiscard]] unsigned flags() const noexcept { return raw_.sm.flags; }  ///< of the group
  /// Divides into groups and what is left over. Throws CUDAError where the driver cannot. Drivers
  /// before CUDA 13.1 make groups of one size without further wishes only.
  [[nodiscard]] std::pair<std::vector<SMResource>, SMResource> split(
      std::span<const SMGroupOptions> groups) const;
  [[nodiscard]] const CUdevResource& raw() const noexcept { return raw_; }  ///< the driver's

 private:
  CUdevResource raw_;
};

/// Who shares work queues.
enum class WorkqueueSharingScope {
  device_ctx = CU_WORKQUEUE_SCOPE_DEVICE_CTX,                 ///< all contexts of the device
  green_ctx_balanced = CU_WORKQUEUE_SCOPE_GREEN_CTX_BALANCED  ///< each green context has its own
};

/// How many pieces of work can be in flight, and who shares the queues. A value.
class CUCORE_EXPORT WorkqueueResource {
 public:
  explicit WorkqueueResource(const CUdevResource& raw) : raw_{raw} {}            ///< The driver's.
  [[nodiscard]] int device_id() const noexcept { return raw_.wqConfig.device; }  ///< of which
  /// pieces of work in flight
  [[nodiscard]] unsigned concurrency_limit() const noexcept {
    return raw_.wqConfig.wqConcurrencyLimit;
  }
  /// Asks for another limit in contexts made with this. Throws std::invalid_argument below 1.
  void set_concurrency_limit(long long limit);
  /// who shares them
  [[nodiscard]] WorkqueueSharingScope sharing_scope() const noexcept {
    return static_cast<WorkqueueSharingScope>(raw_.wqConfig.sharingScope);
  }
  void set_sharing_scope(WorkqueueSharingScope scope) noexcept;  ///< in contexts made with this
  [[nodiscard]] const CUdevResource& raw() const noexcept { return raw_; }  ///< the driver's

 private:
  CUdevResource raw_;
};

/// What a device, a context or a stream has of a device. A view: it must not outlive what it is of.
class CUCORE_EXPORT DeviceResources {
 public:
  explicit DeviceResources(int device) : of_{device} {}                   ///< Of a device.
  explicit DeviceResources(Context context) : of_{std::move(context)} {}  ///< Of a context.
  explicit DeviceResources(StreamRef stream) : of_{stream} {}             ///< Of a stream.
  [[nodiscard]] SMResource sm() const;                                    ///< the multiprocessors
  [[nodiscard]] WorkqueueResource workqueue() const;                      ///< the work queues

 private:
  [[nodiscard]] CUdevResource get(CUdevResourceType type) const;
  std::variant<int, Context, StreamRef> of_;
};

/// A part of a device that a context can be given.
using DeviceResource = std::variant<SMResource, WorkqueueResource>;

/// A context that runs on these parts of a device only. Throws std::invalid_argument for none.
[[nodiscard]] CUCORE_EXPORT Context create_context(int device,
                                                   std::span<const DeviceResource> resources);

}  // namespace cucore
