// SPDX-License-Identifier: Apache-2.0
// cpu/device/green_context.hpp: green contexts: contexts with a share of the host's cores.
#pragma once

#include <vector>

#include "cpu/device/context.hpp"

namespace cucpu::driver {

class ResourceDesc final : public Handled<ResourceDesc, CUdevResourceDesc, Kind::resource_desc> {
 public:
  std::vector<CUdevResource> resources;
};

class GreenContext final : public Handled<GreenContext, CUgreenCtx, Kind::green_context> {
 public:
  std::vector<CUdevResource> resources;
  Ref<Context> context;
};

}  // namespace cucpu::driver
