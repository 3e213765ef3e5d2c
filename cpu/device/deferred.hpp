// SPDX-License-Identifier: Apache-2.0
// cpu/device/deferred.hpp: deferred release: objects that queued work may still use.
#pragma once

#include <memory>

namespace cucpu::driver {

/// Releases `thing` when all work that any stream of the process has queued now is complete: at
/// once when nothing is queued, otherwise in a later call that waits for work or that defers or
/// releases an object. Throws std::bad_alloc; the caller then still has its reference.
void release_after_queued_work(std::shared_ptr<void> thing);

/// Releases the deferred objects whose work is complete.
void release_deferred() noexcept;

}  // namespace cucpu::driver
