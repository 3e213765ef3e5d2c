// SPDX-License-Identifier: Apache-2.0
// loan.hpp: what the open buffers of one stream and one pool hold together.
#pragma once

#include <cstddef>
#include <memory>

#include "cucore/memory_resource.hpp"
#include "cucore/stream.hpp"
#include "memory_line.hpp"

namespace cucore::python {

/// A buffer holds its stream and its memory resource. The references are counted atomically, and
/// the four steps of that take half of what an allocation adds to the driver's calls. So open
/// buffers that came from one pool on one stream hold both through one of these, whose
/// reference count the GIL protects, and which is destroyed with the last of them.
class Loan {
 public:
  /// For one buffer more. The lock is held.
  static Loan* take(const Stream& stream, const std::shared_ptr<MemoryResource>& resource) {
    Loan* const last = memory_line.last_loan;
    if (last == nullptr || !last->stream.is_same(stream) || last->resource != resource)
      return find_or_make(stream, resource);
    ++last->users_;
    return last;
  }
  /// For one buffer less. The lock is held.
  void give_back() noexcept {
    if (--users_ == 0) [[unlikely]]
      end();
  }
  struct GiveBack {
    void operator()(Loan* loan) const noexcept { loan->give_back(); }
  };

  const Stream stream;
  const std::shared_ptr<MemoryResource> resource;
  // The same for a buffer that has this: names, which count nothing.
  const Stream unheld_stream;
  const std::shared_ptr<MemoryResource> unheld_resource;

 private:
  Loan(const Stream& on, const std::shared_ptr<MemoryResource>& from);
  static Loan* find_or_make(const Stream& stream, const std::shared_ptr<MemoryResource>& resource);
  void end() noexcept;
  // A loop that allocates and frees one buffer makes and destroys one of these each time.
  static void* operator new(std::size_t size);
  static void operator delete(void* memory) noexcept;

  unsigned users_ = 1;
  Loan* next_;
  static constinit Loan* first_;   // all there are
  static constinit void* unused_;  // the memory of one that was destroyed, or null
};

using LoanHolder = std::unique_ptr<Loan, Loan::GiveBack>;

}  // namespace cucore::python
