// SPDX-License-Identifier: Apache-2.0
// driver_entry.hpp: where the driver's functions come from.
#pragma once
#include "cucore/driver.hpp"
#include "rows.hpp"

#define SLOT(name) static_cast<std::uint16_t>(offsetof(cucore::DriverTable, name) / sizeof(void*))

namespace cucore::bindings {

inline constexpr int kLaterVersion = 13050;  // the release that the facts in api/later are of

/// Entry of the driver table; null for a function this driver lacks. Throws when there is no
/// driver.
static void* resolve(const Api& api, const FunctionRow& row) {
  const DriverTable& table = driver();
  if (row.slot == kNoSlot) {  // newer than the table: asked for by name
    void* address = nullptr;
    CUdriverProcAddressQueryResult found{};
    const CUresult code = table.cuGetProcAddress(api.text + row.symbol, &address, kLaterVersion,
                                                 CU_GET_PROC_ADDRESS_DEFAULT, &found);
    return code == CUDA_SUCCESS ? address : nullptr;
  }
  if (!driver_has(api.text + row.symbol)) return nullptr;
  return reinterpret_cast<void* const*>(&table)[row.slot];
}

}  // namespace cucore::bindings
