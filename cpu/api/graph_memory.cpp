// SPDX-License-Identifier: Apache-2.0
// cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute, cuDeviceGraphMemTrim.
#include "cpu/device/guard.hpp"
#include "cpu/graph/graph.hpp"

using namespace cucpu::driver;

namespace {

/// Calls `f` with the counter of an attribute, whether it can be set, and its current value.
template <class F>
CUresult with_count(CUdevice dev, CUgraphMem_attribute attribute, const void* value, F f,
                    const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        require(value != nullptr);
        with_graph_memory_counts(device_of(dev).ordinal, [&](GraphMemoryCounts& c) {
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
      },
      function);
}

}  // namespace

extern "C" {

CUresult cuDeviceGraphMemTrim(CUdevice dev) {
  return guarded([&] { device_of(dev); });  // there is no memory beyond that of nodes
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
