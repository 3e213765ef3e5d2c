// SPDX-License-Identifier: Apache-2.0
// The last messages of the driver, and the callbacks that receive new ones.
#include "cpu/base/log.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

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
  static Log& log = *new Log;  // never destroyed: used until the process ends
  return log;
}

}  // namespace

std::string log_text_since(CUlogIterator* iterator) {
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

CUlogsCallbackHandle register_log_callback(CUlogsCallback callback, void* data) {
  Log& log = the_log();
  const std::lock_guard lock{log.mutex};
  return log.callbacks.emplace_back(new CUlogsCallbackEntry_st{callback, data});
}

bool unregister_log_callback(CUlogsCallbackHandle callback) noexcept {
  Log& log = the_log();
  const std::lock_guard lock{log.mutex};
  const auto at = std::find(log.callbacks.begin(), log.callbacks.end(), callback);
  if (at == log.callbacks.end()) return false;
  log.callbacks.erase(at);
  delete callback;
  return true;
}

CUlogIterator log_end() {
  Log& log = the_log();
  const std::lock_guard lock{log.mutex};
  return log.first + static_cast<unsigned>(log.lines.size());
}

void log_message(CUlogLevel level, std::string_view text) noexcept {
  try {
    Log& log = the_log();
    const std::lock_guard lock{log.mutex};
    log.lines.emplace_back(text);
    if (log.lines.size() > kKept) {
      log.lines.pop_front();
      ++log.first;
    }
    thread_local bool in_callback =
        false;  // messages of calls made by a callback are stored, but no callback gets them
    if (in_callback || log.callbacks.empty()) return;
    std::string copy{text};
    const std::vector all{log.callbacks};
    in_callback = true;
    for (CUlogsCallbackEntry_st* entry : all)
      if (std::find(log.callbacks.begin(), log.callbacks.end(), entry) != log.callbacks.end())
        entry->function(entry->data, level, copy.data(), copy.size());
    in_callback = false;
  } catch (...) {
  }
}

}  // namespace cucpu::driver
