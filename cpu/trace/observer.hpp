// SPDX-License-Identifier: Apache-2.0
// cpu/trace/observer.hpp: what CUPTI (cpu/cupti) is told: calls of the API, and the work of
// streams. Both libraries are built together; `size` of the Observer guards against another build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cucpu::trace {

/// Work of a stream that has ended. Times are those of now().
struct Work {
  enum class Kind : std::uint32_t { other, kernel, copy, fill, graph };
  enum class Place : std::uint8_t { unknown, pageable, pinned, device, array, managed };
  Kind kind = Kind::other;
  std::uint32_t correlation = 0;  ///< of the call that queued it
  std::int64_t begin = 0, end = 0;
  std::uint64_t stream = 0, context = 0;  ///< their ids
  int device = 0;
  bool in_graph = false;
  // kernels
  const char* name = nullptr;  ///< its symbol; valid during the call
  std::uint32_t grid[3]{}, block[3]{}, cluster[3]{};
  std::uint32_t static_shared = 0, dynamic_shared = 0, registers = 0, local_bytes = 0;
  // copies and fills
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;
  Place source = Place::unknown, destination = Place::unknown;
  bool asynchronous = true;
};

/// A call of the driver API, or of the runtime API, on the calling thread. Without initializers:
/// every call makes one, also without an observer.
struct ApiCall {
  const char* function;    ///< its symbol
  const void* parameters;  ///< a struct of them; null where they are not known
  bool is_runtime;
  std::uint32_t correlation;
  std::int64_t begin, end;
  int result;
  std::uint64_t data;  ///< of the observer, from begin to end
};

struct Observer {
  std::size_t size = sizeof(Observer);
  void (*call_begins)(ApiCall&) noexcept = nullptr;
  void (*call_ended)(ApiCall&) noexcept = nullptr;
  void (*work_ended)(const Work&) noexcept = nullptr;
};

/// One observer at a time, which lives as long as the process; null removes it. False if another
/// observes.
bool observe(const Observer* observer) noexcept;

/// The outermost call of this thread that is observed gets its correlation and is told to the
/// observer. False for all others.
bool begin_call(ApiCall&) noexcept;
void end_call(ApiCall&) noexcept;

/// Work is queued by the current call of this thread; `number` names it.
void note_queued(std::uint64_t number) noexcept;
/// The correlation of work that starts: of the call that has queued it, or, for a node of a graph,
/// of the graph that runs in the stream, or of the current call of this thread.
[[nodiscard]] std::uint32_t start_work(std::uint64_t number, std::uint64_t stream,
                                       bool is_graph) noexcept;
/// Tells the observer.
void end_work(const Work&) noexcept;
/// Whether a graph runs in the stream now.
[[nodiscard]] bool is_in_graph(std::uint64_t stream) noexcept;

}  // namespace cucpu::trace
