// raw.cpp: the C driver API, called as a C program would. The floor that every other row is compared with.
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>

#include "cucore/abi/driver.h"
#include "timing.hpp"

namespace {

void check(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d\n", call, static_cast<int>(code));
  std::exit(1);
}

void* library = nullptr;

#define CUCORE_STRING(x) #x
#define CUCORE_NAME(x) CUCORE_STRING(x)
// The macro name expands to the versioned symbol, as in <cuda.h>.
#define LOAD(fn) const auto p_##fn = reinterpret_cast<decltype(&fn)>(dlsym(library, CUCORE_NAME(fn)))

std::string kernel_ptx(int count) {
  static constexpr std::array kKinds{".u64", ".f32", ".u32", ".f64"};
  std::string text = ".visible .entry k" + std::to_string(count) + "(";
  for (int i = 0; i < count; ++i)
    text += std::string(i ? ", " : "") + ".param " + kKinds[static_cast<std::size_t>(i) % 4] + " p" + std::to_string(i);
  return text + ") { ret; }\n";
}

}  // namespace

int main(int argc, char** argv) {
  library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  LOAD(cuInit); LOAD(cuDeviceGetCount); LOAD(cuDeviceGetAttribute); LOAD(cuDevicePrimaryCtxRetain); LOAD(cuCtxSetCurrent);
  LOAD(cuStreamCreate); LOAD(cuStreamDestroy); LOAD(cuStreamSynchronize); LOAD(cuStreamQuery); LOAD(cuStreamWaitEvent);
  LOAD(cuEventCreate); LOAD(cuEventDestroy); LOAD(cuEventRecord); LOAD(cuEventQuery); LOAD(cuEventElapsedTime); LOAD(cuEventSynchronize);
  LOAD(cuMemAllocAsync); LOAD(cuMemFreeAsync); LOAD(cuMemAlloc); LOAD(cuMemcpyHtoD); LOAD(cuMemcpyDtoH); LOAD(cuMemsetD8Async);
  LOAD(cuLibraryLoadData); LOAD(cuLibraryGetKernel); LOAD(cuKernelGetFunction); LOAD(cuLaunchKernel);
  LOAD(cuStreamBeginCapture); LOAD(cuStreamEndCapture); LOAD(cuGraphInstantiate); LOAD(cuGraphLaunch); LOAD(cuGraphDestroy);
  LOAD(cuGraphExecDestroy); LOAD(cuMemPoolSetAttribute); LOAD(cuDeviceGetDefaultMemPool);

  check(p_cuInit(0), "cuInit");
  CUcontext context;
  check(p_cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent");
  CUmemoryPool pool;
  check(p_cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
  cuuint64_t keep = ~cuuint64_t{0};
  check(p_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "cuMemPoolSetAttribute");
  CUstream stream, other;
  check(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(p_cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const auto drain = [&] { check(p_cuStreamSynchronize(stream), "cuStreamSynchronize"); };

  constexpr std::array kCounts{0, 3, 8, 16, 256};
  std::string ptx = ".version 7.5\n.target sm_75\n.address_size 64\n";
  for (int count : kCounts) ptx += kernel_ptx(count);
  CUlibrary code;
  check(p_cuLibraryLoadData(&code, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");

  bench::Suite suite;
  suite.run("set_current", [&] { check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent"); });
  CUdeviceptr memory;
  check(p_cuMemAlloc(&memory, 1 << 20), "cuMemAlloc");
  float f = 1;
  int i = 2;
  double d = 3;
  void* kinds[]{&memory, &f, &i, &d};
  CUfunction function3 = nullptr;
  for (int count : kCounts) {
    CUkernel kernel;
    CUfunction function;
    check(p_cuLibraryGetKernel(&kernel, code, ("k" + std::to_string(count)).c_str()), "cuLibraryGetKernel");
    check(p_cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
    if (count == 3) function3 = function;
    std::vector<void*> params;
    for (int p = 0; p < count; ++p) params.push_back(kinds[p % 4]);
    suite.run("launch_" + std::to_string(count), [&] {
      check(p_cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params.data(), nullptr), "cuLaunchKernel");
    }, drain, 400);
  }
  {
    void* params[]{&memory, &f, &i};
    suite.run("b_launch_ctypes", [&] {
      check(p_cuLaunchKernel(function3, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr), "cuLaunchKernel");
    }, drain, 400);
  }
  CUkernel found;
  suite.run("get_kernel", [&] { check(p_cuLibraryGetKernel(&found, code, "k3"), "cuLibraryGetKernel"); });
  suite.run("stream_create_close", [&] {
    CUstream s;
    check(p_cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(p_cuStreamDestroy(s), "cuStreamDestroy");
  }, 100);
  suite.run("event_create_close", [&] {
    CUevent e;
    check(p_cuEventCreate(&e, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    check(p_cuEventDestroy(e), "cuEventDestroy");
  }, 300);
  CUevent event, begin, end;
  check(p_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(p_cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
  check(p_cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
  for (const char* name : {"event_record", "b_event_record"})
    suite.run(name, [&] { check(p_cuEventRecord(event, stream), "cuEventRecord"); }, drain, 500);
  suite.run("stream_wait", [&] { check(p_cuStreamWaitEvent(other, event, 0), "cuStreamWaitEvent"); },
            [&] { check(p_cuStreamSynchronize(other), "cuStreamSynchronize"); }, 500);
  suite.run("event_is_done", [&] { check(p_cuEventQuery(event), "cuEventQuery"); });
  check(p_cuEventRecord(begin, stream), "cuEventRecord");
  check(p_cuEventRecord(end, stream), "cuEventRecord");
  check(p_cuEventSynchronize(end), "cuEventSynchronize");
  float milliseconds;
  suite.run("event_elapsed", [&] { check(p_cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime"); });
  for (auto [name, size] : {std::pair{"alloc_free_4k", std::size_t{4096}}, std::pair{"alloc_free_1m", std::size_t{1} << 20}}) {
    suite.run(name, [&, size = size] {
      CUdeviceptr p;
      check(p_cuMemAllocAsync(&p, size, stream), "cuMemAllocAsync");
      check(p_cuMemFreeAsync(p, stream), "cuMemFreeAsync");
    }, drain, 300);
  }
  for (const char* name : {"fill_4k", "b_memset_4k"})
    suite.run(name, [&] { check(p_cuMemsetD8Async(memory, 0, 4096, stream), "cuMemsetD8Async"); }, drain, 300);

  const auto capture = [&] {
    CUgraph graph;
    CUgraphExec exec;
    check(p_cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    CUfunction function;
    CUkernel kernel;
    check(p_cuLibraryGetKernel(&kernel, code, "k0"), "cuLibraryGetKernel");
    check(p_cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
    for (int n = 0; n < 20; ++n)
      check(p_cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr), "cuLaunchKernel");
    check(p_cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    check(p_cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
    check(p_cuGraphDestroy(graph), "cuGraphDestroy");
    return exec;
  };
  suite.run("graph_build_20", [&] { check(p_cuGraphExecDestroy(capture()), "cuGraphExecDestroy"); }, drain, 10);
  CUgraphExec exec = capture();
  suite.run("graph_launch_20", [&] { check(p_cuGraphLaunch(exec, stream), "cuGraphLaunch"); }, drain, 50);

  int value;
  suite.run("b_device_get_count", [&] { check(p_cuDeviceGetCount(&value), "cuDeviceGetCount"); });
  suite.run("b_device_get_attribute",
            [&] { check(p_cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), "cuDeviceGetAttribute"); });
  suite.run("b_stream_query", [&] { check(p_cuStreamQuery(stream), "cuStreamQuery"); });
  std::vector<char> host(1 << 20);
  suite.run("b_copy_4_to_device", [&] { check(p_cuMemcpyHtoD(memory, host.data(), 4), "cuMemcpyHtoD"); }, 200);
  suite.run("b_copy_4_to_host", [&] { check(p_cuMemcpyDtoH(host.data(), memory, 4), "cuMemcpyDtoH"); }, 200);
  suite.run("b_copy_1m_to_device", [&] { check(p_cuMemcpyHtoD(memory, host.data(), 1 << 20), "cuMemcpyHtoD"); }, 20);
  suite.run("b_copy_1m_to_host", [&] { check(p_cuMemcpyDtoH(host.data(), memory, 1 << 20), "cuMemcpyDtoH"); }, 20);
  return 0;
}
