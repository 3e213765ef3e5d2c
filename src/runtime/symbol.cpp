// symbol.cpp: variables by the address of their shadow in a host program. nvcc registers those with
// its own runtime library; no program that reaches this table has any, so every one is unknown.
// Variables of loaded code have cudaLibraryGetGlobal.
#include "runtime/state.hpp"

namespace cucore::rt {
namespace {

template <class Signature>
struct Unknown;
template <class... A>
struct Unknown<cudaError_t (*)(A...)> {
  static cudaError_t call(A...) { return note(cudaErrorInvalidSymbol); }
};

template <class Signature>
void is_unknown(Signature& entry) {
  entry = &Unknown<Signature>::call;
}

}  // namespace

void install_symbols(RuntimeTable& t) {
  is_unknown(t.cudaGetSymbolAddress);
  is_unknown(t.cudaGetSymbolSize);
  is_unknown(t.cudaMemcpyToSymbol);
  is_unknown(t.cudaMemcpyToSymbolAsync);
  is_unknown(t.cudaMemcpyFromSymbol);
  is_unknown(t.cudaMemcpyFromSymbolAsync);
  is_unknown(t.cudaGraphAddMemcpyNodeToSymbol);
  is_unknown(t.cudaGraphAddMemcpyNodeFromSymbol);
  is_unknown(t.cudaGraphMemcpyNodeSetParamsToSymbol);
  is_unknown(t.cudaGraphMemcpyNodeSetParamsFromSymbol);
  is_unknown(t.cudaGraphExecMemcpyNodeSetParamsToSymbol);
  is_unknown(t.cudaGraphExecMemcpyNodeSetParamsFromSymbol);
}

}  // namespace cucore::rt
