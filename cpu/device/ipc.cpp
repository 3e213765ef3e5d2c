// SPDX-License-Identifier: Apache-2.0
// Tickets, and events in pages of shared memory.
#include "cpu/device/ipc.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "cpu/exec/ops.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/shared_file.hpp"

namespace cucpu::driver {
namespace {
constexpr char kMagic[8] = {'c', 'u', 'c', 'o', 'r', 'e', 'i', '1'};
}  // namespace

Ticket make_ticket(Shared kind, int fd) {
  struct stat info;
  require(fstat(fd, &info) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  Ticket t{};
  std::memcpy(t.magic, kMagic, sizeof kMagic);
  t.kind = kind;
  t.pid = getpid();
  t.fd = fd;
  t.device = info.st_dev;
  t.inode = info.st_ino;
  t.bytes = static_cast<std::uint64_t>(info.st_size);
  return t;
}

int open_ticket(const Ticket& t, Shared kind) {
  require(std::memcmp(t.magic, kMagic, sizeof kMagic) == 0 && t.kind == kind,
          CUDA_ERROR_INVALID_VALUE);
  require(t.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", t.pid, t.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  require(fd >= 0, CUDA_ERROR_INVALID_HANDLE);
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_dev != t.device || info.st_ino != t.inode ||
      info.st_uid != geteuid() || static_cast<std::uint64_t>(info.st_size) != t.bytes) {
    close(fd);
    fail(CUDA_ERROR_INVALID_HANDLE);
  }
  return fd;
}

SharedEvent::~SharedEvent() {
  if (page) munmap(page, 4096);
  if (fd >= 0) close(fd);
}

IpcState& ipc_state() {
  static IpcState& s = *new IpcState;
  return s;
}

std::shared_ptr<SharedEvent> attach_shared_event(int fd) {
  std::shared_ptr<SharedEvent> shared;
  try {
    shared = std::make_shared<SharedEvent>();
  } catch (...) {
    close(fd);
    throw;
  }
  shared->fd = fd;
  void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  require(p != MAP_FAILED, CUDA_ERROR_OPERATING_SYSTEM);
  shared->page = static_cast<EventPage*>(p);
  return shared;
}

std::shared_ptr<SharedEvent> shared_event_of(Event& event) {
  IpcState& s = ipc_state();
  const std::lock_guard lock{s.mutex};
  auto& shared = s.events[&event];
  if (!shared) {
    const int fd = make_shared_file("cucore-event");
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    if (ftruncate(fd, 4096) != 0) {
      close(fd);
      fail(CUDA_ERROR_OPERATING_SYSTEM);
    }
    shared = attach_shared_event(fd);
  }
  return shared;
}

void make_shareable(Allocation& a) {
  if (a.shared_fd >= 0) return;
  auto& space = AddressSpace::instance();
  const std::uintptr_t start = a.base & ~(space.page() - 1);
  const std::size_t bytes = space.round_to_pages(a.end() - start);
  const int fd = make_shared_file("cucore-shared");
  require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
  void* copy = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0)
    copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (copy == MAP_FAILED) {
    close(fd);
    fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  std::memcpy(copy, reinterpret_cast<void*>(start), bytes);
  munmap(copy, bytes);
  // Made first: nothing may throw once the pages are replaced.
  std::function<void(Allocation&)> release;
  try {
    release = [inner = a.release, fd](Allocation& self) {
      inner(self);
      close(fd);
    };
  } catch (...) {
    close(fd);
    throw;
  }
  if (mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           fd, 0) == MAP_FAILED) {
    close(fd);
    fail(CUDA_ERROR_OPERATING_SYSTEM);
  }
  a.shared_fd = fd;
  a.release = std::move(release);
}

namespace {

constexpr unsigned kPollsBetween = 64;  // polls between two checks of /proc, which are slower

/// A process that has ended completes no more records: they count as complete.
bool recorder_is_gone(const EventPage& page) {
  const int pid = page.recorder.load();
  if (pid == 0 || pid == getpid()) return false;
  char path[32], text[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  const ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  text[bytes > 0 ? bytes : 0] = '\0';
  const char* end = std::strrchr(text, ')');  // end of the program's name; the state follows
  return end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

std::uint64_t begin_record(EventPage& page) {
  page.recorder = getpid();
  return page.made.fetch_add(1) + 1;
}

void end_record(EventPage& page, std::uint64_t number) {
  std::uint64_t over = page.over.load();
  while (over < number && !page.over.compare_exchange_weak(over, number)) {
  }
}

}  // namespace

std::function<void()> begin_ipc_record(Event& event) {
  const auto shared = shared_event_of(event);
  const std::uint64_t number = begin_record(*shared->page);
  try {
    return [shared, number] { end_record(*shared->page, number); };
  } catch (...) {  // no memory: complete at once
    end_record(*shared->page, number);
    throw;
  }
}

void publish_ipc_record(Event& event, Stream& stream) {
  const std::function<void()> end = begin_ipc_record(event);
  try {
    stream.submit(make_object<CallOp>(end, true));
  } catch (...) {
    end();
    throw;
  }
}

bool ipc_event_is_over(Event& event) {
  const auto shared = shared_event_of(event);
  return shared->page->over.load() >= shared->page->made.load() || recorder_is_gone(*shared->page);
}

void wait_for_ipc_event(Event& event) {
  const auto shared = shared_event_of(event);
  const std::uint64_t number = shared->page->made.load();
  for (unsigned round = 1; shared->page->over.load() < number; ++round) {
    if (round % kPollsBetween == 0 && recorder_is_gone(*shared->page)) return;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

void release_ipc_event(Event& event) noexcept {
  if (!(event.flags & CU_EVENT_INTERPROCESS)) return;
  IpcState& s = ipc_state();
  const std::lock_guard lock{s.mutex};
  s.events.erase(&event);
}

namespace {

/// Waits for the last record at the time of its construction.
class IpcWaitOp final : public Op {
 public:
  IpcWaitOp(std::shared_ptr<SharedEvent> shared, std::uint64_t number)
      : shared_{std::move(shared)}, number_{number} {}
  Progress run(Task& task) override {
    if (shared_->page->over.load() >= number_) return Progress::done;
    ThreadPool::instance().poll(
        [shared = shared_, number = number_, &context = context_of(task), round = 0u]() mutable {
          if (context.is_broken() || shared->page->over.load() >= number) return true;
          return ++round % kPollsBetween == 0 && recorder_is_gone(*shared->page);
        },
        task);
    return Progress::pending;
  }

 private:
  std::shared_ptr<SharedEvent> shared_;
  std::uint64_t number_;
};
}  // namespace

Ref<Op> ipc_wait(Event& event) {
  const auto shared = shared_event_of(event);
  return make_object<IpcWaitOp>(shared, shared->page->made.load());
}

}  // namespace cucpu::driver
