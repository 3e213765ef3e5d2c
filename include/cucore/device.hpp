// SPDX-License-Identifier: Apache-2.0
// cucore/device.hpp: a device, what it can do, and what is made on it.
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

/// The generation of a device: 9.0.
struct ComputeCapability {
  int major = 0;  ///< 9 of 9.0
  int minor = 0;  ///< 0 of 9.0
  friend bool operator==(const ComputeCapability&, const ComputeCapability&) = default;
};

/// A device by number. A value: copies are the same device. Making one creates no context; methods
/// act on this device whatever is current and leave the caller's context as it was.
class CUCORE_EXPORT Device {
 public:
  explicit Device(int device_id = 0);  ///< Throws std::out_of_range when there is no such device.
  static int count();                  ///< how many there are
  static std::vector<Device> all();    ///< every one of them
  /// The device of this thread's context, or device 0 when it has none.
  static Device current();
  static int current_id();  ///< its number

  [[nodiscard]] int device_id() const noexcept { return id_; }     ///< its number
  [[nodiscard]] std::string name() const;                          ///< as its maker calls it
  [[nodiscard]] std::array<unsigned char, 16> uuid_bytes() const;  ///< the same in every process
  [[nodiscard]] std::string uuid() const;                      ///< 8-4-4-4-12 hexadecimal digits
  [[nodiscard]] std::string pci_bus_id() const;                ///< "0000:01:00.0"
  [[nodiscard]] std::size_t total_memory() const;              ///< in bytes
  [[nodiscard]] ComputeCapability compute_capability() const;  ///< its generation
  [[nodiscard]] std::string arch() const;                      ///< "90" for 9.0
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;  ///< one number about it
  /// The same; `otherwise` where the driver is older than the attribute.
  [[nodiscard]] int attribute_or(CUdevice_attribute attribute, int otherwise) const;
  /// Its kernels could use the memory of `peer`.
  [[nodiscard]] bool can_access_peer(Device peer) const;

  /// What its objects are made in.
  [[nodiscard]] Context primary_context() const { return Context::primary(id_); }
  /// Makes it current on this thread.
  void set_current() const { primary_context().set_current(); }
  void sync() const { primary_context().sync(); }  ///< Blocks until all its work is done.
  /// A new stream on it.
  [[nodiscard]] Stream create_stream(const StreamOptions& options = {}) const;
  [[nodiscard]] Event create_event(const EventOptions& options = {}) const;  ///< A new event on it.
  /// Where allocate() gets memory: the device's current pool, or plain allocations where it has no
  /// pools.
  [[nodiscard]] std::shared_ptr<MemoryResource> memory_resource() const;
  /// Memory of memory_resource(), for work on `stream` from now on.
  [[nodiscard]] Buffer allocate(std::size_t size, const Stream& stream) const;

  friend bool operator==(const Device&, const Device&) = default;

 private:
  int id_;
};

}  // namespace cucore
