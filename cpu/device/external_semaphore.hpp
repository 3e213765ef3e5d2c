// SPDX-License-Identifier: Apache-2.0
// cpu/device/external_semaphore.hpp: imported semaphores and their operations in streams and
// graphs.
#pragma once

#include <atomic>
#include <vector>

#include "cpu/device/context.hpp"
#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

/// An imported semaphore. An opaque descriptor is an eventfd (a binary or counting semaphore); a
/// timeline semaphore is a file whose first eight bytes are the counter.
class ExternalSemaphore final
    : public Handled<ExternalSemaphore, CUexternalSemaphore, Kind::external_semaphore> {
 public:
  static Ref<ExternalSemaphore> import_binary(int fd);  ///< owns the descriptor on success
  static Ref<ExternalSemaphore> import_timeline(int fd);
  ~ExternalSemaphore() override;

  void signal(unsigned long long value) const;
  [[nodiscard]] bool try_wait(
      unsigned long long value) const;  ///< true consumes the signal of a binary semaphore

 private:
  friend Ref<ExternalSemaphore> make_object<ExternalSemaphore>(int&,
                                                               std::atomic<unsigned long long>*&&);
  ExternalSemaphore(int fd, std::atomic<unsigned long long>* counter)
      : fd_{fd}, counter_{counter} {}
  int fd_;
  std::atomic<unsigned long long>* counter_;  // null for a binary semaphore
};

/// Signals or waits for several semaphores; Params is CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS or
/// ..._WAIT_PARAMS.
template <class Params, CUgraphNodeType Type>
class SemaphoresOp final : public NodeOp {
 public:
  SemaphoresOp(const CUexternalSemaphore* semaphores, const Params* list, unsigned count) {
    require((semaphores && list) || count == 0);
    for (unsigned i = 0; i < count; ++i) {
      require(list[i].flags == 0);
      objects.emplace_back(&object_of<ExternalSemaphore>(semaphores[i]));
      handles.push_back(semaphores[i]);
      params.push_back(list[i]);
    }
  }
  CUgraphNodeType type() const noexcept override { return Type; }
  Progress run(Task& task) override;

  std::vector<Ref<ExternalSemaphore>> objects;
  std::vector<CUexternalSemaphore> handles;
  std::vector<Params> params;
};
using SignalSemaphoresOp =
    SemaphoresOp<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL>;
using WaitSemaphoresOp =
    SemaphoresOp<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT>;

}  // namespace cucpu::driver
