// SPDX-License-Identifier: Apache-2.0
// cucore/location.hpp: a memory location: a device, the host or a NUMA node of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// A memory location: a device, the host or a NUMA node of the host. A value type.
class Location {
 public:
  /// Returns the location of the device with this ordinal.
  [[nodiscard]] static constexpr Location device(int id) noexcept {
    return Location{CU_MEM_LOCATION_TYPE_DEVICE, id};
  }
  /// Returns the location of the host, on any NUMA node.
  [[nodiscard]] static constexpr Location host() noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST, 0};
  }
  /// Returns the location of a NUMA node of the host.
  [[nodiscard]] static constexpr Location host_numa(int node) noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
  }
  /// Returns the location of the calling thread's NUMA node.
  [[nodiscard]] static constexpr Location host_numa_current() noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  }
  /// Returns host_numa_current() if `is_numa_current` is true, host_numa() if `numa_id` is set, and
  /// host() otherwise. Throws std::invalid_argument if both are given or `numa_id` is negative.
  [[nodiscard]] CUCORE_EXPORT static Location host_of(std::optional<int> numa_id,
                                                      bool is_numa_current);
  /// Creates a location from the fields of a CUmemLocation.
  constexpr Location(CUmemLocationType type, int id) noexcept : type_{type}, id_{id} {}

  /// Returns the location type.
  [[nodiscard]] constexpr CUmemLocationType type() const noexcept { return type_; }
  /// Returns the device ordinal or the NUMA node; 0 for the other host locations.
  [[nodiscard]] constexpr int id() const noexcept { return id_; }
  /// Returns whether the location is a device.
  [[nodiscard]] constexpr bool is_device() const noexcept {
    return type_ == CU_MEM_LOCATION_TYPE_DEVICE;
  }
  /// Returns whether the location is the calling thread's NUMA node.
  [[nodiscard]] constexpr bool is_numa_current() const noexcept {
    return type_ == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  }
  /// Returns the NUMA node, or std::nullopt unless the location is host_numa().
  [[nodiscard]] constexpr std::optional<int> numa_id() const noexcept {
    return type_ == CU_MEM_LOCATION_TYPE_HOST_NUMA ? std::optional{id_} : std::nullopt;
  }
  /// Returns "Device 0", "Host()", "Host(numa_id=1)" or "Host.numa_current()".
  [[nodiscard]] CUCORE_EXPORT std::string text() const;
  /// Returns the driver's structure.
  [[nodiscard]] CUmemLocation raw() const noexcept {
    CUmemLocation out{};
    out.type = type_;
    out.id = id_;
    return out;
  }
  friend constexpr bool operator==(const Location&, const Location&) = default;

 private:
  CUmemLocationType type_;
  int id_;
};

}  // namespace cucore

/// Hash of a location, for unordered containers.
template <>
struct std::hash<cucore::Location> {
  /// Returns the hash of `place`.
  std::size_t operator()(const cucore::Location& place) const noexcept {
    return std::hash<long long>{}((static_cast<long long>(place.type()) << 32) ^ place.id());
  }
};
