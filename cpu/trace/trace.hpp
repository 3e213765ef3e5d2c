// SPDX-License-Identifier: Apache-2.0
// cpu/trace/trace.hpp: the timeline (CUCORE_TRACE): what host threads and streams do, as trace
// events of Chrome and Perfetto. Below all other folders: each of them may record.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "cpu/trace/observer.hpp"
#include "cpu/trace/parameters.hpp"

namespace cucpu::trace {

/// The consumers of events.
enum Use : unsigned { kTimeline = 1, kObserver = 2 };
extern std::atomic<unsigned> g_uses;

/// Whether there is a consumer: the only cost of the timeline and of CUPTI while both are off.
inline bool is_on() noexcept { return g_uses.load(std::memory_order_relaxed) != 0; }
inline bool has(Use use) noexcept { return g_uses.load(std::memory_order_relaxed) & use; }

/// Records from now on, if CUCORE_TRACE names a file or a folder. Once per process.
void start_from_environment();

std::int64_t now() noexcept;  ///< nanoseconds of the monotonic clock, which all processes share

/// Where an event is shown: the calling host thread, or a stream.
using Track = std::uint64_t;
inline constexpr Track kThisThread = 0;
/// `lane`: the branch of a graph that runs in the stream; 0 for the stream itself.
constexpr Track stream_track(std::uint64_t stream, unsigned lane = 0) noexcept {
  return stream << 12 | (lane & 0xfff);
}
constexpr std::uint64_t stream_of(Track track) noexcept { return track >> 12; }
void name_stream(std::uint64_t stream, const std::string& name);

/// The members of a JSON object.
class Arguments {
 public:
  Arguments& add(std::string_view name, std::uint64_t number);
  Arguments& add(std::string_view name, std::string_view text);
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  void key(std::string_view name);
  std::string json_;
};

/// What an event is called.
struct Label {
  const char* category = "";
  std::string name;
  Arguments arguments{};
  Work work{};  ///< for an observer: what an operation does
};

/// Records what happened from `begin` to `end`.
void add_span(Track, Label, std::int64_t begin, std::int64_t end) noexcept;
void add_instant(Track, Label) noexcept;
/// The value of a quantity from now on.
void add_counter(const std::string& name, std::uint64_t value) noexcept;
/// An arrow from the enclosing span of this thread to the span on another track that calls
/// end_arrow() with the same number.
void begin_arrow(std::uint64_t number, std::int64_t time) noexcept;
void end_arrow(Track, std::uint64_t number, std::int64_t time) noexcept;
/// A range that may end on another thread.
void begin_range(std::uint64_t number, Label) noexcept;
void end_range(std::uint64_t number, Label) noexcept;

/// The time from construction to destruction, on this thread.
class Scope {
 public:
  Scope(const char* category, std::string_view name) : begin_{is_on() ? now() : 0} {
    if (begin_ != 0) [[unlikely]]
      label_ = {category, std::string{name}};
  }
  ~Scope() {
    if (begin_ != 0) [[unlikely]]
      add_span(kThisThread, std::move(label_), begin_, now());
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  /// Requires is_on().
  Arguments& arguments() { return label_.arguments; }

 private:
  std::int64_t begin_;
  Label label_;
};

/// A call of the driver API.
class Call {
 public:
  explicit Call(const char* function) noexcept {
    if (is_on()) [[unlikely]]
      enter(function, nullptr);
  }
  /// `parameters`: those of the call, in the order and with the layout of a struct of them.
  template <class... P>
  Call(const char* function, const Parameters<P...>& parameters) noexcept {
    if (is_on()) [[unlikely]]
      enter(function, parameters.pack(packed_));
  }
  ~Call() {
    if (begin_ != 0) [[unlikely]]
      leave();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  void set_result(int code) noexcept { code_ = code; }

 private:
  void enter(const char* function, const void* parameters) noexcept;
  void leave() noexcept;
  std::int64_t begin_ = 0;
  int code_ = 0;
  // With a value only while begin_ is not 0.
  bool is_observed_;
  ApiCall call_;
  PackedParameters packed_;
};

}  // namespace cucpu::trace
