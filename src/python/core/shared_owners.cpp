// SPDX-License-Identifier: Apache-2.0
// shared_owners.cpp: shared ownership of a stream and a pool by open buffers.
#include "shared_owners.hpp"

#include <new>
#include <utility>

namespace cucore::python {

constinit SharedOwners* SharedOwners::first_ = nullptr;
constinit void* SharedOwners::unused_ = nullptr;
constinit AllocationFastPath allocation_fast_path;

SharedOwners::SharedOwners(const Stream& on, const std::shared_ptr<MemoryResource>& from)
    : stream{on},
      resource{from},
      unheld_stream{on.unheld()},
      unheld_resource{std::shared_ptr<void>{}, from.get()},
      next_{first_} {}

SharedOwners* SharedOwners::find_or_make(const Stream& stream,
                                         const std::shared_ptr<MemoryResource>& resource) {
  for (SharedOwners* owners = first_; owners != nullptr; owners = owners->next_) {
    if (!owners->stream.is_same(stream) || owners->resource != resource) continue;
    ++owners->users_;
    return allocation_fast_path.last_owners = owners;
  }
  return first_ = allocation_fast_path.last_owners = new SharedOwners{stream, resource};
}

void* SharedOwners::operator new(std::size_t size) {
  if (void* const memory = std::exchange(unused_, nullptr)) return memory;
  return ::operator new(size);
}

void SharedOwners::operator delete(void* memory) noexcept {
  if (unused_ == nullptr)
    unused_ = memory;
  else
    ::operator delete(memory);
}

void SharedOwners::end() noexcept {
  SharedOwners** at = &first_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  if (allocation_fast_path.last_owners == this) allocation_fast_path.last_owners = nullptr;
  delete this;  // may destroy the stream and the pool
}

}  // namespace cucore::python
