// cuLogs*: keeps the last messages and hands new ones to the callbacks.
#include "cpu/base/log.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/device/guard.hpp"

struct CUlogsCallbackEntry_st {
  CUlogsCallback function;
  void* data;
};

namespace cucpu::driver {
namespace {

constexpr std::size_t kKept = 256;

struct Log {
  std::recursive_mutex mutex;  // a callback may log, and unregister itself or others
  std::deque<std::string> lines;
  unsigned first = 0;  // number of the oldest line kept
  std::vector<CUlogsCallbackEntry_st*> callbacks;
};

Log& the_log() {
  static Log& log = *new Log;  // leaked: used until the process is gone
  return log;
}

/// The text after the iterator, and the iterator moved to the end.
std::string text_since(CUlogIterator* iterator) {
  Log& log = the_log();
  const std::lock_guard lock{log.mutex};
  const unsigned end = log.first + static_cast<unsigned>(log.lines.size());
  unsigned at = iterator ? *iterator : log.first;
  if (at < log.first || at > end) at = log.first;
  std::string text;
  for (; at < end; ++at) text += log.lines[at - log.first] + '\n';
  if (iterator) *iterator = end;
  return text;
}

}  // namespace

void log_message(CUlogLevel level, std::string_view text) noexcept {
  try {
    Log& log = the_log();
    const std::lock_guard lock{log.mutex};
    log.lines.emplace_back(text);
    if (log.lines.size() > kKept) {
      log.lines.pop_front();
      ++log.first;
    }
    thread_local bool telling = false;  // what a callback's own calls log is kept, not told
    if (telling || log.callbacks.empty()) return;
    std::string copy{text};
    const std::vector all{log.callbacks};
    telling = true;
    for (CUlogsCallbackEntry_st* entry : all)
      if (std::find(log.callbacks.begin(), log.callbacks.end(), entry) != log.callbacks.end())
        entry->function(entry->data, level, copy.data(), copy.size());
    telling = false;
  } catch (...) {
  }
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

extern "C" {

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void* data, CUlogsCallbackHandle* out) {
  return guarded_without_init([&] {
    require(callback && out);
    Log& log = the_log();
    const std::lock_guard lock{log.mutex};
    *out = log.callbacks.emplace_back(new CUlogsCallbackEntry_st{callback, data});
  });
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return guarded_without_init([&] {
    Log& log = the_log();
    const std::lock_guard lock{log.mutex};
    const auto at = std::find(log.callbacks.begin(), log.callbacks.end(), callback);
    require(at != log.callbacks.end());
    log.callbacks.erase(at);
    delete callback;
  });
}

CUresult cuLogsCurrent(CUlogIterator* out, unsigned int flags) {
  return guarded_without_init([&] {
    require(out && flags == 0);
    Log& log = the_log();
    const std::lock_guard lock{log.mutex};
    *out = log.first + static_cast<unsigned>(log.lines.size());
  });
}

CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned int flags) {
  return guarded_without_init([&] {
    require(path && flags == 0);
    std::FILE* file = std::fopen(path, "w");
    require(file != nullptr);
    const std::string text = text_since(iterator);
    const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    require((std::fclose(file) == 0) & good, CUDA_ERROR_OPERATING_SYSTEM);
  });
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size,
                            unsigned int flags) {
  return guarded_without_init([&] {
    require(buffer && size && *size > 0 && flags == 0);
    std::string text = text_since(iterator);
    if (text.size() + 1 > *size) text.erase(0, text.size() + 1 - *size);  // the newest part fits
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
  });
}

}  // extern "C"
