// SPDX-License-Identifier: Apache-2.0
// device_properties.hpp: the attributes of a device, each queried once.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "cucore/abi/driver.h"

namespace cucore::python {

class DeviceProperties {
 public:
  explicit DeviceProperties(int device) : device_{device}, cache_{std::make_unique<Cache>()} {
    for (auto& slot : *cache_) slot.store(kUnknown, std::memory_order_relaxed);
  }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] int value(CUdevice_attribute attribute);

 private:
  static constexpr long kUnknown = -1L << 40;  // sentinel: outside the range of int
  using Cache = std::array<std::atomic<long>, CU_DEVICE_ATTRIBUTE_MAX>;
  int device_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace cucore::python
