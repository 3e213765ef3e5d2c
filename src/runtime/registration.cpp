// SPDX-License-Identifier: Apache-2.0
// registration.cpp: the registry of fat binaries, host stubs and host shadows of variables.
//
// Registration runs before main() and must not need a driver: it only stores names. The first use
// of a kernel or variable loads the image as a driver library, which is independent of contexts.
#include "runtime/registration.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver/mutex.hpp"

namespace cucore::rt {

struct Managed {
  void** host;
  std::string name;
};

struct FatBinary {
  const void* wrapper = nullptr;
  cucore::detail::Mutex mutex;  // guards the fields below
  CUlibrary library = nullptr;  // null until the first use
  std::vector<Managed> managed;
  bool managed_ready = false;
  bool is_reported = false;  // the load error has been printed
};

namespace {

struct Stub {
  FatBinary* binary;
  std::string name;
  CUkernel kernel = nullptr;  // null until the first use
};
struct Variable {
  FatBinary* binary;
  std::string name;
  std::size_t size;
};

struct Registry {
  cucore::detail::Mutex mutex;
  std::unordered_map<const void*, Stub> stubs;
  std::unordered_map<const void*, Variable> variables;
  std::unordered_set<FatBinary*> binaries;
};

/// Never destroyed: fat binaries of the program are unregistered during process exit.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

/// Loads the image of a fat binary once. A failure is not stored: a later call may find a driver.
/// Prints the driver's explanation to stderr, once per binary, because an error code has no text of
/// its own and programs of this API have no log.
CUresult load(const DriverTable& d, FatBinary& binary, CUlibrary* library) {
  const std::lock_guard lock{binary.mutex};
  if (binary.library == nullptr) {
    char log[4096] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
    const CUresult code = d.cuLibraryLoadData(&binary.library, binary.wrapper, options, values, 2,
                                              nullptr, nullptr, 0);
    if (code != CUDA_SUCCESS) {
      binary.library = nullptr;
      if (log[0] != '\0' && !std::exchange(binary.is_reported, true))
        std::fprintf(stderr, "cucore: the device code of this program cannot be loaded: %s\n", log);
      return code;
    }
  }
  *library = binary.library;
  return CUDA_SUCCESS;
}

std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

}  // namespace

FatBinary* register_fat_binary(const void* wrapper) noexcept {
  auto* const binary = new FatBinary;
  binary->wrapper = wrapper;
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.binaries.insert(binary);
  return binary;
}

void unregister_fat_binary(FatBinary* binary) noexcept {
  Registry& r = registry();
  std::vector<CUkernel> kernels;
  {
    const std::lock_guard lock{r.mutex};
    if (r.binaries.erase(binary) == 0) return;
    for (const auto& [address, stub] : r.stubs) {
      if (stub.binary == binary && stub.kernel != nullptr) kernels.push_back(stub.kernel);
    }
    std::erase_if(r.stubs, [=](const auto& row) { return row.second.binary == binary; });
    std::erase_if(r.variables, [=](const auto& row) { return row.second.binary == binary; });
  }
  erase_kernels(kernels);
  const std::unique_ptr<FatBinary> owned{binary};
  if (owned->library == nullptr) return;
  try {
    driver().cuLibraryUnload(owned->library);
  } catch (const std::exception&) {  // cannot throw: the driver that loaded the library is loaded
  }
}

void register_stub(FatBinary* binary, const void* stub, const char* name) noexcept {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.stubs.insert_or_assign(stub, Stub{binary, name});
}

void register_variable(FatBinary* binary, const void* host, const char* name,
                       std::size_t size) noexcept {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  r.variables.insert_or_assign(host, Variable{binary, name, size});
}

void register_managed(FatBinary* binary, void** host, const char* name, std::size_t) noexcept {
  const std::lock_guard lock{binary->mutex};
  binary->managed.push_back({host, name});
}

cudaError_t init_managed(FatBinary* binary) noexcept {
  return call_with_context([=](const DriverTable& d) {
    CUlibrary library = nullptr;
    if (const CUresult code = load(d, *binary, &library); code != CUDA_SUCCESS) return code;
    const std::lock_guard lock{binary->mutex};
    if (binary->managed_ready) return CUDA_SUCCESS;
    for (const Managed& variable : binary->managed) {
      CUdeviceptr address = 0;
      std::size_t bytes = 0;
      const CUresult code = d.cuLibraryGetManaged(&address, &bytes, library, variable.name.c_str());
      if (code != CUDA_SUCCESS) return code;
      *variable.host = reinterpret_cast<void*>(address);
    }
    binary->managed_ready = true;
    return CUDA_SUCCESS;
  });
}

bool find_stub(const void* stub, CUkernel* kernel, CUresult* code) {
  Registry& r = registry();
  FatBinary* binary = nullptr;
  std::string name;
  {
    const std::lock_guard lock{r.mutex};
    const auto found = r.stubs.find(stub);
    if (found == r.stubs.end()) return false;
    *kernel = found->second.kernel;
    *code = CUDA_SUCCESS;
    if (*kernel != nullptr) return true;
    binary = found->second.binary;
    name = found->second.name;
  }
  const DriverTable& d = driver();
  CUlibrary library = nullptr;
  if (*code = load(d, *binary, &library); *code != CUDA_SUCCESS) return true;
  if (*code = d.cuLibraryGetKernel(kernel, library, name.c_str()); *code != CUDA_SUCCESS) {
    if (*code == CUDA_ERROR_NOT_FOUND)
      *code = static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
    return true;
  }
  register_kernel(*kernel);
  const std::lock_guard lock{r.mutex};
  if (const auto found = r.stubs.find(stub); found != r.stubs.end()) found->second.kernel = *kernel;
  return true;
}

bool is_kernel_of_stub(const void* kernel) noexcept {
  Registry& r = registry();
  const std::lock_guard lock{r.mutex};
  return std::any_of(r.stubs.begin(), r.stubs.end(),
                     [=](const auto& row) { return row.second.kernel == kernel; });
}

cudaError_t kernel_of_stub(cudaKernel_t* kernel, const void* stub) noexcept {
  return call_with_context([=](const DriverTable&) -> cudaError_t {
    if (kernel == nullptr) return cudaErrorInvalidValue;
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(stub));
    CUkernel found = nullptr;
    CUresult code = CUDA_SUCCESS;
    if (!find_stub(stub, &found, &code)) return cudaErrorInvalidDeviceFunction;
    if (code == CUDA_SUCCESS) *kernel = found;
    return from(code);
  });
}

cudaError_t find_variable(const void* symbol, CUdeviceptr* address, std::size_t* size) {
  Registry& r = registry();
  const DriverTable& d = driver();
  FatBinary* binary = nullptr;
  std::string name;
  {
    const std::lock_guard lock{r.mutex};
    if (const auto found = r.variables.find(symbol); found != r.variables.end()) {
      binary = found->second.binary;
      name = found->second.name;
    } else {  // a managed variable: host code passes its device address
      for (FatBinary* candidate : r.binaries) {
        const std::lock_guard inner{candidate->mutex};
        for (const Managed& variable : candidate->managed) {
          if (*variable.host == symbol || variable.host == symbol)
            binary = candidate, name = variable.name;
        }
      }
    }
  }
  if (binary == nullptr || symbol == nullptr) return cudaErrorInvalidSymbol;
  CUlibrary library = nullptr;
  if (const CUresult code = load(d, *binary, &library); code != CUDA_SUCCESS) return from(code);
  CUresult code = d.cuLibraryGetGlobal(address, size, library, name.c_str());
  if (code == CUDA_ERROR_NOT_FOUND)
    code = d.cuLibraryGetManaged(address, size, library, name.c_str());
  return code == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : from(code);
}

void push_call_configuration(const CallConfiguration& configuration) {
  configurations().push_back(configuration);
}

cudaError_t pop_call_configuration(CallConfiguration* configuration) noexcept {
  std::vector<CallConfiguration>& stack = configurations();
  if (stack.empty()) return set_last_error(cudaErrorMissingConfiguration);
  *configuration = stack.back();
  stack.pop_back();
  return cudaSuccess;
}

}  // namespace cucore::rt
