// kernel.cpp: kernels, their parameters and attributes.
#include "cucore/kernel.hpp"

#include <optional>

#include "core/library.hpp"
#include "cucore/context.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/object_code.hpp"

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
  const CUkernel found = code->get_kernel(name).handle();  // the same for every thread that looks
  handle_.store(found, std::memory_order_release);
  return found;
}

Kernel Kernel::from_handle(CUkernel handle, const ObjectCode* owner) {
  if (handle == nullptr) throw std::invalid_argument{"a kernel handle cannot be null"};
  const char* name = nullptr;
  if (driver().cuKernelGetName(&name, handle) != CUDA_SUCCESS || name == nullptr) name = "";
  // A kernel of code that was loaded here keeps it loaded, whoever is named as its owner.
  CUlibrary home = nullptr;
  std::shared_ptr<detail::Library> library;
  if (driver().cuKernelGetLibrary(&home, handle) == CUDA_SUCCESS)
    library = detail::Library::find(home);
  if (library == nullptr && owner != nullptr) library = owner->library();
  return Kernel{std::make_shared<detail::KernelState>(handle, std::move(library), name)};
}

CUkernel Kernel::handle() const { return state_->handle(); }
const std::string& Kernel::name() const noexcept { return state_->name; }

const std::vector<ParamInfo>* Kernel::known_params() const noexcept {
  return state_->params_read.load(std::memory_order_acquire) ? &state_->params : nullptr;
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
          // The table is the code's, not a context's, but NVIDIA's driver wants one to be current.
          scope.emplace(Context::primary(detail::current_device_or_first()));
          code = ask();
        }
        if (code == CUDA_ERROR_INVALID_VALUE) break;  // one past the last
        check(code, "cuKernelGetParamInfo");
        params.push_back(info);
      }
      state.params_size = params.empty() ? 0 : params.back().offset + params.back().size;
      state.params = std::move(params);
      state.params_read.store(true, std::memory_order_release);
    }
  }
  return state.params;
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
