// cpu/base/abi.hpp: the driver's C ABI, its functions visible outside this library; everything else
// stays hidden.
#pragma once
#pragma GCC visibility push(default)
#include "cucore/abi/driver.h"
#pragma GCC visibility pop
