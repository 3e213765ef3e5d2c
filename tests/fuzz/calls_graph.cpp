// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls_graph.cpp: graph calls of the call fuzzer: nodes of every type, updates of nodes
// and executable graphs, captures to graphs, queries.
#include <algorithm>

#include "calls.hpp"

namespace calls {
namespace {

CUDA_KERNEL_NODE_PARAMS kernel_params(World& w, Bytes& in, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = in.pick(w.functions);
  params.gridDimX = in.next() % 4;
  params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.blockDimX = in.next();
  params.sharedMemBytes = in.next() == 9 ? 1u << 30 : 0;
  params.kernelParams = in.next() % 8 ? arguments : nullptr;
  return params;
}

CUDA_MEMCPY3D copy_params(World& w, Bytes& in) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = w.host.data();
  copy.srcPitch = 256;
  copy.srcHeight = 8;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = w.address(in);
  copy.dstPitch = in.next();
  copy.dstHeight = in.next() % 16;
  copy.WidthInBytes = in.next();
  copy.Height = in.next() % 8;
  copy.Depth = in.next() % 3;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fill_params(World& w, Bytes& in) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = w.address(in);
  fill.pitch = in.next();
  fill.value = in.next();
  fill.elementSize = in.next() % 6;
  fill.width = in.size();
  fill.height = in.next() % 4;
  return fill;
}

}  // namespace

void graph_call(unsigned what, World& w, Bytes& in) {
  CUgraphNode node = nullptr, after = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr pointer = reinterpret_cast<CUdeviceptr>(&word);
  unsigned number = in.next();
  void* arguments[] = {&pointer, &number};
  const auto follow = [&] { return (after = in.pick(w.nodes)) ? &after : nullptr; };
  const auto keep = [&](CUresult result) {
    if (result == CUDA_SUCCESS) w.nodes.push_back(node);
  };
  switch (what) {
    case 0: {
      const auto params = kernel_params(w, in, arguments);
      CUgraphNode* const first = follow();
      keep(cuGraphAddKernelNode(&node, in.pick(w.graphs), first, first != nullptr, &params));
      break;
    }
    case 1: {
      const auto copy = copy_params(w, in);
      CUgraphNode* const first = follow();
      keep(cuGraphAddMemcpyNode(&node, in.pick(w.graphs), first, first != nullptr, &copy,
                                in.pick(w.contexts)));
      break;
    }
    case 2: {
      const auto fill = fill_params(w, in);
      CUgraphNode* const first = follow();
      keep(cuGraphAddMemsetNode(&node, in.pick(w.graphs), first, first != nullptr, &fill,
                                in.pick(w.contexts)));
      break;
    }
    case 3:
      keep(cuGraphAddEventRecordNode(&node, in.pick(w.graphs), nullptr, 0, in.pick(w.events)));
      break;
    case 4:
      keep(cuGraphAddEventWaitNode(&node, in.pick(w.graphs), nullptr, 0, in.pick(w.events)));
      break;
    case 5: {
      CUDA_MEM_ALLOC_NODE_PARAMS params{};
      params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
      params.bytesize = in.size();
      CUgraphNode* const first = follow();
      const CUresult result =
          cuGraphAddMemAllocNode(&node, in.pick(w.graphs), first, first != nullptr, &params);
      if (result == CUDA_SUCCESS) w.keep(params.dptr);
      keep(result);
      break;
    }
    case 6: {
      CUgraphNode* const first = follow();
      keep(cuGraphAddMemFreeNode(&node, in.pick(w.graphs), first, first != nullptr, w.address(in)));
      break;
    }
    case 7: {  // a while node with the value 1 would never end
      graph = in.pick(w.graphs);
      CUgraphNodeParams params{};
      params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
      auto& conditional = params.conditional;
      conditional.type = static_cast<CUgraphConditionalNodeType>(in.next() % 4);
      conditional.size = in.next() % 4;
      conditional.ctx = in.pick(w.contexts);
      const unsigned value = conditional.type == CU_GRAPH_COND_TYPE_WHILE ? 0 : in.next() % 3;
      if (cuGraphConditionalHandleCreate(&conditional.handle, graph, conditional.ctx, value,
                                         in.next() % 2) != CUDA_SUCCESS)
        break;
      const CUresult result = cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params);
      if (result == CUDA_SUCCESS)
        for (unsigned i = 0; i < conditional.size; ++i)
          w.graphs.push_back(conditional.phGraph_out[i]);
      keep(result);
      break;
    }
    case 8: {
      CUgraphNode found[8];
      std::size_t count = in.next() % 9;
      graph = in.pick(w.graphs);
      if ((in.next() % 2 ? cuGraphGetNodes : cuGraphGetRootNodes)(graph, found, &count) ==
          CUDA_SUCCESS)
        w.nodes.insert(w.nodes.end(), found, found + std::min<std::size_t>(count, 8));
      break;
    }
    case 9: {
      CUgraphNode from[8], to[8];
      CUgraphEdgeData edges[8];
      std::size_t count = in.next() % 9;
      cuGraphGetEdges(in.pick(w.graphs), from, to, edges, &count);
      break;
    }
    case 10: {
      CUgraphNode from = in.pick(w.nodes), to = in.pick(w.nodes);
      cuGraphRemoveDependencies(in.pick(w.graphs), &from, &to, nullptr, 1);
      break;
    }
    case 11: {
      const auto params = kernel_params(w, in, arguments);
      cuGraphKernelNodeSetParams(in.pick(w.nodes), &params);
      break;
    }
    case 12: {
      const auto params = kernel_params(w, in, arguments);
      cuGraphExecKernelNodeSetParams(in.pick(w.execs), in.pick(w.nodes), &params);
      break;
    }
    case 13: {
      const auto copy = copy_params(w, in);
      if (in.next() % 2)
        cuGraphMemcpyNodeSetParams(in.pick(w.nodes), &copy);
      else
        cuGraphExecMemcpyNodeSetParams(in.pick(w.execs), in.pick(w.nodes), &copy,
                                       in.pick(w.contexts));
      break;
    }
    case 14: {
      const auto fill = fill_params(w, in);
      if (in.next() % 2)
        cuGraphMemsetNodeSetParams(in.pick(w.nodes), &fill);
      else
        cuGraphExecMemsetNodeSetParams(in.pick(w.execs), in.pick(w.nodes), &fill,
                                       in.pick(w.contexts));
      break;
    }
    case 15:
      if (cuGraphNodeFindInClone(&node, in.pick(w.nodes), in.pick(w.graphs)) == CUDA_SUCCESS)
        w.nodes.push_back(node);
      break;
    case 16:
      cuGraphUpload(in.pick(w.execs), in.pick(w.streams));
      break;
    case 17:
      cuGraphNodeSetEnabled(in.pick(w.execs), in.pick(w.nodes), in.next() % 2);
      break;
    case 18: {
      CUgraphNode* const first = follow();
      cuStreamBeginCaptureToGraph(in.pick(w.streams), in.pick(w.graphs), first, nullptr,
                                  first != nullptr,
                                  static_cast<CUstreamCaptureMode>(in.next() % 4));
      break;
    }
    case 19: {
      CUgraphNode first = in.pick(w.nodes);
      cuStreamUpdateCaptureDependencies(in.pick(w.streams), &first, nullptr, 1, in.next() % 3);
      break;
    }
    case 20: {
      CUstreamCaptureStatus status{};
      cuuint64_t id = 0;
      const CUgraphNode* nodes = nullptr;
      const CUgraphEdgeData* edges = nullptr;
      std::size_t count = 0;
      if (cuStreamGetCaptureInfo_v3(in.pick(w.streams), &status, &id, &graph, &nodes, &edges,
                                    &count) == CUDA_SUCCESS &&
          graph)
        w.graphs.push_back(graph);
      break;
    }
    case 21: {
      CUuserObject object = nullptr;
      if (w.user_objects.size() < 4 &&
          cuUserObjectCreate(&object, &word, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) ==
              CUDA_SUCCESS)
        w.user_objects.push_back(object);
      if (!w.user_objects.empty())
        cuGraphRetainUserObject(
            in.pick(w.graphs), w.user_objects[in.next() % w.user_objects.size()], in.next() % 3, 0);
      break;
    }
    case 22:
      if (cuGraphChildGraphNodeGetGraph(in.pick(w.nodes), &graph) == CUDA_SUCCESS)
        w.graphs.push_back(graph);
      break;
    default:
      if (number % 8 == 7) {  // on success the node owns the moved graph
        CUgraphNodeParams params{};
        params.type = CU_GRAPH_NODE_TYPE_GRAPH;
        params.graph.graph = in.pick(w.graphs);
        params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        CUgraphNode* const first = follow();
        keep(cuGraphAddNode(&node, in.pick(w.graphs), first, nullptr, first != nullptr, &params));
        break;
      }
      cuGraphDebugDotPrint(in.pick(w.graphs), "/dev/null", number % 2);
      break;
  }
}

}  // namespace calls
