// SPDX-License-Identifier: Apache-2.0
// system.cpp: versions, processes and pairs of GPUs for cuda.core.system.
#include "cucore/system.hpp"

#include <nanobind/stl/string.h>

#include "system.hpp"

namespace cucore::python {
namespace {

using SystemDevice = system::Device;
using Guard = nb::call_guard<WithoutGil>;

/// Returns a version as a tuple of ints.
template <system::Version (*Get)()>
nb::object version() {
  system::Version numbers;
  {
    const WithoutGil release;
    numbers = Get();
  }
  nb::list list;
  for (const int number : numbers) list.append(number);
  return nb::tuple(list);
}

}  // namespace

void bind_system(nb::module_& m) {
  bind_system_parts(m);
  bind_system_device(m);
  bind_system_events(m);
  m.def("_system_driver_version", &version<&system::get_kernel_mode_driver_version>);
  m.def("_system_nvml_version", &version<&system::get_nvml_version>);
  m.def("_system_driver_branch", &system::get_driver_branch, Guard{});
  m.def("_system_num_devices", &system::get_num_devices, Guard{});
  m.def("_system_process_name", &system::get_process_name, Guard{});
  m.def(
      "_system_p2p_status",
      [](SystemDevice a, SystemDevice b, int index) {
        return static_cast<int>(
            system::get_p2p_status(a, b, static_cast<system::GpuP2PCapsIndex>(index)));
      },
      Guard{});
  m.def(
      "_system_common_ancestor",
      [](SystemDevice a, SystemDevice b) {
        return static_cast<int>(system::get_topology_common_ancestor(a, b));
      },
      Guard{});
}
CUCORE_BIND(kBindRest, bind_system)

}  // namespace cucore::python
