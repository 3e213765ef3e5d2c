// cpu/device/deferred.hpp: things that end once the work queued before is over.
#pragma once

#include <memory>

namespace cucpu::driver {

/// Lets go of `thing` when all work that any stream of the process has queued now is over: at once
/// when nothing is queued, otherwise in a later call that waits for work, or that defers or ends
/// something. Throws std::bad_alloc, and the caller still has its reference then.
void after_queued_work(std::shared_ptr<void> thing);

/// Lets go of what waited for work that is over by now.
void end_what_is_over() noexcept;

}  // namespace cucpu::driver
