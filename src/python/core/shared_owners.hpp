// SPDX-License-Identifier: Apache-2.0
// shared_owners.hpp: shared ownership of a stream and a pool by open buffers.
#pragma once

#include <cstddef>
#include <memory>

#include "allocation_fast_path.hpp"
#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"

namespace cucore::python {

/// A buffer owns references to its stream and its memory resource. The four atomic updates of their
/// reference counts would be half of the overhead of an allocation over the driver's calls.
/// Therefore open buffers from one pool on one stream share a SharedOwners, which owns both. The
/// GIL protects its reference count; it is destroyed with the last of the buffers.
class SharedOwners {
 public:
  /// Adds a reference for a buffer. Requires the GIL.
  static SharedOwners* acquire(const Stream& stream,
                               const std::shared_ptr<MemoryResource>& resource) {
    SharedOwners* const last = allocation_fast_path.last_owners;
    if (last == nullptr || !last->stream.is_same(stream) || last->resource != resource)
      return find_or_make(stream, resource);
    ++last->users_;
    return last;
  }
  /// Releases the reference of a buffer. Requires the GIL.
  void release() noexcept {
    if (--users_ == 0) [[unlikely]]
      end();
  }
  struct Release {
    void operator()(SharedOwners* owners) const noexcept { owners->release(); }
  };

  const Stream stream;
  const std::shared_ptr<MemoryResource> resource;
  // Non-owning copies for buffers with a reference to this object.
  const Stream unheld_stream;
  const std::shared_ptr<MemoryResource> unheld_resource;

 private:
  SharedOwners(const Stream& on, const std::shared_ptr<MemoryResource>& from);
  static SharedOwners* find_or_make(const Stream& stream,
                                    const std::shared_ptr<MemoryResource>& resource);
  void end() noexcept;
  // A loop that allocates and frees one buffer makes and destroys one of these each time.
  static void* operator new(std::size_t size);
  static void operator delete(void* memory) noexcept;

  unsigned users_ = 1;
  SharedOwners* next_;
  static constinit SharedOwners* first_;  // list of all of them
  static constinit void* unused_;         // the memory of a destroyed one, or null
};

using SharedOwnersRef = std::unique_ptr<SharedOwners, SharedOwners::Release>;

}  // namespace cucore::python
