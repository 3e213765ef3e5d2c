// SPDX-License-Identifier: Apache-2.0
// device_resources.cpp: device resources and green contexts.
#include "cucore/device_resources.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

std::vector<SMResource> parts_of(const std::vector<CUdevResource>& made) {
  std::vector<SMResource> parts;
  for (const CUdevResource& part : made) parts.emplace_back(part);
  return parts;
}

/// Returns whether all groups have the same size and no other options. Every driver with green
/// contexts can create those.
bool are_plain(std::span<const SMGroupOptions> groups) {
  return std::ranges::all_of(groups, [&](const SMGroupOptions& g) {
    return g.count == groups.front().count && g.coscheduled_sm_count == 0 &&
           g.preferred_coscheduled_sm_count == 0 && !g.backfill;
  });
}

}  // namespace

std::pair<std::vector<SMResource>, SMResource> SMResource::split(
    std::span<const SMGroupOptions> groups) const {
  if (groups.empty()) throw std::invalid_argument{"split() needs at least one group"};
  std::vector<CUdevResource> made(groups.size());
  CUdevResource rest{};
  constexpr int kSplitsByGroups = 13010;
  if (driver_info().version < kSplitsByGroups && are_plain(groups)) {
    auto count = static_cast<unsigned>(groups.size());
    CUCORE_CALL(
        cuDevSmResourceSplitByCount(made.data(), &count, &raw_, &rest, 0, groups.front().count));
    made.resize(count);
    return {parts_of(made), SMResource{rest}};
  }
  std::vector<CU_DEV_SM_RESOURCE_GROUP_PARAMS> params;
  for (const SMGroupOptions& group : groups) {
    CU_DEV_SM_RESOURCE_GROUP_PARAMS p{};
    p.smCount = group.count;
    p.coscheduledSmCount = group.coscheduled_sm_count;
    p.preferredCoscheduledSmCount = group.preferred_coscheduled_sm_count;
    p.flags = group.backfill ? CU_DEV_SM_RESOURCE_GROUP_BACKFILL : 0;
    params.push_back(p);
  }
  CUCORE_CALL(cuDevSmResourceSplit(made.data(), static_cast<unsigned>(made.size()), &raw_, &rest, 0,
                                   params.data()));
  return {parts_of(made), SMResource{rest}};
}

void WorkqueueResource::set_concurrency_limit(long long limit) {
  if (limit < 1 || limit > std::numeric_limits<unsigned>::max()) {
    throw std::invalid_argument{"concurrency_limit must be at least 1, not " +
                                std::to_string(limit)};
  }
  raw_.wqConfig.wqConcurrencyLimit = static_cast<unsigned>(limit);
}

void WorkqueueResource::set_sharing_scope(WorkqueueSharingScope scope) noexcept {
  raw_.wqConfig.sharingScope = static_cast<CUdevWorkqueueConfigScope>(scope);
}

CUdevResource DeviceResources::get(CUdevResourceType type) const {
  CUdevResource out{};
  if (const int* device = std::get_if<int>(&of_)) {
    CUdevice handle = 0;
    CUCORE_CALL(cuDeviceGet(&handle, *device));
    CUCORE_CALL(cuDeviceGetDevResource(handle, &out, type));
  } else if (const Context* context = std::get_if<Context>(&of_)) {
    if (context->is_green()) {
      CUCORE_CALL(cuGreenCtxGetDevResource(context->green_handle(), &out, type));
    } else {
      CUCORE_CALL(cuCtxGetDevResource(context->handle(), &out, type));
    }
  } else {
    CUCORE_CALL(cuStreamGetDevResource(std::get<StreamRef>(of_).handle(), &out, type));
  }
  return out;
}

SMResource DeviceResources::sm() const { return SMResource{get(CU_DEV_RESOURCE_TYPE_SM)}; }

WorkqueueResource DeviceResources::workqueue() const {
  return WorkqueueResource{get(CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)};
}

Context create_context(int device, std::span<const DeviceResource> resources) {
  if (resources.empty()) throw std::invalid_argument{"resources must not be empty"};
  std::vector<CUdevResource> raw;
  for (const DeviceResource& resource : resources)
    raw.push_back(std::visit([](const auto& part) { return part.raw(); }, resource));
  CUdevResourceDesc descriptor = nullptr;
  CUCORE_CALL(
      cuDevResourceGenerateDesc(&descriptor, raw.data(), static_cast<unsigned>(raw.size())));
  return Context::create_green(device, descriptor);
}

}  // namespace cucore
