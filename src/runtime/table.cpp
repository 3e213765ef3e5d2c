// table.cpp: the table of runtime functions: stand-ins first, then what forwards to the driver,
// then what is written here.
#include "runtime/state.hpp"

namespace cucore {
namespace rt {
namespace {

template <class Signature>
struct StandIn;
template <class... A>
struct StandIn<cudaError_t (*)(A...)> {
  static cudaError_t call(A...) { return note(cudaErrorNotSupported); }
};

/// Functions that return something else are all written by hand.
template <class Signature>
Signature stand_in() {
  if constexpr (requires { &StandIn<Signature>::call; }) {
    return &StandIn<Signature>::call;
  } else {
    return nullptr;
  }
}

RuntimeTable make_table() {
  RuntimeTable table;
#define CUCORE_RT(name) table.name = stand_in<decltype(&::name)>();
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
