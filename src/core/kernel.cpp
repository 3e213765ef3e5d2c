// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: kernels, their parameters and attributes.
#include "cucore/kernel.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "core/library.hpp"
#include "core/probe.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/object_code.hpp"
#include "driver/kernel_registry.hpp"

namespace cucore {

detail::KernelState::~KernelState() {
  for (const ContextFunction* f = functions.load(std::memory_order_relaxed); f != nullptr;) {
    const ContextFunction* next = f->next;
    delete f;
    f = next;
  }
}

CUfunction detail::KernelState::launchable() {
  const DriverTable& table = driver();
  unsigned long long context = 0;
  if (table.cuCtxGetId(nullptr, &context) != CUDA_SUCCESS) [[unlikely]]
    return reinterpret_cast<CUfunction>(handle());
  const ContextFunction* const head = functions.load(std::memory_order_acquire);
  if (const ContextFunction* f = known(context)) return f->function;
  const CUkernel kernel = handle();
  const std::lock_guard lock{mutex};
  const ContextFunction* newest = functions.load(std::memory_order_relaxed);
  for (const ContextFunction* f = newest; f != head; f = f->next) {
    if (f->context == context) return f->function;
  }
  CUfunction function = nullptr;
  if (table.cuKernelGetFunction(&function, kernel) != CUDA_SUCCESS)
    return reinterpret_cast<CUfunction>(kernel);
  int local = 1;
  (void)table.cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
  functions.store(new ContextFunction{context, function, local != 0, newest},
                  std::memory_order_release);
  return function;
}

CUkernel detail::KernelState::find() {
  const CUkernel found = code->get_kernel(name).handle();  // every thread finds the same handle
  handle_.store(found, std::memory_order_release);
  return found;
}

namespace {

[[noreturn]] void no_kernel(CUkernel handle, const char* why) {
  char text[32];
  std::snprintf(text, sizeof text, "%#zx", reinterpret_cast<std::size_t>(handle));
  throw CUDAError{CUDA_ERROR_INVALID_HANDLE, result_name(CUDA_ERROR_INVALID_HANDLE),
                  std::string{result_name(CUDA_ERROR_INVALID_HANDLE)} + ": " + text +
                      " is not the handle of a kernel: " + why +
                      "; give a CUkernel, as cuLibraryGetKernel returns it"};
}

bool belongs_to(CUkernel handle, CUlibrary library) {
  unsigned count = 0;
  CUCORE_CALL(cuLibraryGetKernelCount(&count, library));
  std::vector<CUkernel> kernels(count);
  if (count != 0) CUCORE_CALL(cuLibraryEnumerateKernels(kernels.data(), count, library));
  return std::find(kernels.begin(), kernels.end(), handle) != kernels.end();
}

/// Throws if `handle` is known not to be a kernel. The CPU device validates handles; NVIDIA's
/// driver dereferences them, so alignment and readability are checked first. Handles of other
/// driver objects are not detected.
void require_kernel(CUkernel handle, CUlibrary library) {
  constexpr std::size_t kLooksAt = 64;
  switch (detail::kernel_handle_state(handle)) {
    case detail::KernelHandleState::loaded:
      return;
    case detail::KernelHandleState::unloaded:
      no_kernel(handle, "the code it belonged to has been unloaded");
    case detail::KernelHandleState::unknown:
      break;
  }
  if (library != nullptr) {
    if (!belongs_to(handle, library))
      no_kernel(handle, "the code given with it has no such kernel");
    return;
  }
  if (driver_info().kind == DeviceKind::cpu) return;
  if (reinterpret_cast<std::uintptr_t>(handle) % alignof(void*) != 0)
    no_kernel(handle, "it is not aligned as an address is");
  if (!detail::is_readable(handle, kLooksAt)) no_kernel(handle, "there is no memory");
}

}  // namespace

Kernel Kernel::from_handle(CUkernel handle, const ObjectCode* owner) {
  if (handle == nullptr) throw std::invalid_argument{"a kernel handle cannot be null"};
  const auto library = owner != nullptr ? owner->library() : nullptr;
  require_kernel(handle, library != nullptr ? library->handle() : nullptr);
  const char* name = nullptr;
  const CUresult code = driver().cuKernelGetName(&name, handle);
  if (code == CUDA_ERROR_INVALID_HANDLE) no_kernel(handle, "the driver does not know it");
  if (code == CUDA_ERROR_NOT_SUPPORTED)
    name = "";  // the driver is older than the function
  else
    check(code, "cuKernelGetName");
  // A kernel of a library loaded here keeps that library loaded, in addition to the given owner.
  CUlibrary home = nullptr;
  std::shared_ptr<detail::Library> keeps;
  if (driver().cuKernelGetLibrary(&home, handle) == CUDA_SUCCESS)
    keeps = detail::Library::find(home);
  if (keeps == nullptr) keeps = library;
  return Kernel{
      std::make_shared<detail::KernelState>(handle, std::move(keeps), name != nullptr ? name : "")};
}

bool Kernel::is_of(const ObjectCode& code) const {
  CUlibrary home = nullptr;
  return driver().cuKernelGetLibrary(&home, handle()) == CUDA_SUCCESS && home == code.handle();
}

CUkernel Kernel::handle() const { return state_->handle(); }
const std::string& Kernel::name() const noexcept { return state_->name; }

const std::vector<ParamInfo>* Kernel::known_params() const noexcept {
  return state_->params_read.load(std::memory_order_acquire) ? &state_->params : nullptr;
}

/// Reads the kinds of the parameters. A declaration in PTX takes precedence over the mangled name.
/// The mangled name is the only source for a cubin, and more specific than untyped PTX parameters
/// (.b32).
static void read_kinds(detail::KernelState& state, std::vector<ParamInfo>& params) {
  detail::apply_declaration(detail::params_of_mangled_name(state.name), params, state.param_names);
  const auto image = state.code                 ? state.code->image()
                     : state.library != nullptr ? state.library->image()
                                                : nullptr;
  if (image == nullptr) return;
  if (const auto* declared = image->params_of(state.name))
    detail::apply_declaration(*declared, params, state.param_names);
}

std::span<const ParamInfo> Kernel::params() const {
  detail::KernelState& state = *state_;
  if (!state.params_read.load(std::memory_order_acquire)) [[unlikely]] {
    const CUkernel kernel = state.handle();
    const std::lock_guard lock{state.mutex};
    if (!state.params_read.load(std::memory_order_relaxed)) {
      std::vector<ParamInfo> params;
      std::optional<ScopedContext> scope;
      for (std::size_t i = 0;; ++i) {
        ParamInfo info{};
        const auto ask = [&] {
          return driver().cuKernelGetParamInfo(kernel, i, &info.offset, &info.size);
        };
        CUresult code = ask();
        if (code == CUDA_ERROR_INVALID_CONTEXT && !scope) {
          // The parameters do not depend on a context, but NVIDIA's driver requires a current one.
          scope.emplace(Context::primary(detail::current_device_or_first()));
          code = ask();
        }
        if (code == CUDA_ERROR_INVALID_VALUE) break;  // one past the last parameter
        check(code, "cuKernelGetParamInfo");
        params.push_back(info);
      }
      read_kinds(state, params);
      state.params_size = params.empty() ? 0 : params.back().offset + params.back().size;
      state.params = std::move(params);
      state.params_read.store(true, std::memory_order_release);
    }
  }
  return state.params;
}

std::string Kernel::param_name(std::size_t index) const {
  static_cast<void>(params());
  return index < state_->param_names.size() ? state_->param_names[index] : std::string{};
}

std::size_t Kernel::params_size() const {
  static_cast<void>(params());
  return state_->params_size;
}

int KernelAttributes::get(CUfunction_attribute attribute) const {
  int value = 0;
  const CUdevice device = device_ >= 0 ? device_ : detail::current_device_or_first();
  CUCORE_CALL(cuKernelGetAttribute(&value, attribute, state_->handle(), device));
  return value;
}

void KernelAttributes::set(CUfunction_attribute attribute, int value) const {
  const CUdevice device = device_ >= 0 ? device_ : detail::current_device_or_first();
  CUCORE_CALL(cuKernelSetAttribute(attribute, value, state_->handle(), device));
}

}  // namespace cucore
