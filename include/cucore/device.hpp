// SPDX-License-Identifier: Apache-2.0
// cucore/device.hpp: devices: properties, and creation of streams, events and buffers.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/buffer.hpp"
#include "cucore/context.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// A compute capability, for example 9.0.
struct ComputeCapability {
  int major = 0;  ///< 9 for 9.0
  int minor = 0;  ///< 0 for 9.0
  friend bool operator==(const ComputeCapability&, const ComputeCapability&) = default;
};

/// A device, identified by its ordinal. A value type: copies refer to the same device. The
/// constructor creates no context. Methods act on this device regardless of the current context;
/// only set_current() changes which context is current.
class CUCORE_EXPORT Device {
 public:
  /// Throws std::out_of_range if there is no device with this ordinal.
  explicit Device(int device_id = 0);
  static int count();                ///< Returns the number of devices.
  static std::vector<Device> all();  ///< Returns all devices in the order of their ordinals.
  /// Returns the device of the calling thread's current context, or device 0 if there is none.
  static Device current();
  static int current_id();  ///< Returns the ordinal of current().

  [[nodiscard]] int device_id() const noexcept { return id_; }  ///< the ordinal
  [[nodiscard]] std::string name() const;  ///< the product name, for example "NVIDIA H200"
  /// The UUID, identical in all processes.
  [[nodiscard]] std::array<unsigned char, 16> uuid_bytes() const;
  [[nodiscard]] std::string uuid() const;          ///< the UUID as 8-4-4-4-12 hexadecimal digits
  [[nodiscard]] std::string pci_bus_id() const;    ///< the PCI bus ID, for example "0000:01:00.0"
  [[nodiscard]] std::size_t total_memory() const;  ///< size of device memory in bytes
  [[nodiscard]] ComputeCapability compute_capability() const;  ///< for example 9.0
  [[nodiscard]] std::string arch() const;  ///< the compute capability without a dot: "90" for 9.0
  /// Returns the value of a device attribute.
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;
  /// As attribute(), but returns `otherwise` if the driver is older than the attribute.
  [[nodiscard]] int attribute_or(CUdevice_attribute attribute, int otherwise) const;
  /// Returns whether peer access to the memory of `peer` is possible. True for the device itself.
  [[nodiscard]] bool can_access_peer(Device peer) const;

  /// Returns the primary context, in which the device's objects are created.
  [[nodiscard]] Context primary_context() const { return Context::primary(id_); }
  /// Makes the primary context current on the calling thread.
  void set_current() const { primary_context().set_current(); }
  /// Blocks until all work of the primary context is complete.
  void sync() const { primary_context().sync(); }
  /// Creates a stream in the primary context.
  [[nodiscard]] Stream create_stream(const StreamOptions& options = {}) const;
  /// Creates an event in the primary context.
  [[nodiscard]] Event create_event(const EventOptions& options = {}) const;
  /// Returns the memory resource of allocate(): the memory pool that was current at the first call,
  /// or synchronous allocation if the device does not support pools.
  [[nodiscard]] std::shared_ptr<MemoryResource> memory_resource() const;
  /// Allocates `size` bytes from memory_resource() for work enqueued on `stream` from now on.
  [[nodiscard]] Buffer allocate(std::size_t size, const Stream& stream) const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  int id_;
};

}  // namespace cucore
