// Memory of graphs' allocation nodes: it exists as long as the node, and is in use from the node's
// run to its free.
#include <algorithm>
#include <map>
#include <mutex>

#include "api/graph.hpp"
#include "api/guard.hpp"
#include "api/memory.hpp"

namespace cucpu::driver {
namespace {

struct Piece {
  int device;
  std::uint64_t bytes;
  bool in_use = false;
};

/// As cuDeviceGetGraphMemAttribute tells it.
struct Counts {
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};

struct GraphMemory {
  std::mutex mutex;
  std::map<CUdeviceptr, Piece> pieces;
  std::map<int, Counts> counts;

  /// False when no graph allocated the address. Call with the lock held.
  bool set_in_use(CUdeviceptr address, bool on) {
    const auto at = pieces.find(address);
    if (at == pieces.end()) return false;
    Piece& piece = at->second;
    Counts& c = counts[piece.device];
    if (on && !piece.in_use) c.used += piece.bytes;
    if (!on && piece.in_use) c.used -= piece.bytes;
    c.used_high = std::max(c.used_high, c.used);
    piece.in_use = on;
    return true;
  }
};
GraphMemory& graph_memory() {
  static GraphMemory& m = *new GraphMemory;
  return m;
}

}  // namespace

AllocOp::AllocOp(Device& device, const CUDA_MEM_ALLOC_NODE_PARAMS& given)
    : params{given}, memory_{allocate_memory(given.bytesize, 512, &device.budget)} {
  access.assign(given.accessDescs, given.accessDescs + given.accessDescCount);
  params.accessDescs = access.empty() ? nullptr : access.data();
  params.dptr = memory_->base;
  memory_->kind = MemoryKind::pool;
  memory_->device = device.ordinal;
  for (const CUmemAccessDesc& desc : access) {
    if (desc.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        desc.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      continue;
    memory_->readable_by |= std::uint64_t{1} << desc.location.id;
    if (desc.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      memory_->writable_by |= std::uint64_t{1} << desc.location.id;
  }
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  Counts& c = m.counts[device.ordinal];
  m.pieces.emplace(params.dptr, Piece{device.ordinal, given.bytesize});
  try {
    MemoryMap::instance().insert(memory_.record());
  } catch (...) {
    m.pieces.erase(params.dptr);
    throw;
  }
  c.reserved += given.bytesize;
  c.reserved_high = std::max(c.reserved_high, c.reserved);
}

AllocOp::~AllocOp() {
  {
    GraphMemory& m = graph_memory();
    const std::lock_guard lock{m.mutex};
    m.set_in_use(params.dptr, false);
    const auto at = m.pieces.find(params.dptr);
    m.counts[at->second.device].reserved -= at->second.bytes;
    m.pieces.erase(at);
  }
  MemoryMap::instance().take_out(params.dptr);
}

void AllocOp::execute() const {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  m.set_in_use(params.dptr, true);
}

void FreeOp::execute() const { free_graph_memory(address); }

bool free_graph_memory(CUdeviceptr address) {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  return m.set_in_use(address, false);
}

bool is_graph_memory(CUdeviceptr address) {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  return m.pieces.contains(address);
}

bool is_graph_memory_live(CUdeviceptr address) {
  GraphMemory& m = graph_memory();
  const std::lock_guard lock{m.mutex};
  const auto at = m.pieces.find(address);
  return at != m.pieces.end() && at->second.in_use;
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

namespace {

/// The counter an attribute names, under the lock.
template <class F>
CUresult with_count(CUdevice dev, CUgraphMem_attribute attribute, const void* value, F f) {
  return guarded([&] {
    require(value != nullptr);
    const int device = device_of(dev).ordinal;
    GraphMemory& m = graph_memory();
    const std::lock_guard lock{m.mutex};
    Counts& c = m.counts[device];
    switch (attribute) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return f(c.used, false, c.used);
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return f(c.used_high, true, c.used);
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return f(c.reserved, false, c.reserved);
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return f(c.reserved_high, true, c.reserved);
      default:
        fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

}  // namespace

extern "C" {

CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  return guarded([&] { device_of(dev); });  // nothing is kept beyond what nodes have
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void* value) {
  return with_count(dev, attribute, value, [&](std::uint64_t& count, bool, std::uint64_t) {
    *static_cast<cuuint64_t*>(value) = count;
  });
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attribute, void* value) {
  return with_count(dev, attribute, value,
                    [&](std::uint64_t& high, bool settable, std::uint64_t now) {
                      require(settable && *static_cast<const cuuint64_t*>(value) == 0);
                      high = now;
                    });
}

}  // extern "C"
