// SPDX-License-Identifier: Apache-2.0
// Memory of graphs' allocation nodes. For calls on the host it is allocated from a launch to its
// free. The device's counters count it from the launch, as a driver does, to the free that has run.
#include "cpu/device/memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "cpu/device/capture.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

class GraphBlock {
 public:
  GraphBlock(Device& device, std::size_t bytes);
  ~GraphBlock();
  const int device;
  const std::uint64_t bytes;
  OwnedMemory memory;
  bool in_use = false;  ///< counted: launched or allocated, and not freed; guarded by the lock
  std::shared_ptr<GraphBlock>
      allocated;  ///< itself, from a launch to the free; guarded by the lock
};

namespace {

struct GraphMemory {
  std::mutex mutex;
  std::map<CUdeviceptr, std::weak_ptr<GraphBlock>> blocks;
  std::map<int, GraphMemoryCounts> counts;

  std::shared_ptr<GraphBlock> find(CUdeviceptr address) {
    const std::lock_guard lock{mutex};
    const auto at = blocks.find(address);
    return at == blocks.end() ? nullptr : at->second.lock();
  }
  /// Call with the lock held.
  void set_in_use(GraphBlock& block, bool on) {
    GraphMemoryCounts& c = counts[block.device];
    if (on && !block.in_use) c.used += block.bytes;
    if (!on && block.in_use) c.used -= block.bytes;
    c.used_high = std::max(c.used_high, c.used);
    block.in_use = on;
  }
};
GraphMemory& graph_memory() {
  static GraphMemory& m = *new GraphMemory;
  return m;
}

}  // namespace

GraphBlock::GraphBlock(Device& device, std::size_t bytes)
    : device{device.ordinal},
      bytes{bytes},
      memory{allocate_trimming_pools(bytes, 512, device.budget)} {
  memory->kind = MemoryKind::pool;
  memory->device = device.ordinal;
}

GraphBlock::~GraphBlock() {
  const CUdeviceptr address = memory->base;
  GraphMemory& m = graph_memory();
  {
    const std::lock_guard lock{m.mutex};
    if (m.blocks.erase(address) == 0) return;  // it was never registered
    m.set_in_use(*this, false);
    m.counts[device].reserved -= bytes;
  }
  MemoryMap::instance().remove(address);
}

AllocOp::AllocOp(Device& device, const CUDA_MEM_ALLOC_NODE_PARAMS& given)
    : params{given}, block{std::make_shared<GraphBlock>(device, given.bytesize)} {
  access.assign(given.accessDescs, given.accessDescs + given.accessDescCount);
  params.accessDescs = access.empty() ? nullptr : access.data();
  params.dptr = block->memory->base;
  if (given.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
    block->memory->kind = MemoryKind::managed;
  for (const CUmemAccessDesc& desc : access) {
    if (desc.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        desc.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      continue;
    block->memory->readable_by |= std::uint64_t{1} << desc.location.id;
    if (desc.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      block->memory->writable_by |= std::uint64_t{1} << desc.location.id;
  }
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  GraphMemoryCounts& c = m.counts[device.ordinal];
  m.blocks.emplace(params.dptr, block);
  try {
    MemoryMap::instance().insert(block->memory.record());
  } catch (...) {
    m.blocks.erase(params.dptr);
    throw;
  }
  c.reserved += given.bytesize;
  c.reserved_high = std::max(c.reserved_high, c.reserved);
}

void AllocOp::execute() const {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  m.set_in_use(*block, true);
}

FreeOp::FreeOp(CUdeviceptr address) : address{address}, block{graph_memory().find(address)} {
  require(block != nullptr);
}

void FreeOp::execute() const {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  m.set_in_use(*block, false);
}

MemoryNodes::MemoryNodes(const Plan& plan) {
  collect(plan);
  const std::set<std::shared_ptr<GraphBlock>> own{allocated_.begin(), allocated_.end()};
  for (const auto& block : freed_)
    if (!own.contains(block)) of_others_.push_back(block.get());
}

void MemoryNodes::collect(const Plan& plan) {
  for (const Plan::Step& step : plan.steps) {
    for (const auto& body : step.bodies)
      if (body->has_memory) collect(*body);
    if (step.op->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      allocated_.push_back(static_cast<const AllocOp&>(*step.op).block);
      uses_.emplace_back(allocated_.back().get(), true);
    }
    if (step.op->type() == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      freed_.push_back(static_cast<const FreeOp&>(*step.op).block);
      uses_.emplace_back(freed_.back().get(), false);
    }
  }
}

void MemoryNodes::check(bool auto_free) const {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  for (const auto& block : allocated_)
    require(auto_free ||
            !block->allocated);  // with auto_free, the launch takes over the memory of the last one
  for (const GraphBlock* block : of_others_) require(block->allocated != nullptr);
}

void MemoryNodes::launch() const noexcept {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  for (const auto& block : allocated_) block->allocated = block;
  for (const auto& block : freed_) block->allocated = nullptr;
  for (const auto& [block, is_allocated] : uses_) m.set_in_use(*block, is_allocated);
}

void with_graph_memory_counts(int device, const std::function<void(GraphMemoryCounts&)>& f) {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  f(m.counts[device]);
}

bool free_graph_memory(CUdeviceptr address, Stream* stream) {
  GraphMemory& m = graph_memory();
  std::shared_ptr<GraphBlock> block = m.find(address);
  if (!block) return false;
  if (!stream) {
    require_capture_safe();
    current_context().synchronize();
  }
  {
    const std::lock_guard lock{m.mutex};
    require(std::exchange(block->allocated, nullptr) != nullptr);
  }
  const auto end = [block] {
    GraphMemory& all = graph_memory();
    const std::lock_guard lock{all.mutex};
    all.set_in_use(*block, false);
  };
  if (!stream) {
    end();
    return true;
  }
  try {
    stream->submit(make_object<CallOp>(end, true));
  } catch (...) {
    const std::lock_guard lock{m.mutex};
    block->allocated = block;
    throw;
  }
  return true;
}

}  // namespace cucpu::driver
