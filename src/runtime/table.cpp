// SPDX-License-Identifier: Apache-2.0
// table.cpp: fills the table of runtime functions: stubs, then functions that forward to the
// driver, then functions implemented here. Later entries replace earlier ones.
#include "runtime/state.hpp"

namespace cucore {
namespace rt {
namespace {

template <class Signature>
struct NotSupportedStub;
template <class... A>
struct NotSupportedStub<cudaError_t (*)(A...)> {
  static cudaError_t call(A...) { return set_last_error(cudaErrorNotSupported); }
};

/// Null for functions that do not return cudaError_t: all of those are implemented.
template <class Signature>
Signature stub_for() {
  if constexpr (requires { &NotSupportedStub<Signature>::call; }) {
    return &NotSupportedStub<Signature>::call;
  } else {
    return nullptr;
  }
}

RuntimeTable make_table() {
  RuntimeTable table;
#define CUCORE_RT(name) table.name = stub_for<decltype(&::name)>();
#include "runtime_table.inc"
#undef CUCORE_RT
  install_forwards(table);
  install_errors(table);
  install_devices(table);
  install_properties(table);
  install_memory(table);
  install_copies(table);
  install_arrays(table);
  install_textures(table);
  install_kernels(table);
  install_streams(table);
  install_graphs(table);
  install_pools(table);
  install_executions(table);
  install_symbols(table);
  return table;
}

}  // namespace
}  // namespace rt

const RuntimeTable& runtime() noexcept {
  static const RuntimeTable table = rt::make_table();
  return table;
}

}  // namespace cucore
