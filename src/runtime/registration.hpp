// SPDX-License-Identifier: Apache-2.0
// registration.hpp: fat binaries, kernels and variables that code compiled by nvcc registers when
// its program or library is loaded. libcudart.so.12 and .13 export these functions under nvcc's
// names.
#pragma once
#include <cstddef>

#include "cucore/export.hpp"
#include "runtime/state.hpp"

namespace cucore::rt {

struct FatBinary;

/// Registers the image that a `__fatBinC_Wrapper_t` describes. The driver loads it on first use.
CUCORE_EXPORT FatBinary* register_fat_binary(const void* wrapper) noexcept;
CUCORE_EXPORT void unregister_fat_binary(FatBinary* binary) noexcept;
/// `stub` is the host function that nvcc generates for a kernel.
CUCORE_EXPORT void register_stub(FatBinary* binary, const void* stub, const char* name) noexcept;
/// `host` is the address of the host's shadow of a device variable.
CUCORE_EXPORT void register_variable(FatBinary* binary, const void* host, const char* name,
                                     std::size_t size) noexcept;
/// `host` points to the pointer through which host code reaches a `__managed__` variable.
CUCORE_EXPORT void register_managed(FatBinary* binary, void** host, const char* name,
                                    std::size_t size) noexcept;
/// Loads the image and sets the pointers of its managed variables.
CUCORE_EXPORT cudaError_t init_managed(FatBinary* binary) noexcept;
/// Returns whether a kernel belongs to a host stub. Kernels of libraries that the program loads do
/// not.
bool is_kernel_of_stub(const void* kernel) noexcept;
/// Returns the kernel of a host stub. On failure `*kernel` is the stub itself, so that the
/// following launch reports the error.
CUCORE_EXPORT cudaError_t kernel_of_stub(cudaKernel_t* kernel, const void* stub) noexcept;

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
/// The launch configuration between `<<<` and `>>>`, kept for the host stub that is called next.
CUCORE_EXPORT void push_call_configuration(const CallConfiguration& configuration);
CUCORE_EXPORT cudaError_t pop_call_configuration(CallConfiguration* configuration) noexcept;

/// Finds the kernel of a host stub. Returns false for a pointer that is not a registered stub.
bool find_stub(const void* stub, CUkernel* kernel, CUresult* code);
/// Returns the address and size of a variable in the current context, or cudaErrorInvalidSymbol.
cudaError_t find_variable(const void* symbol, CUdeviceptr* address, std::size_t* size);

}  // namespace cucore::rt
