// SPDX-License-Identifier: Apache-2.0
// raw.cpp: calls the C driver API from C: the reference of all other sides. Built as a program, and
// as a library that bench/python/inside.py calls in a Python process.
#include <dlfcn.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "cucore/abi/driver.h"
#include "cucore/abi/nvrtc.h"
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
#define LOAD(fn) \
  const auto p_##fn = reinterpret_cast<decltype(&fn)>(dlsym(library, CUCORE_NAME(fn)))

}  // namespace

extern "C" __attribute__((visibility("default"))) int cucore_bench_raw(int argc, char** argv) {
  library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  LOAD(cuInit);
  LOAD(cuDeviceGet);
  LOAD(cuDeviceGetCount);
  LOAD(cuDeviceGetAttribute);
  LOAD(cuDevicePrimaryCtxRetain);
  LOAD(cuCtxSetCurrent);
  LOAD(cuStreamCreate);
  LOAD(cuStreamDestroy);
  LOAD(cuStreamSynchronize);
  LOAD(cuStreamQuery);
  LOAD(cuStreamWaitEvent);
  LOAD(cuEventCreate);
  LOAD(cuEventDestroy);
  LOAD(cuEventRecord);
  LOAD(cuEventQuery);
  LOAD(cuEventElapsedTime);
  LOAD(cuEventSynchronize);
  LOAD(cuMemAllocAsync);
  LOAD(cuMemAllocFromPoolAsync);
  LOAD(cuMemFreeAsync);
  LOAD(cuMemAlloc);
  LOAD(cuMemcpyHtoD);
  LOAD(cuMemcpyDtoH);
  LOAD(cuMemsetD8Async);
  LOAD(cuLibraryLoadData);
  LOAD(cuLibraryGetKernel);
  LOAD(cuKernelGetFunction);
  LOAD(cuLaunchKernel);
  LOAD(cuStreamBeginCapture);
  LOAD(cuStreamEndCapture);
  LOAD(cuGraphInstantiate);
  LOAD(cuGraphLaunch);
  LOAD(cuGraphDestroy);
  LOAD(cuGraphExecDestroy);
  LOAD(cuDeviceGetDefaultMemPool);
  LOAD(cuGraphExecUpdate);
  LOAD(cuMemAllocHost);
  LOAD(cuMemcpyAsync);
  LOAD(cuDeviceGetName);
  LOAD(cuCtxGetCurrent);
  LOAD(cuCtxGetDevice);
  LOAD(cuCtxGetId);
  LOAD(cuLibraryUnload);
  LOAD(cuUserObjectCreate);
  LOAD(cuGraphRetainUserObject);

  check(p_cuInit(0), "cuInit");
  CUcontext context;
  check(p_cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent");
  CUmemoryPool pool;
  check(p_cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
  CUstream stream, other, quiet;
  check(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(p_cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  // Not used otherwise: the time of a query depends on the stream's history.
  check(p_cuStreamCreate(&quiet, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const auto drain = [&] { check(p_cuStreamSynchronize(stream), "cuStreamSynchronize"); };

  const std::string ptx = bench::ptx();
  CUlibrary code;
  check(p_cuLibraryLoadData(&code, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cuLibraryLoadData");

  bench::Suite suite;
  // The current speed of the processor: one chain of additions (one per cycle), and four in
  // parallel.
  suite.run(
      "clock_1000", [] { bench::add<1>(250); }, 200);
  suite.run(
      "clock_4000", [] { bench::add<4>(250); }, 200);
  CUdevice device;
  suite.run("device", [&] { check(p_cuDeviceGet(&device, 0), "cuDeviceGet"); });
  for (const char* name : {"device_current", "b_runtime_get_device"})
    suite.run(name, [&] { check(p_cuCtxGetDevice(&device), "cuCtxGetDevice"); });
  // The C equivalent of creating an object: filling a struct.
  for (const char* name : {"launch_config", "launch_config_3d", "b_struct_fields"}) {
    suite.run(name, [&] {
      CUlaunchConfig config{};
      config.gridDimX = config.gridDimY = config.gridDimZ = 1;
      config.blockDimX = 32;
      config.blockDimY = config.blockDimZ = 1;
      config.hStream = stream;
      asm volatile("" : : "r"(&config) : "memory");
    });
  }
  suite.run("set_current", [&] { check(p_cuCtxSetCurrent(context), "cuCtxSetCurrent"); });
  for (const char* name : {"ctx_get_current", "b_ctx_get_current"})
    suite.run(name, [&] { check(p_cuCtxGetCurrent(&context), "cuCtxGetCurrent"); });
  unsigned long long context_id = 0;
  suite.run("ctx_get_id", [&] { check(p_cuCtxGetId(nullptr, &context_id), "cuCtxGetId"); });
  CUdeviceptr memory;
  check(p_cuMemAlloc(&memory, 1 << 20), "cuMemAlloc");
  float f = 1;
  int i = 2;
  double d = 3;
  void* kinds[]{&memory, &f, &i, &d};
  CUfunction function3 = nullptr;
  for (const int count : bench::kCounts) {
    CUkernel kernel;
    CUfunction function;
    check(p_cuLibraryGetKernel(&kernel, code, ("k" + std::to_string(count)).c_str()),
          "cuLibraryGetKernel");
    check(p_cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
    if (count == 3) function3 = function;
    const auto params = std::make_shared<std::vector<void*>>();
    for (int p = 0; p < count; ++p) params->push_back(kinds[p % 4]);
    suite.run(
        "launch_" + std::to_string(count),
        [=] {
          check(p_cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params->data(), nullptr),
                "cuLaunchKernel");
        },
        drain, 400);
    if (count ==
        3) {  // a launch with a CUkernel, which the driver looks up in the context each time
      suite.run(
          "launch_3_kernel",
          [=] {
            check(p_cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0,
                                   stream, params->data(), nullptr),
                  "cuLaunchKernel");
          },
          drain, 400);
    }
  }
  void* params3[]{&memory, &f, &i};
  for (const char* name : {"b_launch_ctypes", "b_launch_pointer"}) {
    suite.run(
        name,
        [&] {
          check(p_cuLaunchKernel(function3, 1, 1, 1, 32, 1, 1, 0, stream, params3, nullptr),
                "cuLaunchKernel");
        },
        drain, 400);
  }
  CUkernel found;
  for (const char* name : {"get_kernel", "b_library_get_kernel"})
    suite.run(name, [&] { check(p_cuLibraryGetKernel(&found, code, "k3"), "cuLibraryGetKernel"); });
  suite.run(
      "module_load",
      [&] {
        CUlibrary fresh;
        check(p_cuLibraryLoadData(&fresh, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
              "cuLibraryLoadData");
        check(p_cuLibraryGetKernel(&found, fresh, "k0"), "cuLibraryGetKernel");
        check(p_cuLibraryUnload(fresh), "cuLibraryUnload");
      },
      1);
  suite.run(
      "stream_create_close",
      [&] {
        CUstream s;
        check(p_cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        check(p_cuStreamDestroy(s), "cuStreamDestroy");
      },
      100);
  suite.run(
      "event_create_close",
      [&] {
        CUevent e;
        check(p_cuEventCreate(&e, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        check(p_cuEventDestroy(e), "cuEventDestroy");
      },
      300);
  CUevent event, begin, end;
  check(p_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  check(p_cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
  check(p_cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
  for (const char* name : {"event_record", "b_event_record"})
    suite.run(
        name, [&] { check(p_cuEventRecord(event, stream), "cuEventRecord"); }, drain, 500);
  suite.run(
      "stream_wait", [&] { check(p_cuStreamWaitEvent(other, event, 0), "cuStreamWaitEvent"); },
      [&] { check(p_cuStreamSynchronize(other), "cuStreamSynchronize"); }, 500);
  suite.run("event_is_done", [&] { check(p_cuEventQuery(event), "cuEventQuery"); });
  check(p_cuEventRecord(begin, stream), "cuEventRecord");
  check(p_cuEventRecord(end, stream), "cuEventRecord");
  check(p_cuEventSynchronize(end), "cuEventSynchronize");
  float milliseconds;
  suite.run("event_elapsed",
            [&] { check(p_cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime"); });
  // The pool has the settings of the Python sides, which use it too: it releases free memory when a
  // stream is synchronized.
  for (const std::size_t size : {std::size_t{4096}, std::size_t{1} << 20}) {
    CUdeviceptr kept;
    check(p_cuMemAllocAsync(&kept, size, stream), "cuMemAllocAsync");
  }
  suite.run("stream_sync", drain);
  for (auto [name, size] : {std::pair{"alloc_free_4k", std::size_t{4096}},
                            std::pair{"alloc_free_1m", std::size_t{1} << 20},
                            std::pair{"b_alloc_free_4k", std::size_t{4096}}}) {
    suite.run_pair(
        name,
        [&, size = size] {
          CUdeviceptr p;
          check(p_cuMemAllocAsync(&p, size, stream), "cuMemAllocAsync");
          return p;
        },
        [&](CUdeviceptr p) { check(p_cuMemFreeAsync(p, stream), "cuMemFreeAsync"); }, drain, 300);
  }
  suite.run_pair(  // from an explicit pool, as cuda.core does
      "alloc_free_4k_pool",
      [&] {
        CUdeviceptr p;
        check(p_cuMemAllocFromPoolAsync(&p, 4096, pool, stream), "cuMemAllocFromPoolAsync");
        return p;
      },
      [&](CUdeviceptr p) { check(p_cuMemFreeAsync(p, stream), "cuMemFreeAsync"); }, drain, 300);
  for (const char* name : {"fill_4k", "b_memset_4k"})
    suite.run(
        name, [&] { check(p_cuMemsetD8Async(memory, 0, 4096, stream), "cuMemsetD8Async"); }, drain,
        300);

  void* pinned;
  check(p_cuMemAllocHost(&pinned, 1 << 20), "cuMemAllocHost");
  const auto pinned_address = reinterpret_cast<CUdeviceptr>(pinned);
  for (auto [name, size] : {std::pair{std::string{"4"}, std::size_t{4}},
                            std::pair{std::string{"1m"}, std::size_t{1} << 20}}) {
    const int batch = size == 4 ? 300 : 20;
    suite.run(
        "copy_" + name + "_to_device",
        [&, size = size] {
          check(p_cuMemcpyAsync(memory, pinned_address, size, stream), "cuMemcpyAsync");
        },
        drain, batch);
    suite.run(
        "copy_" + name + "_to_host",
        [&, size = size] {
          check(p_cuMemcpyAsync(pinned_address, memory, size, stream), "cuMemcpyAsync");
        },
        drain, batch);
  }

  CUfunction function0;
  check(p_cuLibraryGetKernel(&found, code, "k0"), "cuLibraryGetKernel");
  check(p_cuKernelGetFunction(&function0, found), "cuKernelGetFunction");
  const CUkernel kernel0 = found;
  const auto launch_empty = [&](CUfunction function) {
    check(p_cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr),
          "cuLaunchKernel");
  };
  const auto begin_capture = [&] {
    check(p_cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  };
  const auto end_capture = [&] {
    CUgraph graph;
    check(p_cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    return graph;
  };
  const auto capture = [&](int launches = 20) {
    begin_capture();
    for (int n = 0; n < launches; ++n) launch_empty(function0);
    return end_capture();
  };
  // A node that cuda.core captures names the kernel, so that it can be asked for it.
  const auto capture_steps = [&](const std::string& name, int launches, int batch) {
    suite.run_steps(
        name, begin_capture, launches, [&, function0] { launch_empty(function0); },
        [&, kernel0] { launch_empty(reinterpret_cast<CUfunction>(kernel0)); },
        [&] { check(p_cuGraphDestroy(end_capture()), "cuGraphDestroy"); }, drain, batch);
  };
  const auto instantiate = [&](CUgraph graph) {
    CUgraphExec exec;
    check(p_cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
    return exec;
  };
  suite.run(
      "graph_build_20",
      [&] {
        const CUgraph graph = capture();
        check(p_cuGraphExecDestroy(instantiate(graph)), "cuGraphExecDestroy");
        check(p_cuGraphDestroy(graph), "cuGraphDestroy");
      },
      drain, 10);
  capture_steps("graph_capture_20", 20, 10);
  const CUgraph graph = capture();
  suite.run(
      "graph_instantiate_20",
      [&] { check(p_cuGraphExecDestroy(instantiate(graph)), "cuGraphExecDestroy"); }, drain, 10);
  const CUgraphExec exec = instantiate(graph);
  suite.run(
      "graph_update_20",
      [&] {
        CUgraphExecUpdateResultInfo info{};
        check(p_cuGraphExecUpdate(exec, graph, &info), "cuGraphExecUpdate");
      },
      drain, 10);
  suite.run(
      "graph_launch_20", [&] { check(p_cuGraphLaunch(exec, stream), "cuGraphLaunch"); }, drain, 50);
  capture_steps("graph_capture_1000", 1000, 1);
  const CUgraph large_graph = capture(1000);
  const CUgraphExec large_exec = instantiate(large_graph);
  suite.run(
      "graph_update_1000",
      [&] {
        CUgraphExecUpdateResultInfo info{};
        check(p_cuGraphExecUpdate(large_exec, large_graph, &info), "cuGraphExecUpdate");
      },
      drain, 1);
  suite.run(
      "graph_launch_1000", [&] { check(p_cuGraphLaunch(large_exec, stream), "cuGraphLaunch"); },
      drain, 1);
  CUuserObject object;  // a user object of the graph, which costs the driver time at every launch
  check(p_cuUserObjectCreate(
            &object, &memory, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate");
  const CUgraph keeping = capture();
  check(p_cuGraphRetainUserObject(keeping, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
        "cuGraphRetainUserObject");
  const CUgraphExec keeping_exec = instantiate(keeping);
  suite.run(
      "graph_launch_20_kept",
      [&] { check(p_cuGraphLaunch(keeping_exec, stream), "cuGraphLaunch"); }, drain, 50);

  int value;
  for (const char* name : {"b_device_get_count", "b_device_get_count_alone"})
    suite.run(name, [&] { check(p_cuDeviceGetCount(&value), "cuDeviceGetCount"); });
  suite.run("b_device_get_attribute", [&] {
    check(p_cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), "cuDeviceGetAttribute");
  });
  char text[64];
  suite.run("b_device_get_name",
            [&] { check(p_cuDeviceGetName(text, sizeof text, 0), "cuDeviceGetName"); });
  for (const char* name : {"b_stream_query", "b_runtime_stream_query"})
    suite.run(name, [&] { check(p_cuStreamQuery(quiet), "cuStreamQuery"); });
  // The placement of pages affects a copy of a megabyte, so every side uses memory of the same kind
  // (bench/python/pages.py), on a huge page if available.
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const std::unique_ptr<char, void (*)(void*)> host{
      static_cast<char*>(std::aligned_alloc(kLargePage, kLargePage)), std::free};
  madvise(host.get(), kLargePage, MADV_HUGEPAGE);
  std::memset(host.get(), 0, kLargePage);
  for (const char* name : {"b_copy_4_to_device", "b_copy_array"})
    suite.run(
        name, [&] { check(p_cuMemcpyHtoD(memory, host.get(), 4), "cuMemcpyHtoD"); }, 200);
  suite.run(
      "b_copy_4_to_host", [&] { check(p_cuMemcpyDtoH(host.get(), memory, 4), "cuMemcpyDtoH"); },
      200);
  suite.run(
      "b_copy_1m_to_device",
      [&] { check(p_cuMemcpyHtoD(memory, host.get(), 1 << 20), "cuMemcpyHtoD"); }, 20);
  suite.run(
      "b_copy_1m_to_host",
      [&] { check(p_cuMemcpyDtoH(host.get(), memory, 1 << 20), "cuMemcpyDtoH"); }, 20);
  if (const char* path = bench::nvrtc_library()) {
    library = dlopen(path, RTLD_NOW);
    if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    LOAD(nvrtcCreateProgram);
    LOAD(nvrtcCompileProgram);
    LOAD(nvrtcGetPTXSize);
    LOAD(nvrtcGetPTX);
    LOAD(nvrtcDestroyProgram);
    LOAD(nvrtcVersion);
    const auto passed = [](nvrtcResult code, const char* call) {
      check(static_cast<CUresult>(code), call);
    };
    int major = 0;
    int minor = 0;
    suite.run("b_nvrtc_version", [=] {
      int version[2];
      passed(p_nvrtcVersion(&version[0], &version[1]), "nvrtcVersion");
    });
    check(p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), "major");
    check(p_cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), "minor");
    suite.run(
        "compile",
        [=] {
          nvrtcProgram program;
          passed(p_nvrtcCreateProgram(&program, bench::kSource, "default_program", 0, nullptr,
                                      nullptr),
                 "nvrtcCreateProgram");
          const std::string arch = "-arch=compute_" + std::to_string(major * 10 + minor);
          const char* options[]{arch.c_str()};
          passed(p_nvrtcCompileProgram(program, 1, options), "nvrtcCompileProgram");
          std::size_t size = 0;
          passed(p_nvrtcGetPTXSize(program, &size), "nvrtcGetPTXSize");
          std::string text(size, '\0');
          passed(p_nvrtcGetPTX(program, text.data()), "nvrtcGetPTX");
          passed(p_nvrtcDestroyProgram(&program), "nvrtcDestroyProgram");
        },
        1);
  }
  suite.serve();
  return 0;
}

int main(int argc, char** argv) { return cucore_bench_raw(argc, argv); }
