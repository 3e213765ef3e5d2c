// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls.hpp: shared declarations of the call fuzzer: the input as choices, and the
// objects created so far. Each source file makes the calls of one subject; calls.cpp dispatches
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "cucore/abi/driver.h"

namespace calls {

/// The input as numbers and choices.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : at_{data}, end_{data + size} {}
  bool empty() const { return at_ == end_; }
  std::uint8_t next() { return at_ == end_ ? 0 : *at_++; }
  /// One of the objects created so far (possibly destroyed), null, or an arbitrary handle.
  template <class T>
  T pick(const std::vector<T>& made) {
    const unsigned n = next();
    if (n == 255) return (T)0x1234567890;  // handles are pointers or numbers
    if (n == 254) return (T)2;
    if (made.empty() || n == 253) return T{};
    return made[n % made.size()];
  }
  std::size_t size() {
    static constexpr std::size_t kSizes[] = {
        0, 1, 4, 512, 4096, 65537, 1u << 20, std::size_t{1} << 40, ~std::size_t{0}};
    return kSizes[next() % std::size(kSizes)];
  }

 private:
  const std::uint8_t *at_, *end_;
};

/// Objects created so far, including destroyed ones.
struct World {
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  std::vector<CUgraph> graphs;
  std::vector<CUgraphExec> execs;
  std::vector<CUgraphNode> nodes;
  std::vector<CUmemoryPool> pools;
  std::vector<CUmodule> modules;
  std::vector<CUlibrary> libraries;
  std::vector<CUfunction> functions;  // noop and add, with the kernels of libraries
  std::vector<CUfunction> faulting;   // their argument is the error code of the fault
  std::vector<CUcontext> contexts;
  std::vector<CUarray> arrays;
  std::vector<CUtexObject> textures;
  std::vector<CUuserObject> user_objects;
  std::vector<CUmemGenericAllocationHandle> physical;
  std::vector<void*> memory;    // device addresses
  std::vector<void*> reserved;  // addresses of cuMemAddressReserve
  std::vector<CUipcMemHandle> memory_handles;
  std::vector<CUipcEventHandle> event_handles;
  std::vector<CUmemPoolPtrExportData> pointer_handles;
  std::vector<char> host = std::vector<char>(1 << 16);
  unsigned child_graphs = 0;  // limited, because each may double a graph

  CUdeviceptr address(Bytes& in) {
    return reinterpret_cast<CUdeviceptr>(in.pick(memory)) + in.next() % 8;
  }
  void keep(CUdeviceptr pointer) { memory.push_back(reinterpret_cast<void*>(pointer)); }
  /// Sometimes flips a bit of a handle.
  template <class T>
  T damaged(T handle, Bytes& in) {
    const unsigned n = in.next();
    if (n >= 128)
      reinterpret_cast<unsigned char*>(&handle)[n % sizeof handle] ^= 1 << in.next() % 8;
    return handle;
  }
};

/// Handles exported by another process, which lives as long as this one.
struct Peer {
  CUipcMemHandle memory;
  CUipcEventHandle event;
  bool good;
};
const Peer& peer();
extern unsigned word;  // incremented by kernels

void CUDA_CB nothing(void*);
constexpr std::size_t kReserved = std::size_t{4} << 20;  // size of every reserved range in bytes
constexpr std::size_t kMapped = std::size_t{2} << 20;    // size of every mapping in bytes
/// Calls about graphs, launches, memory and sharing; `what` selects the call.
constexpr unsigned kGraphCalls = 24, kLaunchCalls = 12, kMemoryCalls = 28;
void graph_call(unsigned what, World& w, Bytes& in);
void launch_call(unsigned what, World& w, Bytes& in);
void memory_call(unsigned what, World& w, Bytes& in);
/// Destroys all objects. Aborts if the driver still keeps something afterwards.
void clean(const World& w);

}  // namespace calls
