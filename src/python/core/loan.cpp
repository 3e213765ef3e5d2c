// SPDX-License-Identifier: Apache-2.0
// loan.cpp: shared ownership of a stream and a pool by open buffers.
#include "loan.hpp"

#include <new>
#include <utility>

namespace cucore::python {

constinit Loan* Loan::first_ = nullptr;
constinit void* Loan::unused_ = nullptr;
constinit MemoryLine memory_line;

Loan::Loan(const Stream& on, const std::shared_ptr<MemoryResource>& from)
    : stream{on},
      resource{from},
      unheld_stream{on.unheld()},
      unheld_resource{std::shared_ptr<void>{}, from.get()},
      next_{first_} {}

Loan* Loan::find_or_make(const Stream& stream, const std::shared_ptr<MemoryResource>& resource) {
  for (Loan* loan = first_; loan != nullptr; loan = loan->next_) {
    if (!loan->stream.is_same(stream) || loan->resource != resource) continue;
    ++loan->users_;
    return memory_line.last_loan = loan;
  }
  return first_ = memory_line.last_loan = new Loan{stream, resource};
}

void* Loan::operator new(std::size_t size) {
  if (void* const memory = std::exchange(unused_, nullptr)) return memory;
  return ::operator new(size);
}

void Loan::operator delete(void* memory) noexcept {
  if (unused_ == nullptr)
    unused_ = memory;
  else
    ::operator delete(memory);
}

void Loan::end() noexcept {
  Loan** at = &first_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  if (memory_line.last_loan == this) memory_line.last_loan = nullptr;
  delete this;  // may destroy the stream and the pool
}

}  // namespace cucore::python
