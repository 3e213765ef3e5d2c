// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/hooks.cpp: callbacks that the driver layer sets.
#include <cstdio>

#include "cpu/engine/run/worker.hpp"

namespace cucpu {
namespace {

Hooks& storage() {
  static Hooks* const hooks =
      new Hooks{{}, {}, [](std::string_view text) {  // never destroyed: kernels may run at exit
                  std::fwrite(text.data(), 1, text.size(), stdout);
                  std::fflush(stdout);
                }};
  return *hooks;
}

}  // namespace

const Hooks& hooks() { return storage(); }

void set_hooks(Hooks hooks) {
  if (hooks.describe_address) storage().describe_address = std::move(hooks.describe_address);
  if (hooks.find_allocation) storage().find_allocation = std::move(hooks.find_allocation);
  if (hooks.multicast) storage().multicast = std::move(hooks.multicast);
  if (hooks.print) storage().print = std::move(hooks.print);
}

}  // namespace cucpu
