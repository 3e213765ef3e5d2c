// SPDX-License-Identifier: Apache-2.0
// driver_entry.hpp: resolution of the driver's functions.
#pragma once
#include "cucore/driver.hpp"
#include "rows.hpp"

#define SLOT(name) static_cast<std::uint16_t>(offsetof(cucore::DriverTable, name) / sizeof(void*))

namespace cucore::bindings {

inline constexpr int kLaterVersion = 13050;  // the CUDA version of the facts in api/later

/// Returns the entry of the driver table; null for a function that this driver does not export.
/// Throws if there is no driver.
static void* resolve(const Api& api, const FunctionRow& row) {
  const DriverTable& table = driver();
  if (row.slot == kNoSlot) {  // newer than the table: looked up by name
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
