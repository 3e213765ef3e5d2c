// SPDX-License-Identifier: Apache-2.0
// cucore/checkpoint.hpp: stopping a process's CUDA work, saving it to host memory, and going on
// later, perhaps on another GPU.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore::checkpoint {

/// The 16 bytes of a device's UUID: Device::uuid_bytes().
using Uuid = std::array<unsigned char, 16>;

/// The CUDA side of a process: lock(), checkpoint(), restore(), unlock(), in this order.
class CUCORE_EXPORT Process {
 public:
  explicit Process(int pid);  ///< Throws std::invalid_argument for a number that is not positive.
  [[nodiscard]] int pid() const noexcept { return pid_; }  ///< its number
  [[nodiscard]] CUprocessState state() const;              ///< where it stands
  /// The thread that restore() must be called for when other tools stopped the process.
  [[nodiscard]] int restore_thread_id() const;
  /// Lets no new CUDA work start; waits at most `timeout_ms` (0: without limit).
  void lock(unsigned timeout_ms = 0) const;
  void checkpoint() const;  ///< Saves device memory to the host and releases the GPUs.
  /// Takes the GPUs back; the pairs (old, new) say which.
  void restore(std::span<const std::pair<Uuid, Uuid>> gpu_mapping = {}) const;
  void unlock() const;  ///< Lets CUDA work go on.

 private:
  int pid_;
};

}  // namespace cucore::checkpoint
