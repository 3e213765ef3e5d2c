// cpu/api/graph_capture.hpp: recording and waiting for events inside a capture.
#pragma once

#include "api/event.hpp"

namespace cucpu::driver {

/// Both answer true when the stream is (or becomes) part of a capture and nothing is left to do.
bool capture_record(Stream& stream, Event& event, bool external);
bool capture_wait(Stream& stream, Event& event, bool external);

}  // namespace cucpu::driver
