// SPDX-License-Identifier: Apache-2.0
// cucore/system_events.hpp: NVML events of GPUs and of the system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cucore/export.hpp"
#include "cucore/system_device.hpp"

namespace cucore::system {

enum class SystemEventType { unbind = 1, bind = 2 };  ///< Driver unbound from or bound to a GPU.

/// An event of a GPU.
struct EventData {
  Device device;                     ///< the GPU of the event
  std::uint64_t event_type = 0;      ///< event type, a bit of NVML (nvmlEventType...)
  std::uint64_t event_data = 0;      ///< number of an XID error; 0 for other events
  unsigned gpu_instance_id = 0;      ///< GPU instance of a MIG device
  unsigned compute_instance_id = 0;  ///< compute instance of a MIG device
};

/// A set of events of a GPU, recorded from construction on. Move-only.
class CUCORE_EXPORT DeviceEvents {
 public:
  /// Registers for events. `events` is a mask of event types (nvmlEventType...).
  DeviceEvents(Device device, std::uint64_t events);
  /// Blocks until the next event. Returns std::nullopt after `timeout_ms` milliseconds without one.
  [[nodiscard]] std::optional<EventData> wait(unsigned timeout_ms = 0) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

/// A system event: a driver was bound to or unbound from a GPU.
struct SystemEvent {
  SystemEventType event_type{};                       ///< type of the event
  unsigned gpu_id = 0;                                ///< PCI domain << 16 | bus << 8 | device
  [[nodiscard]] CUCORE_EXPORT Device device() const;  ///< Returns the GPU of the event.
};

/// A set of system events, recorded from construction on. Move-only.
class CUCORE_EXPORT SystemEvents {
 public:
  /// Registers for events of these types.
  explicit SystemEvents(std::span<const SystemEventType> events);
  /// Blocks until an event occurs and returns at most `most` events. Returns none after
  /// `timeout_ms` milliseconds without one.
  [[nodiscard]] std::vector<SystemEvent> wait(unsigned timeout_ms = 0, unsigned most = 1) const;

 private:
  struct Destroy {
    void operator()(void* set) const noexcept;
  };
  std::unique_ptr<void, Destroy> set_;
};

}  // namespace cucore::system
