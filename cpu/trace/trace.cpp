// SPDX-License-Identifier: Apache-2.0
// cpu/trace/trace.cpp: buffers of host threads, and the file. The JSON array format of trace events
// needs no end, so a trace of a process that was killed can be read, too.
#include "cpu/trace/trace.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace cucpu::trace {

std::atomic<unsigned> g_uses{0};

namespace {

constexpr std::size_t kBuffered = 4096;  ///< events of a thread before they are written
constexpr int kDeviceProcess = 1 << 24;  ///< streams are shown as threads of a process of their own

struct Event {
  char phase;
  Track track = kThisThread;
  std::int64_t time = 0, duration = 0;
  std::uint64_t number = 0;
  Label label{};
};

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_number(std::string& out, long long number) { out += std::to_string(number); }

/// Microseconds with three decimals.
void append_time(std::string& out, std::int64_t nanoseconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  out += text;
}

class Writer {
 public:
  static Writer& get() {
    static Writer& writer = *new Writer;  // host threads end after static destructors
    return writer;
  }

  /// False if the file cannot be written.
  bool open_file(const std::string& path) {
    struct stat info {};
    std::string name = path;
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      name.append("/").append(std::to_string(getpid())).append(".json");
    file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    // Another process of the same program writes to the file: this one takes its own.
    if (file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0) {
      ::close(file_);
      name.append(".").append(std::to_string(getpid()));
      file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    }
    if (file_ < 0 || ftruncate(file_, 0) != 0) return false;
    owner_ = getpid();
    std::string text = "[\n";
    process_name(text, getpid(), program());
    process_name(text, getpid() + kDeviceProcess, "CPU device: streams of " + program());
    write_all(text);
    return true;
  }

  void write(std::string text, const std::vector<Event>& events) {
    if (getpid() != owner_) return;  // a forked child has the events of its parent
    const std::lock_guard lock{mutex_};
    for (const Event& event : events)
      if (event.track != kThisThread && named_.insert(event.track).second)
        name_track(text, event.track);
    write_all(text);
  }

  void set_stream_name(std::uint64_t stream, const std::string& name) {
    const std::lock_guard lock{mutex_};
    if (streams_.size() <= stream) streams_.resize(stream + 1);
    streams_[stream] = name;
  }

 private:
  static std::string program() {
    std::string name{program_invocation_short_name};
    return name + " (process " + std::to_string(getpid()) + ")";
  }

  static void process_name(std::string& out, int process, const std::string& name) {
    out += R"({"ph":"M","name":"process_name","pid":)";
    append_number(out, process);
    out += R"(,"args":{"name":)";
    append_quoted(out, name);
    out += "}},\n";
  }

  void name_track(std::string& out, Track track) {
    const std::uint64_t stream = track >> 12;
    const unsigned lane = track & 0xfff;
    std::string name = stream < streams_.size() ? streams_[stream] : std::string{};
    if (name.empty()) name = "stream " + std::to_string(stream);
    if (lane != 0) name += ", branch " + std::to_string(lane);
    for (const bool sort : {false, true}) {
      out += sort ? R"({"ph":"M","name":"thread_sort_index","pid":)"
                  : R"({"ph":"M","name":"thread_name","pid":)";
      append_number(out, getpid() + kDeviceProcess);
      out += R"(,"tid":)";
      append_number(out, static_cast<long long>(track));
      out += sort ? R"(,"args":{"sort_index":)" : R"(,"args":{"name":)";
      if (sort)
        append_number(out, static_cast<long long>(track));
      else
        append_quoted(out, name);
      out += "}},\n";
    }
  }

  void write_all(std::string_view text) {
    while (!text.empty() && file_ >= 0) {
      const ssize_t n = ::write(file_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        std::fprintf(stderr, "cucore: CUCORE_TRACE: cannot write: %s\n", std::strerror(errno));
        file_ = -1;
        return;
      }
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  std::mutex mutex_;
  int file_ = -1;
  int owner_ = 0;  ///< the process that opened the file
  std::set<Track> named_;
  std::vector<std::string> streams_;
};

/// The events of one host thread. Its own thread adds to it; exit() writes all.
class Buffer {
 public:
  Buffer() : thread_{static_cast<int>(syscall(SYS_gettid))} {
    const std::lock_guard lock{all_mutex()};
    all().insert(this);
  }
  ~Buffer() {
    flush();
    const std::lock_guard lock{all_mutex()};
    all().erase(this);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void add(Event event) {
    std::unique_lock lock{mutex_};
    events_.push_back(std::move(event));
    if (events_.size() < kBuffered) return;
    lock.unlock();
    flush();
  }

  void flush() {
    std::vector<Event> events;
    {
      const std::lock_guard lock{mutex_};
      events.swap(events_);
    }
    if (events.empty()) return;
    std::string text;
    if (!named_) name_thread(text);
    for (const Event& event : events) append(text, event);
    Writer::get().write(std::move(text), events);
  }

  static void flush_all() {
    const std::lock_guard lock{all_mutex()};
    for (Buffer* buffer : all()) buffer->flush();
  }

 private:
  static std::mutex& all_mutex() {
    static std::mutex& mutex = *new std::mutex;
    return mutex;
  }
  static std::set<Buffer*>& all() {
    static std::set<Buffer*>& buffers = *new std::set<Buffer*>;
    return buffers;
  }

  void name_thread(std::string& out) {
    named_ = true;
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (thread_ == getpid()) std::snprintf(name, sizeof name, "main thread");
    out += R"({"ph":"M","name":"thread_name","pid":)";
    append_number(out, getpid());
    out += R"(,"tid":)";
    append_number(out, thread_);
    out += R"(,"args":{"name":)";
    append_quoted(out, name);
    out += "}},\n";
  }

  void append(std::string& out, const Event& event) const {
    const bool on_stream = event.track != kThisThread;
    out += R"({"ph":")";
    out += event.phase;
    out += R"(","pid":)";
    append_number(out, on_stream ? getpid() + kDeviceProcess : getpid());
    out += R"(,"tid":)";
    append_number(out, on_stream ? static_cast<long long>(event.track) : thread_);
    out += R"(,"ts":)";
    append_time(out, event.time);
    if (event.phase == 'X') {
      out += R"(,"dur":)";
      append_time(out, event.duration);
    }
    if (event.phase == 'i') out += R"(,"s":"t")";
    if (event.phase == 'f') out += R"(,"bp":"e")";
    if (event.number != 0) {
      out += R"(,"id":)";
      append_number(out, static_cast<long long>(event.number));
    }
    out += R"(,"cat":)";
    append_quoted(out, event.label.category);
    out += R"(,"name":)";
    append_quoted(out, event.label.name);
    if (!event.label.arguments.json().empty())
      out.append(R"(,"args":{)").append(event.label.arguments.json()).append("}");
    out += "},\n";
  }

  const int thread_;
  bool named_ = false;
  std::mutex mutex_;
  std::vector<Event> events_;
};

/// Calls that handlers of exit() make come after the thread's own objects are destroyed.
thread_local bool t_has_ended = false;

struct ThreadBuffer {
  ~ThreadBuffer() { t_has_ended = true; }
  Buffer buffer;
};

void record(Event event) noexcept try {
  if (t_has_ended || !has(kTimeline)) return;
  static thread_local ThreadBuffer thread;
  thread.buffer.add(std::move(event));
} catch (...) {  // no memory: the event is lost
}

void at_exit() {
  g_uses.fetch_and(~static_cast<unsigned>(kTimeline));
  Buffer::flush_all();
}

}  // namespace

std::int64_t now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void start_from_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* const path = std::getenv("CUCORE_TRACE");
    if (!path || !*path) return;
    if (!Writer::get().open_file(path)) {
      std::fprintf(stderr, "cucore: CUCORE_TRACE=%s: cannot write: %s\n", path,
                   std::strerror(errno));
      return;
    }
    std::atexit(at_exit);
    g_uses.fetch_or(kTimeline);
  });
}

void name_stream(std::uint64_t stream, const std::string& name) {
  Writer::get().set_stream_name(stream, name);
}

void Arguments::key(std::string_view name) {
  if (!json_.empty()) json_ += ',';
  append_quoted(json_, name);
  json_ += ':';
}

Arguments& Arguments::add(std::string_view name, std::uint64_t number) {
  key(name);
  json_ += std::to_string(number);
  return *this;
}

Arguments& Arguments::add(std::string_view name, std::string_view text) {
  key(name);
  append_quoted(json_, text);
  return *this;
}

void add_span(Track track, Label label, std::int64_t begin, std::int64_t end) noexcept {
  record({'X', track, begin, end - begin, 0, std::move(label)});
}

void add_instant(Track track, Label label) noexcept {
  record({'i', track, now(), 0, 0, std::move(label)});
}

void add_counter(const std::string& name, std::uint64_t value) noexcept try {
  Label label{"memory", name};
  label.arguments.add("bytes", value);
  record({'C', kThisThread, now(), 0, 0, std::move(label)});
} catch (...) {
}

void begin_arrow(std::uint64_t number, std::int64_t time) noexcept {
  record({'s', kThisThread, time, 0, number, {"queue", "queued"}});
}

void end_arrow(Track track, std::uint64_t number, std::int64_t time) noexcept {
  record({'f', track, time, 0, number, {"queue", "queued"}});
}

void begin_range(std::uint64_t number, Label label) noexcept {
  record({'b', kThisThread, now(), 0, number, std::move(label)});
}

void end_range(std::uint64_t number, Label label) noexcept {
  record({'e', kThisThread, now(), 0, number, std::move(label)});
}

void Call::enter(const char* function, const void* parameters) noexcept {
  call_ = ApiCall{function, parameters, false, 0, 0, 0, 0, 0};
  is_observed_ = begin_call(call_);
  begin_ = now();
}

void Call::leave() noexcept try {
  const std::int64_t end = now();
  if (is_observed_) {
    call_.begin = begin_, call_.end = end, call_.result = code_;
    end_call(call_);
  }
  if (!has(kTimeline)) return;
  Label label{"api", call_.function};
  if (code_ != 0) label.arguments.add("result", static_cast<std::uint64_t>(code_));
  add_span(kThisThread, std::move(label), begin_, end);
} catch (...) {
}

}  // namespace cucpu::trace

extern "C" {

/// For layers above the driver API: records what this thread did from `begin` to now. Returns the
/// current time in nanoseconds; 0 if the process does not record. A null name records nothing.
__attribute__((visibility("default"))) long long cucoreTrace(const char* category, const char* name,
                                                             long long begin) {
  using namespace cucpu::trace;
  start_from_environment();  // programs are compiled before cuInit, too
  if (!is_on()) return 0;
  const std::int64_t end = now();
  try {
    static std::set<std::string>& categories = *new std::set<std::string>;
    static std::mutex& mutex = *new std::mutex;
    if (name) {
      const std::lock_guard lock{mutex};
      add_span(kThisThread, {categories.emplace(category).first->c_str(), name}, begin, end);
    }
  } catch (...) {
  }
  return end;
}

}  // extern "C"
