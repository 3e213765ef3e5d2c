// SPDX-License-Identifier: Apache-2.0
// cucore/location.hpp: a place where memory can lie: a device, the host, a NUMA node of the host.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"

namespace cucore {

/// A place for memory. A value: equal ones are the same place.
class Location {
 public:
  /// A device by its number.
  [[nodiscard]] static constexpr Location device(int id) noexcept {
    return Location{CU_MEM_LOCATION_TYPE_DEVICE, id};
  }
  /// The host, on whatever node it likes.
  [[nodiscard]] static constexpr Location host() noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST, 0};
  }
  /// One NUMA node of the host.
  [[nodiscard]] static constexpr Location host_numa(int node) noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
  }
  /// The NUMA node of the thread that makes the call.
  [[nodiscard]] static constexpr Location host_numa_current() noexcept {
    return Location{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0};
  }
  /// One of the three places of the host. Throws std::invalid_argument for a node and the current
  /// node at once, and for a negative node.
  [[nodiscard]] CUCORE_EXPORT static Location host_of(std::optional<int> numa_id,
                                                      bool is_numa_current);
  /// The driver's own numbers.
  constexpr Location(CUmemLocationType type, int id) noexcept : type_{type}, id_{id} {}

  [[nodiscard]] constexpr CUmemLocationType type() const noexcept { return type_; }  ///< which kind
  [[nodiscard]] constexpr int id() const noexcept { return id_; }  ///< of the device or the node
  [[nodiscard]] constexpr bool is_device() const noexcept {        ///< not the host
    return type_ == CU_MEM_LOCATION_TYPE_DEVICE;
  }
  /// true for the node of the thread that makes the call
  [[nodiscard]] constexpr bool is_numa_current() const noexcept {
    return type_ == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  }
  /// the node, where it is one of the host
  [[nodiscard]] constexpr std::optional<int> numa_id() const noexcept {
    return type_ == CU_MEM_LOCATION_TYPE_HOST_NUMA ? std::optional{id_} : std::nullopt;
  }
  /// "Device 0", "Host()", "Host(numa_id=1)" or "Host.numa_current()"
  [[nodiscard]] CUCORE_EXPORT std::string text() const;
  /// As the driver takes it.
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

/// Places as keys of std::unordered_map.
template <>
struct std::hash<cucore::Location> {
  /// the same for equal places
  std::size_t operator()(const cucore::Location& place) const noexcept {
    return std::hash<long long>{}((static_cast<long long>(place.type()) << 32) ^ place.id());
  }
};
