// SPDX-License-Identifier: Apache-2.0
// Finds the processes that use the device: those of this user with a usage page
// (cpu/mem/usage.hpp), through /proc.
#include "cpu/mem/usage.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "cpu/nvml/nvml.hpp"

namespace cucpu::nvml {
namespace {

struct Folder {
  explicit Folder(const std::string& path) : handle{opendir(path.c_str())} {}
  ~Folder() {
    if (handle) closedir(handle);
  }
  template <class F>
  void each_number(F f) const {
    if (!handle) return;
    while (const dirent* entry = readdir(handle)) {
      char* end = nullptr;
      const unsigned long number = std::strtoul(entry->d_name, &end, 10);
      if (end != entry->d_name && *end == '\0') f(static_cast<unsigned>(number));
    }
  }
  DIR* handle;
};

struct Page {
  unsigned pid;
  unsigned long long bytes, contexts;
};

/// The usage pages of all readable processes for one device. A forked child shares the page of its
/// parent, which counts once.
std::vector<Page> pages(int device) {
  std::vector<Page> found;
  std::set<std::pair<dev_t, ino_t>> seen;
  const std::string wanted = std::string{"/memfd:"} + driver::kUsageName;
  Folder{"/proc"}.each_number([&](unsigned pid) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    Folder{folder}.each_number([&](unsigned number) {
      const std::string path = folder + "/" + std::to_string(number);
      char target[64];
      const ssize_t length = readlink(path.c_str(), target, sizeof target);
      if (length < static_cast<ssize_t>(wanted.size()) ||
          wanted.compare(0, wanted.size(), target, wanted.size()) != 0)
        return;
      const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) return;
      struct stat info;
      driver::UsagePage page{};
      const bool whole = fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
                         pread(fd, static_cast<void*>(&page), sizeof page, 0) == sizeof page;
      close(fd);
      if (!whole || std::memcmp(page.magic, driver::kUsageMagic, sizeof page.magic) != 0) return;
      if (!seen.emplace(info.st_dev, info.st_ino).second) return;
      const auto& use = page.devices[device];
      found.push_back({pid, use.bytes.load(), use.contexts.load()});
    });
  });
  return found;
}

/// Clock ticks that all threads of a process have used; 0 when it has ended.
unsigned long long ticks_of(unsigned pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string line;
  std::getline(file, line);
  const std::size_t after = line.rfind(')');  // the name may contain any character
  if (after == std::string::npos) return 0;
  std::istringstream rest{line.substr(after + 1)};
  std::string field;
  for (int i = 0; i < 11; ++i) rest >> field;
  unsigned long long user = 0, kernel = 0;
  rest >> user >> kernel;
  return user + kernel;
}

struct Sample {
  std::chrono::steady_clock::time_point when;
  std::map<unsigned, unsigned long long> ticks;
};

Sample take_sample(const nvmlDevice_st& device) {
  Sample sample{std::chrono::steady_clock::now(), {}};
  for (const ProcessUse& use : processes_on(device)) sample.ticks[use.pid] = ticks_of(use.pid);
  return sample;
}

}  // namespace

std::vector<ProcessUse> processes_on(const nvmlDevice_st& device) {
  std::vector<ProcessUse> found;
  if (device.index >= static_cast<int>(driver::kUsageDevices)) return found;
  for (const Page& page : pages(device.index))
    if (page.contexts || page.bytes) found.push_back({page.pid, page.bytes});
  return found;
}

unsigned utilization(const nvmlDevice_st& device) {
  static std::mutex mutex;
  static std::map<int, Sample> last;
  const std::lock_guard lock{mutex};
  if (!last.contains(device.index)) {  // first query: take two samples
    last[device.index] = take_sample(device);
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  const Sample now = take_sample(device);
  Sample& before = last[device.index];
  const double seconds = std::chrono::duration<double>(now.when - before.when).count();
  unsigned long long spent = 0;
  for (const auto& [pid, ticks] : now.ticks)
    if (const auto at = before.ticks.find(pid); at != before.ticks.end() && ticks > at->second)
      spent += ticks - at->second;
  const double busy = static_cast<double>(spent) / static_cast<double>(sysconf(_SC_CLK_TCK));
  before = now;
  const double share = seconds > 0 ? 100 * busy / (seconds * settings().threads) : 0;
  return share > 100 ? 100u : static_cast<unsigned>(share);
}

std::string process_name(unsigned pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/cmdline"};
  std::string name;
  std::getline(file, name, '\0');
  require(!name.empty(), NVML_ERROR_NOT_FOUND);
  return name;
}

}  // namespace cucpu::nvml
