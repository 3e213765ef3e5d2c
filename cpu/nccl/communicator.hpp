// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/communicator.hpp: one rank of a communicator. A thread runs its operations in order: the
// stream tells it when the data is ready (a host function) and waits for a number that it writes.
// No thread of the device blocks meanwhile, so any number of ranks fits into one process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cpu/nccl/mesh.hpp"

namespace cucpu::nccl {

/// The driver's functions that this library needs, from libcuda.so.1 of the process. Throws Failure
/// where that is missing or is not the CPU device: only its memory can be read by the host.
struct Driver {
  static const Driver& instance();
  CUresult (*cuLaunchHostFunc)(CUstream, CUhostFn, void*);
  CUresult (*cuStreamWaitValue32)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  CUresult (*cuStreamIsCapturing)(CUstream, CUstreamCaptureStatus*);
  CUresult (*cuMemHostAlloc)(void**, std::size_t, unsigned);
  CUresult (*cuCtxGetDevice)(CUdevice*);
  CUresult (*cuCtxGetCurrent)(CUcontext*);
  CUresult (*cuCtxSetCurrent)(CUcontext);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*cuDeviceGetName)(char*, int, CUdevice);
  CUresult (*cuMemAlloc)(CUdeviceptr*, std::size_t);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuInit)(unsigned);
};
void check_driver(CUresult code, const char* call);
/// Makes the device's primary context current where the thread has none.
void ensure_context(int device);

class Communicator {
 public:
  Communicator(const ncclUniqueId& identity, int rank, int size, int device);
  ~Communicator();  ///< ends the thread; operations that are not done are aborted
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const int device;
  Mesh mesh;

  using Work = std::function<void(Mesh&)>;
  /// Queues an operation after the work of these streams, and makes them wait for it. Without
  /// streams the caller waits for it.
  void submit(Work work, const std::vector<CUstream>& streams);
  void drain();           ///< Waits for all operations.
  void abort() noexcept;  ///< Ends all operations with an error.

  /// What went wrong first.
  [[nodiscard]] ncclResult_t status() const;
  [[nodiscard]] std::string message() const;

  /// Operators of ncclRedOpCreatePreMulSum: a factor of the type's size, or its address.
  struct Factor {
    std::vector<char> value;
    const void* address = nullptr;
    ncclDataType_t type;
  };
  int add_factor(Factor factor);
  bool remove_factor(int number);
  [[nodiscard]] std::shared_ptr<const Factor> factor(int number) const;

 private:
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
  };
  struct Operation {
    Work work;
    int waits = 0;  // streams that are not there yet
    std::uint32_t number = 0;
    std::shared_ptr<Signal> signal;  // a stream may arrive when the communicator is gone
  };
  static void CUDA_CB arrived(void* operation);
  void run();

  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::mutex& mutex_ = signal_->mutex;
  std::condition_variable& changed_ = signal_->changed;
  std::deque<std::shared_ptr<Operation>> queue_;
  std::atomic<std::uint32_t>* done_;  // number of the last operation that is over; device-visible
  std::uint32_t last_;
  ncclResult_t status_ = ncclSuccess;
  std::string message_;
  bool ends_ = false, aborted_ = false;
  std::map<int, std::shared_ptr<const Factor>> factors_;
  int next_factor_ = ncclNumOps;
  std::thread thread_;
};

}  // namespace cucpu::nccl
