// SPDX-License-Identifier: Apache-2.0
// cucore/system_events.hpp: waiting for what happens to GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/system_device.hpp"

namespace cucore::system {

enum class SystemEventType { unbind = 1, bind = 2 };  ///< What can happen to the system's GPUs.

/// What happened to a GPU.
struct EventData {
  Device device;                     ///< the GPU it is about
  std::uint64_t event_type = 0;      ///< NVML's bit of what happened
  std::uint64_t event_data = 0;      ///< the number of a XID error; 0 for other events
  unsigned gpu_instance_id = 0;      ///< of a MIG device
  unsigned compute_instance_id = 0;  ///< of a MIG device
};

/// Collects events of a GPU from its construction on. Moves, never copies.
class CUCORE_EXPORT DeviceEvents {
 public:
  DeviceEvents(Device device, std::uint64_t events);  ///< `events`: NVML's bits
  /// The next event; nothing when none comes in time.
  [[nodiscard]] std::optional<EventData> wait(unsigned timeout_ms = 0) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

/// A GPU came or went.
struct SystemEvent {
  SystemEventType event_type{};                       ///< whether it came or went
  unsigned gpu_id = 0;                                ///< its place on the PCI bus, as a number
  [[nodiscard]] CUCORE_EXPORT Device device() const;  ///< the GPU it is about
};

/// Collects the coming and going of GPUs from its construction on. Moves, never copies.
class CUCORE_EXPORT SystemEvents {
 public:
  explicit SystemEvents(std::span<const SystemEventType> events);  ///< Of these kinds.
  /// At most `most` events; none when none come in time.
  [[nodiscard]] std::vector<SystemEvent> wait(unsigned timeout_ms = 0, unsigned most = 1) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

}  // namespace cucore::system
