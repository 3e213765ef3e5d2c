// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/communicator.cpp: the queue of a rank's operations.
#include "cpu/nccl/communicator.hpp"

#include <dlfcn.h>

#include <cstring>
#include <string_view>
#include <utility>

namespace cucpu::nccl {

void check_driver(CUresult code, const char* call) {
  if (code != CUDA_SUCCESS)
    throw Failure{ncclUnhandledCudaError, std::string{call} + " failed with error " +
                                              std::to_string(static_cast<int>(code))};
}

/// The driver that the process has; else the one in the folder of this library.
static void* driver_library() {
  if (void* loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) return loaded;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&driver_library), &here) != 0 &&
      here.dli_fname != nullptr) {
    const std::string name = here.dli_fname;
    const std::string beside = name.substr(0, name.rfind('/') + 1) + "libcuda.so.1";
    if (void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

const Driver& Driver::instance() {
  static const Driver driver = [] {
    void* const library = driver_library();
    if (library == nullptr) throw Failure{ncclSystemError, dlerror()};
    Driver made{};
    const auto find = [&](auto& function, const char* name) {
      void* symbol = dlsym(library, name);
      if (symbol == nullptr)
        throw Failure{ncclSystemError, std::string{"libcuda.so.1 has no "} + name};
      std::memcpy(&function, &symbol, sizeof symbol);
    };
    find(made.cuLaunchHostFunc, "cuLaunchHostFunc");
    find(made.cuStreamWaitValue32, "cuStreamWaitValue32_v2");
    find(made.cuStreamIsCapturing, "cuStreamIsCapturing");
    find(made.cuMemHostAlloc, "cuMemHostAlloc");
    find(made.cuCtxGetDevice, "cuCtxGetDevice");
    find(made.cuCtxGetCurrent, "cuCtxGetCurrent");
    find(made.cuCtxSetCurrent, "cuCtxSetCurrent");
    find(made.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    find(made.cuDeviceGetName, "cuDeviceGetName");
    find(made.cuMemAlloc, "cuMemAlloc_v2");
    find(made.cuMemFree, "cuMemFree_v2");
    find(made.cuInit, "cuInit");
    check_driver(made.cuInit(0), "cuInit");
    char name[256] = {};
    check_driver(made.cuDeviceGetName(name, sizeof name, 0), "cuDeviceGetName");
    if (!std::string_view{name}.starts_with("cucore CPU device"))
      throw Failure{ncclInvalidUsage, std::string{"this libnccl.so.2 is for CPU devices, and the "
                                                  "driver has the GPU "} +
                                          name +
                                          ": use NVIDIA's NCCL (pip install nvidia-nccl-cu13)"};
    return made;
  }();
  return driver;
}

void ensure_context(int device) {
  const Driver& driver = Driver::instance();
  CUcontext context = nullptr;
  check_driver(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (context != nullptr) return;
  check_driver(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check_driver(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

namespace {

/// Numbers that streams can wait for. They are used again, and never freed: a stream may still look
/// at one when its communicator is gone.
struct Numbers {
  std::mutex mutex;
  std::vector<std::atomic<std::uint32_t>*> free;
};
Numbers& numbers() {
  static Numbers& n = *new Numbers;
  return n;
}
constexpr std::size_t kPage = 4096, kApart = 64;  // a cache line each

std::atomic<std::uint32_t>* take_number(int device) {
  ensure_context(device);
  Numbers& n = numbers();
  const std::lock_guard lock{n.mutex};
  if (n.free.empty()) {
    void* page = nullptr;
    check_driver(Driver::instance().cuMemHostAlloc(&page, kPage, CU_MEMHOSTALLOC_PORTABLE),
                 "cuMemHostAlloc");
    for (std::size_t at = 0; at < kPage; at += kApart)
      n.free.push_back(new (static_cast<char*>(page) + at) std::atomic<std::uint32_t>{0});
  }
  auto* const taken = n.free.back();
  n.free.pop_back();
  return taken;
}
void give_number(std::atomic<std::uint32_t>* number) {
  Numbers& n = numbers();
  const std::lock_guard lock{n.mutex};
  n.free.push_back(number);
}

}  // namespace

Communicator::Communicator(const ncclUniqueId& identity, int rank, int size, int device)
    : device{device},
      mesh{identity, rank, size},
      done_{take_number(device)},
      last_{done_->load()},
      thread_{[this] { run(); }} {}

Communicator::~Communicator() {
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
    aborted_ = aborted_ || !queue_.empty();
    if (aborted_) mesh.abort();
  }
  changed_.notify_all();
  thread_.join();
  give_number(done_);
}

void CUDA_CB Communicator::arrived(void* given) {
  const std::unique_ptr<std::shared_ptr<Operation>> held{
      static_cast<std::shared_ptr<Operation>*>(given)};
  Operation& operation = **held;
  const std::lock_guard lock{operation.signal->mutex};
  --operation.waits;
  operation.signal->changed.notify_all();
}

void Communicator::submit(Work work, const std::vector<CUstream>& streams) {
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  operation->waits = static_cast<int>(streams.size());
  operation->signal = signal_;
  const Driver& driver = Driver::instance();
  for (CUstream stream : streams) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    check_driver(driver.cuStreamIsCapturing(stream, &capture), "cuStreamIsCapturing");
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
      throw Failure{ncclInvalidUsage,
                    "collectives cannot be captured in a graph by this library: call them outside"};
  }
  std::uint32_t number;
  {
    const std::lock_guard lock{mutex_};
    number = operation->number = ++last_;
    queue_.push_back(operation);
  }
  changed_.notify_all();
  for (CUstream stream : streams) {
    auto held = std::make_unique<std::shared_ptr<Operation>>(operation);
    check_driver(driver.cuLaunchHostFunc(stream, &arrived, held.get()), "cuLaunchHostFunc");
    (void)held.release();
    check_driver(driver.cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(done_), number,
                                            CU_STREAM_WAIT_VALUE_GEQ),
                 "cuStreamWaitValue32");
  }
  if (streams.empty()) drain();
}

void Communicator::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [&] {
      return (queue_.empty() && ends_) ||
             (!queue_.empty() && (queue_.front()->waits == 0 || aborted_));
    });
    if (queue_.empty()) return;
    const std::shared_ptr<Operation> operation = queue_.front();
    if (status_ == ncclSuccess) {  // after an error the ranks no longer agree
      lock.unlock();
      ncclResult_t code = ncclSuccess;
      std::string text;
      try {
        operation->work(mesh);
      } catch (const Failure& failure) {
        code = failure.code;
        text = failure.what();
      } catch (const std::exception& error) {
        code = ncclInternalError;
        text = error.what();
      }
      lock.lock();
      if (code != ncclSuccess && status_ == ncclSuccess) {
        status_ = code;
        message_ = text;
      }
    }
    queue_.pop_front();
    done_->store(operation->number, std::memory_order_release);
    changed_.notify_all();
  }
}

void Communicator::drain() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return queue_.empty(); });
}

void Communicator::abort() noexcept {
  {
    const std::lock_guard lock{mutex_};
    aborted_ = true;
    if (status_ == ncclSuccess) {
      status_ = ncclRemoteError;
      message_ = "the communicator was aborted";
    }
  }
  mesh.abort();
  changed_.notify_all();
}

ncclResult_t Communicator::status() const {
  const std::lock_guard lock{mutex_};
  return status_;
}
std::string Communicator::message() const {
  const std::lock_guard lock{mutex_};
  return message_;
}

int Communicator::add_factor(Factor factor) {
  const std::lock_guard lock{mutex_};
  factors_[next_factor_] = std::make_shared<const Factor>(std::move(factor));
  return next_factor_++;
}
bool Communicator::remove_factor(int number) {
  const std::lock_guard lock{mutex_};
  return factors_.erase(number) != 0;
}
std::shared_ptr<const Communicator::Factor> Communicator::factor(int number) const {
  const std::lock_guard lock{mutex_};
  const auto at = factors_.find(number);
  return at == factors_.end() ? nullptr : at->second;
}

}  // namespace cucpu::nccl
