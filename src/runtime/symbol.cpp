// SPDX-License-Identifier: Apache-2.0
// symbol.cpp: functions that take the host address of a device variable. They always fail with
// cudaErrorInvalidSymbol: nvcc registers such variables with NVIDIA's runtime library, never with
// this one. Programs use cudaLibraryGetGlobal for variables of loaded code.
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

template <class Signature>
struct UnknownSymbol;
template <class... A>
struct UnknownSymbol<cudaError_t (*)(A...)> {
  static cudaError_t call(A...) { return set_last_error(cudaErrorInvalidSymbol); }
};

template <class Signature>
void reject_symbol(Signature& entry) {
  entry = &UnknownSymbol<Signature>::call;
}

}  // namespace

void install_symbols(RuntimeTable& t) {
  reject_symbol(t.cudaGetSymbolAddress);
  reject_symbol(t.cudaGetSymbolSize);
  reject_symbol(t.cudaMemcpyToSymbol);
  reject_symbol(t.cudaMemcpyToSymbolAsync);
  reject_symbol(t.cudaMemcpyFromSymbol);
  reject_symbol(t.cudaMemcpyFromSymbolAsync);
  reject_symbol(t.cudaGraphAddMemcpyNodeToSymbol);
  reject_symbol(t.cudaGraphAddMemcpyNodeFromSymbol);
  reject_symbol(t.cudaGraphMemcpyNodeSetParamsToSymbol);
  reject_symbol(t.cudaGraphMemcpyNodeSetParamsFromSymbol);
  reject_symbol(t.cudaGraphExecMemcpyNodeSetParamsToSymbol);
  reject_symbol(t.cudaGraphExecMemcpyNodeSetParamsFromSymbol);
}

}  // namespace cucore::rt
