// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls.cpp: libFuzzer harness: sequences of driver calls on the CPU device with valid,
// destroyed, mismatched and arbitrary handles. Every call must return, and the final cleanup must
// release everything.
#include "calls.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

namespace calls {

unsigned word = 0;
void CUDA_CB nothing(void*) {}

const Peer& peer() {
  static const Peer handles = [] {
    Peer made{};
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    const int child = fork();
    if (child < 0) std::abort();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      CUcontext context = nullptr;
      CUdeviceptr pointer = 0;
      CUevent event = nullptr;
      made.good =
          cuInit(0) == CUDA_SUCCESS && cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS &&
          cuMemAlloc(&pointer, 1 << 16) == CUDA_SUCCESS &&
          cuIpcGetMemHandle(&made.memory, pointer) == CUDA_SUCCESS &&
          cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
          cuIpcGetEventHandle(&made.event, event) == CUDA_SUCCESS;
      if (write(ends[1], &made, sizeof made) != sizeof made) _exit(1);
      close(ends[1]);
      for (;;) pause();
    }
    if (read(ends[0], &made, sizeof made) != sizeof made || !made.good) std::abort();
    close(ends[0]);
    close(ends[1]);
    return made;
  }();
  return handles;
}

}  // namespace calls

namespace {

using namespace calls;

constexpr char kKernels[] = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry noop() { ret; }
.visible .entry add(.param .u64 p, .param .u32 n) { ret; }
.visible .entry fault(.param .u32 code) { ret; }
.global .u32 numbers[16];
)";

/// Memory for a copy: the address of an allocation with a length that the driver must check, within
/// the harness's host block.
void step(World& w, Bytes& in) {
  const auto address = [&] { return w.address(in); };
  const auto bytes = [&] { return std::min<std::size_t>(in.size(), w.host.size()); };
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUdeviceptr pointer = 0;
  constexpr unsigned kOwn = 48;
  unsigned what = in.next() % (kOwn + kGraphCalls + kLaunchCalls + kMemoryCalls);
  if (what >= kOwn) {
    what -= kOwn;
    if (what < kGraphCalls) return graph_call(what, w, in);
    what -= kGraphCalls;
    if (what < kLaunchCalls) return launch_call(what, w, in);
    return memory_call(what - kLaunchCalls, w, in);
  }
  switch (what) {
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
      if (++w.child_graphs > 8) break;
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
      static constexpr const char* kNames[] = {"noop", "add", "fault", "none"};
      if (cuModuleGetFunction(&function, in.pick(w.modules), kNames[what = in.next() % 4]) ==
          CUDA_SUCCESS)
        (what == 2 ? w.faulting : w.functions).push_back(function);
      break;
    }
    case 39:
      cuLaunchKernel(in.pick(w.functions), in.next(), 1, 1, in.next(), in.next() % 4, 1, 0,
                     in.pick(w.streams), nullptr, nullptr);  // one of them requires arguments
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
  static const bool ready = setenv("CUCORE_CPU_MEMORY", "64M", 1) == 0 &&
                            setenv("CUCORE_CPU_THREADS", "2", 1) == 0 && peer().good &&
                            cuInit(0) == CUDA_SUCCESS;
  if (!ready) std::abort();
  World world;
  world.contexts.emplace_back();
  if (cuCtxCreate(&world.contexts[0], nullptr, 0, 0) != CUDA_SUCCESS) std::abort();
  Bytes in{data, std::min<std::size_t>(size, 600)};
  while (!in.empty()) step(world, in);
  clean(world);
  return 0;
}
