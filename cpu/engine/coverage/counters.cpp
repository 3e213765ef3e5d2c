// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/counters.cpp
#include "cpu/engine/coverage/counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>
#include <vector>

namespace cucpu {
namespace {

/// Numbers of the living host threads that count. An ended thread's number is used again, and its
/// counters with it.
class ThreadNumbers {
 public:
  static ThreadNumbers& get() {
    static auto& numbers = *new ThreadNumbers;  // threads may end after static destructors
    return numbers;
  }
  std::size_t take() {
    const std::lock_guard lock{mutex_};
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto number = static_cast<std::size_t>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(true);
    taken_[number] = true;
    return number;
  }
  void give_back(std::size_t number) {
    const std::lock_guard lock{mutex_};
    taken_[number] = false;
  }

 private:
  std::mutex mutex_;
  std::vector<bool> taken_;
};

struct ThreadNumber {
  ThreadNumber() : number{ThreadNumbers::get().take()} {}
  ~ThreadNumber() { ThreadNumbers::get().give_back(number); }
  ThreadNumber(const ThreadNumber&) = delete;
  ThreadNumber& operator=(const ThreadNumber&) = delete;
  const std::size_t number;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error{errno, std::generic_category(), what};
}

int create(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) fail("cannot write " + path);
  return file;
}

void make_folder(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0777);
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail("cannot create the folder " + path);
}

}  // namespace

/// Under a temporary name first: readers never see a part of the file.
void CoverageCounters::write_once(const std::string& path, const std::string& text) {
  if (access(path.c_str(), F_OK) == 0) return;
  const std::string temporary = path + "." + std::to_string(getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail("cannot write " + temporary);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(file);
      fail("cannot write " + temporary);
    }
    done += static_cast<std::size_t>(n);
  }
  close(file);
  if (rename(temporary.c_str(), path.c_str()) != 0) fail("cannot write " + path);
}

CoverageCounters::CoverageCounters(const std::string& path, std::size_t bytes)
    : file_{create(path)}, bytes_{bytes} {}

CoverageCounters& CoverageCounters::of(const std::string& folder, const std::string& module,
                                       std::size_t count, const std::string& map) {
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, CoverageCounters*>;
  const std::lock_guard lock{mutex};
  CoverageCounters*& counters = known[folder + "/" + module];
  if (counters != nullptr) return *counters;
  make_folder(folder);
  write_once(folder + "/" + module + ".json", map);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes =
      std::max<std::size_t>((count * sizeof(std::uint64_t) + page - 1) / page * page, page);
  // The name has what a reader needs: the module, and the bytes of one thread.
  for (unsigned attempt = 0;; ++attempt) {
    const std::string path = folder + "/" + module + "." + std::to_string(bytes) + "." +
                             std::to_string(getpid()) + "." + std::to_string(attempt) + ".counts";
    if (access(path.c_str(), F_OK) == 0) continue;  // an ended process had the same number
    counters = new CoverageCounters{path, bytes};
    return *counters;
  }
}

std::uint64_t* CoverageCounters::map_for(std::size_t thread) noexcept {
  const std::lock_guard lock{mutex_};
  if (std::uint64_t* known = threads_[thread].load(std::memory_order_relaxed)) return known;
  const std::size_t from = mapped_ * bytes_;
  void* pages = MAP_FAILED;
  if (ftruncate(file_, static_cast<off_t>(from + bytes_)) == 0)
    pages =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(from));
  if (pages == MAP_FAILED) {  // no space: the code still needs memory to count in
    pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
  } else {
    ++mapped_;
  }
  auto* const made = static_cast<std::uint64_t*>(pages);
  threads_[thread].store(made, std::memory_order_release);
  return made;
}

std::uint64_t* CoverageCounters::of_this_thread() noexcept {
  static thread_local const ThreadNumber thread;
  const std::size_t index = thread.number % kThreads;
  if (std::uint64_t* known = threads_[index].load(std::memory_order_acquire)) [[likely]]
    return known;
  return map_for(index);
}

}  // namespace cucpu

extern "C" std::uint64_t* cucpu_rt_coverage(cucpu::CoverageCounters* module) {
  return module->of_this_thread();
}
