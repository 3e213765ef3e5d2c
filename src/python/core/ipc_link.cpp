// SPDX-License-Identifier: Apache-2.0
// ipc_link.cpp: connections to processes that export memory, for cuda/core/_sharing.py.
#include "core/ipc_link.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <string_view>

#include "support.hpp"

namespace cucore::python {

using cucore::detail::IPCLink;

void bind_ipc_link(nb::module_& m) {
  const auto text = [](const nb::bytes& b) { return std::string_view{b.c_str(), b.size()}; };
  nb::class_<IPCLink>(m, "_IPCLink")
      .def_static(
          "open",
          [text](const nb::bytes& name, const nb::bytes& key) {
            const WithoutGil unlocked;
            return IPCLink::open(text(name), text(key));
          },
          nb::arg("name"), nb::arg("key"))
      .def(
          "pool",
          [text](IPCLink& link, const nb::bytes& uuid) {
            const WithoutGil unlocked;
            return link.pool(text(uuid));
          },
          nb::arg("uuid"));
}
CUCORE_BIND(kBindMemory + 1, bind_ipc_link)

}  // namespace cucore::python
