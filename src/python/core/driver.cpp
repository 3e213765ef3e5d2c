// SPDX-License-Identifier: Apache-2.0
// driver.cpp: information about the driver in use, for reports (`cucore info`).
#include "cucore/driver.hpp"

#include "binding.hpp"

namespace cucore::python {

static void bind_driver(nb::module_& m) {
  m.def(
      "driver_info",
      [] {
        const DriverInfo& info = driver_info();
        nb::dict result;
        result["kind"] = nb::str(info.kind == DeviceKind::cpu ? "cpu" : "gpu");
        result["path"] = nb::str(info.path.c_str());
        result["version"] = nb::make_tuple(info.version / 1000, info.version % 1000 / 10);
        result["per_thread_default_stream"] = info.per_thread_stream;
        result["fell_back_to_cpu"] = info.fell_back_to_cpu;
        result["tried"] = nb::str(info.why.c_str());
        return result;
      },
      "Which driver library is in use and why, as a dict. Loads it if need be.");
  m.def("driver_is_loaded", &driver_is_loaded,
        "False before the first use of a device; never loads the driver.");
}
CUCORE_BIND(kBindDriver, bind_driver)

}  // namespace cucore::python
