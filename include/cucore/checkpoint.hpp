// SPDX-License-Identifier: Apache-2.0
// cucore/checkpoint.hpp: checkpoint and restore of a process's CUDA state, also to other GPUs.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore::checkpoint {

/// A device's UUID, as returned by Device::uuid_bytes().
using Uuid = std::array<unsigned char, 16>;

/// The CUDA state of a process. Call lock(), checkpoint(), restore() and unlock(), in this order.
class CUCORE_EXPORT Process {
 public:
  explicit Process(int pid);  ///< Throws std::invalid_argument if `pid` is not positive.
  [[nodiscard]] int pid() const noexcept { return pid_; }  ///< the process ID
  [[nodiscard]] CUprocessState state() const;  ///< running, locked, checkpointed or failed
  /// Returns the ID of the process's restore thread, which restore() needs if another tool has
  /// stopped the process.
  [[nodiscard]] int restore_thread_id() const;
  /// Locks the process: no new CUDA work starts. Waits at most `timeout_ms` milliseconds; 0 means
  /// no limit.
  void lock(unsigned timeout_ms = 0) const;
  void checkpoint() const;  ///< Saves device memory to host memory and releases the GPUs.
  /// Reacquires the GPUs and restores device memory. `gpu_mapping` has pairs (old UUID, new UUID)
  /// for a restore to other GPUs.
  void restore(std::span<const std::pair<Uuid, Uuid>> gpu_mapping = {}) const;
  void unlock() const;  ///< Unlocks the process: CUDA work continues.

 private:
  int pid_;
};

}  // namespace cucore::checkpoint
