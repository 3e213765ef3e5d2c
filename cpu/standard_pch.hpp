// SPDX-License-Identifier: Apache-2.0
// cpu/standard_pch.hpp: the standard headers most files of the driver layer need, precompiled once:
// reading them is half of every compilation there. Files still include what they use.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>
