// tests/fuzz/calls.cpp: libFuzzer harness: sequences of driver calls on the CPU device, each with
// handles that may be good, closed, of another kind, or nonsense. Every call returns; what is left
// over goes with the context.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cucore/abi/driver.h"

namespace {

constexpr char kKernels[] = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry noop() { ret; }
.visible .entry add(.param .u64 p, .param .u32 n) { ret; }
)";

/// The input as numbers and choices.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : at_{data}, end_{data + size} {}
  bool empty() const { return at_ == end_; }
  std::uint8_t next() { return at_ == end_ ? 0 : *at_++; }
  /// One of those made so far (also closed ones), null, or nonsense.
  template <class T>
  T pick(const std::vector<T>& made) {
    const unsigned n = next();
    if (n == 255) return reinterpret_cast<T>(0x1234567890);
    if (n == 254) return reinterpret_cast<T>(2);
    if (made.empty() || n == 253) return nullptr;
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

void CUDA_CB nothing(void*) {}

struct World {
  std::vector<CUstream> streams;
  std::vector<CUevent> events;
  std::vector<CUgraph> graphs;
  std::vector<CUgraphExec> execs;
  std::vector<CUgraphNode> nodes;
  std::vector<CUmemoryPool> pools;
  std::vector<CUmodule> modules;
  std::vector<CUfunction> functions;
  std::vector<CUcontext> contexts;
  std::vector<void*> memory;  // device addresses
  std::vector<char> host = std::vector<char>(1 << 16);
};

/// Memory a copy may touch: some allocation's address with a length that the driver has to check,
/// within our host block.
void step(World& w, Bytes& in) {
  const auto address = [&] {
    return reinterpret_cast<CUdeviceptr>(in.pick(w.memory)) + in.next() % 8;
  };
  const auto bytes = [&] { return std::min<std::size_t>(in.size(), w.host.size()); };
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUdeviceptr pointer = 0;
  switch (in.next() % 48) {
    case 0:
      if (cuStreamCreate(&stream, in.next() % 3) == CUDA_SUCCESS) w.streams.push_back(stream);
      break;
    case 1:
      cuStreamDestroy(in.pick(w.streams));
      break;
    case 2:
      cuStreamQuery(in.pick(w.streams));
      break;
    case 3:
      cuStreamSynchronize(in.pick(w.streams));
      break;
    case 4:
      if (cuEventCreate(&event, in.next() % 5) == CUDA_SUCCESS) w.events.push_back(event);
      break;
    case 5:
      cuEventDestroy(in.pick(w.events));
      break;
    case 6:
      cuEventRecord(in.pick(w.events), in.pick(w.streams));
      break;
    case 7:
      cuStreamWaitEvent(in.pick(w.streams), in.pick(w.events), 0);
      break;
    case 8:
      cuEventQuery(in.pick(w.events));
      break;
    case 9:
      cuEventSynchronize(in.pick(w.events));
      break;
    case 10: {
      float ms = 0;
      cuEventElapsedTime(&ms, in.pick(w.events), in.pick(w.events));
      break;
    }
    case 11:
      if (cuMemAlloc(&pointer, in.size()) == CUDA_SUCCESS)
        w.memory.push_back(reinterpret_cast<void*>(pointer));
      break;
    case 12:
      cuMemFree(address());
      break;
    case 13:
      if (cuMemAllocAsync(&pointer, in.size(), in.pick(w.streams)) == CUDA_SUCCESS)
        w.memory.push_back(reinterpret_cast<void*>(pointer));
      break;
    case 14:
      cuMemFreeAsync(address(), in.pick(w.streams));
      break;
    case 15:
      cuMemcpyHtoDAsync(address(), w.host.data(), bytes(), in.pick(w.streams));
      break;
    case 16:
      cuMemcpyDtoHAsync(w.host.data(), address(), bytes(), in.pick(w.streams));
      break;
    case 17:
      cuMemcpyDtoD(address(), address(), in.size());
      break;
    case 18:
      cuMemsetD8Async(address(), in.next(), in.size(), in.pick(w.streams));
      break;
    case 19:
      cuMemsetD32(address(), in.next(), in.size() / 4);
      break;
    case 20: {
      void* host = nullptr;
      if (cuMemHostAlloc(&host, std::min<std::size_t>(in.size(), 1 << 20), in.next() % 8) ==
          CUDA_SUCCESS)
        w.memory.push_back(host);
      break;
    }
    case 21:
      cuMemFreeHost(reinterpret_cast<void*>(address()));
      break;
    case 22:
      cuStreamBeginCapture(in.pick(w.streams), static_cast<CUstreamCaptureMode>(in.next() % 4));
      break;
    case 23:
      if (cuStreamEndCapture(in.pick(w.streams), &graph) == CUDA_SUCCESS && graph)
        w.graphs.push_back(graph);
      break;
    case 24:
      if (cuGraphInstantiate(&exec, in.pick(w.graphs), in.next() % 2) == CUDA_SUCCESS)
        w.execs.push_back(exec);
      break;
    case 25:
      cuGraphLaunch(in.pick(w.execs), in.pick(w.streams));
      break;
    case 26:
      cuGraphDestroy(in.pick(w.graphs));
      break;
    case 27:
      cuGraphExecDestroy(in.pick(w.execs));
      break;
    case 28:
      if (cuGraphCreate(&graph, in.next() % 2) == CUDA_SUCCESS) w.graphs.push_back(graph);
      break;
    case 29: {
      CUgraphNode after = in.pick(w.nodes);
      if (cuGraphAddEmptyNode(&node, in.pick(w.graphs), after ? &after : nullptr,
                              after != nullptr) == CUDA_SUCCESS)
        w.nodes.push_back(node);
      break;
    }
    case 30: {
      CUDA_HOST_NODE_PARAMS params{nothing, nullptr};
      if (cuGraphAddHostNode(&node, in.pick(w.graphs), nullptr, 0, &params) == CUDA_SUCCESS)
        w.nodes.push_back(node);
      break;
    }
    case 31:
      if (cuGraphAddChildGraphNode(&node, in.pick(w.graphs), nullptr, 0, in.pick(w.graphs)) ==
          CUDA_SUCCESS)
        w.nodes.push_back(node);
      break;
    case 32:
      cuGraphDestroyNode(in.pick(w.nodes));
      break;
    case 33: {
      CUgraphNode from = in.pick(w.nodes), to = in.pick(w.nodes);
      cuGraphAddDependencies(in.pick(w.graphs), &from, &to, nullptr, 1);
      break;
    }
    case 34:
      if (cuGraphClone(&graph, in.pick(w.graphs)) == CUDA_SUCCESS) w.graphs.push_back(graph);
      break;
    case 35: {
      CUgraphExecUpdateResultInfo info{};
      cuGraphExecUpdate(in.pick(w.execs), in.pick(w.graphs), &info);
      break;
    }
    case 36: {
      CUmodule module = nullptr;
      if (cuModuleLoadData(&module, kKernels) == CUDA_SUCCESS) w.modules.push_back(module);
      break;
    }
    case 37:
      cuModuleUnload(in.pick(w.modules));
      break;
    case 38: {
      CUfunction function = nullptr;
      if (cuModuleGetFunction(&function, in.pick(w.modules), "noop") == CUDA_SUCCESS)
        w.functions.push_back(function);
      break;
    }
    case 39:
      cuLaunchKernel(in.pick(w.functions), in.next(), 1, 1, in.next(), in.next() % 4, 1, 0,
                     in.pick(w.streams), nullptr, nullptr);
      break;
    case 40:
      cuLaunchHostFunc(in.pick(w.streams), nothing, nullptr);
      break;
    case 41: {
      CUmemPoolProps props{};
      props.allocType = static_cast<CUmemAllocationType>(in.next() % 3);
      props.location = {static_cast<CUmemLocationType>(in.next() % 5),
                        {static_cast<int>(in.next() % 3) - 1}};
      props.maxSize = in.next() % 2 ? 1 << 20 : 0;
      CUmemoryPool pool = nullptr;
      if (cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS) w.pools.push_back(pool);
      break;
    }
    case 42:
      cuMemPoolDestroy(in.pick(w.pools));
      break;
    case 43:
      if (cuMemAllocFromPoolAsync(&pointer, in.size(), in.pick(w.pools), in.pick(w.streams)) ==
          CUDA_SUCCESS)
        w.memory.push_back(reinterpret_cast<void*>(pointer));
      break;
    case 44: {
      CUcontext context = nullptr;
      if (w.contexts.size() < 4 && cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS)
        w.contexts.push_back(context);
      break;
    }
    case 45:
      cuCtxPushCurrent(in.pick(w.contexts));
      break;
    case 46: {
      CUcontext context = nullptr;
      cuCtxPopCurrent(&context);
      break;
    }
    case 47: {
      if (w.contexts.size() < 2) break;
      cuCtxDestroy(w.contexts.back());
      w.contexts.pop_back();
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool ready = setenv("CUCORE_CPU_MEMORY", "64M", 1) == 0 && cuInit(0) == CUDA_SUCCESS;
  if (!ready) std::abort();
  World world;
  world.contexts.emplace_back();
  if (cuCtxCreate(&world.contexts[0], nullptr, 0, 0) != CUDA_SUCCESS) std::abort();
  Bytes in{data, std::min<std::size_t>(size, 600)};
  while (!in.empty()) step(world, in);
  for (const CUgraphExec exec : world.execs) cuGraphExecDestroy(exec);
  for (const CUgraph graph : world.graphs) cuGraphDestroy(graph);
  for (const CUcontext context : world.contexts) cuCtxDestroy(context);
  for (const CUmemoryPool pool : world.pools) cuMemPoolDestroy(pool);
  CUcontext left = nullptr;
  while (cuCtxPopCurrent(&left) == CUDA_SUCCESS && left != nullptr) {
  }
  return 0;
}
