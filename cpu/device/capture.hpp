// cpu/device/capture.hpp: what the rest of the driver must know of stream capture.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

class Event;

/// While the stream is capturing, adds the operation to its graph and answers true; fails when the
/// capture is broken, or when the stream is the legacy default stream and a blocking stream is
/// capturing (906).
bool capture_node(Stream& stream, const Ref<NodeOp>& op);

/// For calls that could not be replayed (allocations, synchronous copies): fails with 900 as the
/// thread's mode says.
void require_capture_safe();

/// For calls that wait for a whole context or stream: 900 while anything of it is captured, and the
/// capture is broken.
void require_not_capturing(Context& context);
void require_not_capturing(Stream& stream);

/// The stream goes away: a capture that began in it is over, others keep what it captured.
void abandon_capture(Stream& stream) noexcept;

}  // namespace cucpu::driver
