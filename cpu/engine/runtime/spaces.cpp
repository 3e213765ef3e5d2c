// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/spaces.cpp: the state space of an address (isspacep, getctarank).
#include "cpu/engine/runtime/spaces.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "cpu/engine/run/worker.hpp"

using namespace cucpu;

namespace {

struct Constants {
  std::shared_mutex mutex;
  std::map<std::uint64_t, std::uint64_t> sizes;  ///< by address
};

Constants& constants() {
  static Constants all;
  return all;
}

/// The rank of the block of the running cluster whose shared memory contains `address`; -1: none.
int shared_rank(std::uint64_t address) {
  const Worker* worker = Worker::running();
  if (worker == nullptr) return -1;
  const Block& block = *const_cast<Worker*>(worker)->current().block;
  const auto inside = [&](const std::byte* base) {
    return address - reinterpret_cast<std::uintptr_t>(base) <
           block.context.shared_bytes + std::uint64_t{kSharedPadding};
  };
  if (block.cluster == nullptr) return inside(block.context.shared) ? 0 : -1;
  for (std::size_t rank = 0; rank < block.cluster->shared.size(); ++rank) {
    if (inside(block.cluster->shared[rank])) return static_cast<int>(rank);
  }
  return -1;
}

/// Addresses up to this far below a block's shared memory count as its own: later additions may
/// bring them into bounds.
constexpr std::uint64_t kBelow = std::uint64_t{1} << 20;

}  // namespace

extern "C" {

bool cucpu_rt_is_cluster_shared(std::uint64_t address) { return shared_rank(address) >= 0; }

std::uint32_t cucpu_rt_cluster_rank_of(std::uint64_t address) {
  const int rank = shared_rank(address);
  return rank < 0 ? 0 : static_cast<std::uint32_t>(rank);
}

/// cvta.to.shared::cluster: the offset in this block's shared memory, or that in another block's
/// with its rank (FunctionTranslator::cluster_pointer). Other addresses become an offset from this
/// block's shared memory, where an access faults.
std::uint64_t cucpu_rt_cluster_address(std::uint64_t address) {
  Worker* worker = Worker::running();
  if (worker == nullptr) return address;
  const Block& block = *worker->current().block;
  const auto from = [address](const std::byte* base) {
    return address - reinterpret_cast<std::uintptr_t>(base);
  };
  int rank = shared_rank(address);
  if (rank < 0 && block.cluster != nullptr && !block.cluster->shared.empty() &&
      from(block.cluster->shared[0]) + kBelow < kBelow)
    rank = 0;
  if (rank < 0 || static_cast<std::uint32_t>(rank) == block.context.cluster_rank)
    return from(block.context.shared);
  const auto at = static_cast<std::size_t>(rank);
  return (std::uint64_t{at} + 1) * (std::uint64_t{1} << 24) + from(block.cluster->shared[at]);
}

/// Local variables live on the stack of the running fiber.
bool cucpu_rt_is_local(std::uint64_t address) {
  Worker* worker = Worker::running();
  if (worker == nullptr) return false;
  const Stack& stack = worker->current().stack;
  return address - reinterpret_cast<std::uintptr_t>(stack.base) < stack.size;
}

/// Constant memory is ordinary memory here; only the registered variables belong to it.
bool cucpu_rt_is_constant(std::uint64_t address) {
  const std::shared_lock lock{constants().mutex};
  auto next = constants().sizes.upper_bound(address);
  if (next == constants().sizes.begin()) return false;
  --next;
  return address - next->first < next->second;
}

}  // extern "C"

namespace cucpu {

ConstantVariable::ConstantVariable(const void* address, std::size_t size)
    : address_{reinterpret_cast<std::uintptr_t>(address)} {
  const std::unique_lock lock{constants().mutex};
  constants().sizes[address_] = size;
}

ConstantVariable::~ConstantVariable() {
  if (address_ == 0) return;
  const std::unique_lock lock{constants().mutex};
  constants().sizes.erase(address_);
}

}  // namespace cucpu
