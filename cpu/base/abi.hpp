// SPDX-License-Identifier: Apache-2.0
// cpu/base/abi.hpp: the driver's C ABI. Its functions are exported; all other symbols of this
// library are hidden.
#pragma once
#pragma GCC visibility push(default)
#include "cucore/abi/driver.h"
#pragma GCC visibility pop
