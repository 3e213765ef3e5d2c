// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls_launch.cpp: code calls of the call fuzzer: modules, libraries, functions and
// launches, with valid arguments and invalid shapes; some kernels fault.
#include "calls.hpp"

namespace calls {
namespace {

constexpr char kLibrary[] = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry noop() { ret; }
.visible .entry add(.param .u64 p, .param .u32 n) { ret; }
)";

}  // namespace

void launch_call(unsigned what, World& w, Bytes& in) {
  CUdeviceptr pointer = reinterpret_cast<CUdeviceptr>(&word);
  unsigned number = in.next();
  void* arguments[] = {&pointer, &number};
  switch (what) {
    case 0: {
      CUlaunchAttribute attributes[3] = {};
      for (auto& attribute : attributes) {
        attribute.id = static_cast<CUlaunchAttributeID>(in.next() % 20);
        for (unsigned i = 0; i < 12; i += 4)
          attribute.value.pad[i] = static_cast<char>(in.next() % 4);
      }
      CUlaunchConfig config{};
      config.gridDimX = in.next() % 9;
      config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
      config.blockDimX = in.next() * 8u;
      config.sharedMemBytes = in.next() == 9 ? 1u << 20 : 0;
      config.hStream = in.pick(w.streams);
      config.attrs = attributes;
      config.numAttrs = in.next() % 4;
      for (auto& attribute : attributes)  // arbitrary addresses as values would be invalid accesses
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
            attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
            attribute.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
          attribute.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
      cuLaunchKernelEx(&config, in.pick(w.functions), arguments, nullptr);
      break;
    }
    case 1:
      cuLaunchKernel(in.pick(w.functions), in.next(), in.next() % 3, 1, in.next(), 1, in.next() % 3,
                     in.next() == 5 ? 1u << 20 : 0, in.pick(w.streams), arguments, nullptr);
      break;
    case 2: {  // later calls return the same error until the context is destroyed
      static constexpr unsigned kCodes[] = {700, 710, 714, 715, 716, 717, 718, 719};
      unsigned code = kCodes[in.next() % 8];
      void* only[] = {&code};
      if (in.next() < 64)
        cuLaunchKernel(in.pick(w.faulting), 1, 1, 1, 1, 1, 1, 0, in.pick(w.streams), only, nullptr);
      break;
    }
    case 3:
      cuLaunchCooperativeKernel(in.pick(w.functions), in.next() * 64u, 1, 1, in.next(), 1, 1, 0,
                                in.pick(w.streams), arguments);
      break;
    case 4:
      cuFuncSetAttribute(in.pick(w.functions), static_cast<CUfunction_attribute>(in.next() % 18),
                         static_cast<int>(in.size()));
      break;
    case 5: {
      int value = 0;
      cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(in.next() % 18),
                         in.pick(w.functions));
      break;
    }
    case 6: {
      CUdeviceptr variable = 0;
      std::size_t bytes = 0;
      if (cuModuleGetGlobal(&variable, &bytes, in.pick(w.modules), "numbers") == CUDA_SUCCESS)
        w.keep(variable);
      break;
    }
    case 7: {
      CUlibrary library = nullptr;
      if (w.libraries.size() < 8 && cuLibraryLoadData(&library, kLibrary, nullptr, nullptr, 0,
                                                      nullptr, nullptr, 0) == CUDA_SUCCESS)
        w.libraries.push_back(library);
      break;
    }
    case 8: {
      CUkernel kernel = nullptr;
      if (cuLibraryGetKernel(&kernel, in.pick(w.libraries), number % 2 ? "noop" : "add") ==
          CUDA_SUCCESS)
        w.functions.push_back(reinterpret_cast<CUfunction>(kernel));
      break;
    }
    case 9:
      cuLibraryUnload(in.pick(w.libraries));
      break;
    case 10: {
      CUmodule module = nullptr;
      if (cuLibraryGetModule(&module, in.pick(w.libraries)) == CUDA_SUCCESS)
        w.modules.push_back(module);
      break;
    }
    default: {
      int blocks = 0;
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, in.pick(w.functions), in.next() * 8,
                                                  in.size());
      break;
    }
  }
}

}  // namespace calls
