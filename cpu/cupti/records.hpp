// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/records.hpp: activity records of what the driver tells.
#pragma once

#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {

/// Records of work that has ended.
void add_record(const trace::Work& work) noexcept;
/// Records of a call that has ended: the call itself, and what it is: a synchronization, an
/// allocation, a new stream.
void add_record(const trace::ApiCall& call, std::uint32_t callback_id);
/// The numbers of the program that belong to the calls of this thread now.
void add_external_correlations(std::uint32_t correlation);
/// A context that is seen for the first time. True if it was.
bool add_context(const struct CurrentContext& context, const trace::ApiCall& call);
/// A record for each device.
void add_device_records();
/// Records of objects of this kind that are known already.
void add_existing(CUpti_ActivityKind kind);

}  // namespace cucpu::cupti
