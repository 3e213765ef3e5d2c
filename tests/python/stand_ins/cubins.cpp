// SPDX-License-Identifier: Apache-2.0
// Compiles and links kernels with NVRTC and nvJitLink, loads their cubins through the driver and
// runs them. With -DLINKED the program is linked with the libraries; otherwise it loads those named
// by its arguments: NVRTC, nvJitLink. Prints what the kernels computed, or the driver's answer and
// its log.
#include <cuda.h>
#include <dlfcn.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef LINKED
#define FUNCTION(library, name) constexpr auto* call_##name = &name
#else
void* nvrtc_library = nullptr;
void* nvjitlink_library = nullptr;
#define FUNCTION(library, name) \
  const auto call_##name = reinterpret_cast<decltype(&name)>(dlsym(library, #name))
#endif

#define REQUIRE(condition)                                       \
  if (!(condition)) {                                            \
    std::printf("line %d: %s is false\n", __LINE__, #condition); \
    std::exit(1);                                                \
  }

enum class Kind { cubin, ptx, ltoir };

std::string compile(const char* source, std::vector<const char*> options, Kind kind) {
  FUNCTION(nvrtc_library, nvrtcCreateProgram);
  FUNCTION(nvrtc_library, nvrtcCompileProgram);
  FUNCTION(nvrtc_library, nvrtcGetCUBINSize);
  FUNCTION(nvrtc_library, nvrtcGetCUBIN);
  FUNCTION(nvrtc_library, nvrtcGetPTXSize);
  FUNCTION(nvrtc_library, nvrtcGetPTX);
  FUNCTION(nvrtc_library, nvrtcGetLTOIRSize);
  FUNCTION(nvrtc_library, nvrtcGetLTOIR);
  FUNCTION(nvrtc_library, nvrtcDestroyProgram);
  nvrtcProgram program = nullptr;
  REQUIRE(call_nvrtcCreateProgram(&program, source, "kernel.cu", 0, nullptr, nullptr) == 0);
  REQUIRE(call_nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data()) == 0);
  std::size_t size = 0;
  REQUIRE((kind == Kind::cubin ? call_nvrtcGetCUBINSize
           : kind == Kind::ptx ? call_nvrtcGetPTXSize
                               : call_nvrtcGetLTOIRSize)(program, &size) == 0);
  std::string code(size, '\0');
  REQUIRE((kind == Kind::cubin ? call_nvrtcGetCUBIN
           : kind == Kind::ptx ? call_nvrtcGetPTX
                               : call_nvrtcGetLTOIR)(program, code.data()) == 0);
  REQUIRE(call_nvrtcDestroyProgram(&program) == 0);
  return code;
}

struct Input {
  nvJitLinkInputType type;
  std::string bytes;
};

std::string link(std::vector<const char*> options, const std::vector<Input>& inputs) {
  FUNCTION(nvjitlink_library, nvJitLinkCreate);
  FUNCTION(nvjitlink_library, nvJitLinkAddData);
  FUNCTION(nvjitlink_library, nvJitLinkComplete);
  FUNCTION(nvjitlink_library, nvJitLinkGetLinkedCubinSize);
  FUNCTION(nvjitlink_library, nvJitLinkGetLinkedCubin);
  FUNCTION(nvjitlink_library, nvJitLinkDestroy);
  nvJitLinkHandle handle = nullptr;
  REQUIRE(call_nvJitLinkCreate(&handle, static_cast<std::uint32_t>(options.size()),
                               options.data()) == 0);
  for (const Input& input : inputs)
    REQUIRE(call_nvJitLinkAddData(handle, input.type, input.bytes.data(), input.bytes.size(),
                                  "input") == 0);
  REQUIRE(call_nvJitLinkComplete(handle) == 0);
  std::size_t size = 0;
  REQUIRE(call_nvJitLinkGetLinkedCubinSize(handle, &size) == 0);
  std::string cubin(size, '\0');
  REQUIRE(call_nvJitLinkGetLinkedCubin(handle, cubin.data()) == 0);
  REQUIRE(call_nvJitLinkDestroy(&handle) == 0);
  return cubin;
}

void run(const char* what, const std::string& cubin, const char* kernel) {
  char log[4096] = "";
  CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  if (const CUresult code = cuModuleLoadDataEx(&module, cubin.data(), 2, names, values)) {
    std::printf("%s: %d %s\n", what, code, log);
    return;
  }
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction(&function, module, kernel) == 0);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 4) == 0);
  REQUIRE(cuMemsetD8(memory, 0, 4) == 0);
  void* arguments[] = {&memory};
  REQUIRE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == 0);
  int result = 0;
  REQUIRE(cuMemcpyDtoH(&result, memory, sizeof result) == 0);
  int registers = 0;
  REQUIRE(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function) == 0);
  std::printf("%s: %d\n", what, result);
  if (std::string{what} == "limited") std::printf("registers: %d\n", registers);
  REQUIRE(cuMemFree(memory) == 0);
  REQUIRE(cuModuleUnload(module) == 0);
}

constexpr char kKernel[] = "extern \"C\" __global__ void k(int* p) { *p = 42; }";
constexpr char kManyRegisters[] =
    "extern \"C\" __global__ void k(int* p) {\n"
    "  int a[64], sum = 0;\n"
    "  for (int i = 0; i < 64; ++i) a[i] = p[i * threadIdx.x];\n"
    "  for (int i = 0; i < 64; ++i) sum += a[i] * a[63 - i];\n"
    "  *p = 42 + sum; }";
constexpr char kCaller[] =
    "__device__ int value(int); extern \"C\" __global__ void k(int* p) { *p = value(6); }";
constexpr char kCallee[] = "__device__ int value(int x) { return 7 * x; }";

int main(int count, char** arguments) {
#ifdef LINKED
  (void)count, (void)arguments;
#else
  REQUIRE(count == 3);
  REQUIRE(nvrtc_library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL));
  REQUIRE(nvjitlink_library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL));
#endif
  const std::string cubin = compile(kKernel, {"-arch=sm_90"}, Kind::cubin);
  const std::string limited =
      compile(kManyRegisters, {"-arch=sm_90", "-maxrregcount=24"}, Kind::cubin);
  const std::string caller = compile(kCaller, {"-arch=compute_90", "-rdc=true"}, Kind::ptx);
  const std::string callee = compile(kCallee, {"-arch=compute_90", "-rdc=true"}, Kind::ptx);
  const std::string part = compile(kCallee, {"-arch=sm_90", "-rdc=true"}, Kind::cubin);
  const std::string caller_ir =
      compile(kCaller, {"-arch=sm_90", "-dlto", "-rdc=true"}, Kind::ltoir);
  const std::string callee_ir =
      compile(kCallee, {"-arch=sm_90", "-dlto", "-rdc=true"}, Kind::ltoir);
  // nvJitLink needs neither a driver nor a context.
  const std::string linked =
      link({"-arch=sm_90"}, {{NVJITLINK_INPUT_PTX, caller}, {NVJITLINK_INPUT_PTX, callee}});
  const std::string mixed =
      link({"-arch=sm_90"}, {{NVJITLINK_INPUT_PTX, caller}, {NVJITLINK_INPUT_CUBIN, part}});
  const std::string optimized = link({"-arch=sm_90", "-lto"}, {{NVJITLINK_INPUT_LTOIR, caller_ir},
                                                               {NVJITLINK_INPUT_LTOIR, callee_ir}});
  REQUIRE(cuInit(0) == 0);
  int active = 0;
  unsigned flags = 0;
  REQUIRE(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active == 0);
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
  run("cubin", cubin, "k");
  run("limited", limited, "k");
  run("linked", linked, "k");
  run("mixed", mixed, "k");
  run("optimized", optimized, "k");
}
