// cuIpc*: memory and events that two processes share. A handle names a descriptor of the exporting
// process; the importer opens it through /proc and checks that it is still the same file, so a
// handle of a dead process leads nowhere.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/ipc_event.hpp"
#include "cpu/exec/ops.hpp"
#include "cpu/exec/thread_pool.hpp"
#include "cpu/mem/address_space.hpp"
#include "cpu/mem/shared_file.hpp"

namespace cucpu::driver {
namespace {

enum class Shared : std::uint32_t { memory = 1, event = 2 };

struct Ticket {
  char magic[8];
  Shared kind;
  std::int32_t pid, fd;
  std::uint32_t offset;  // of the allocation in its first page
  std::uint64_t device, inode, bytes, size;
};
static_assert(sizeof(Ticket) <= 64);
constexpr char kMagic[8] = {'c', 'u', 'c', 'o', 'r', 'e', 'i', '1'};

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

/// The exporter's file, opened anew. Fails with 400 for a damaged ticket, 201 in the exporting
/// process itself.
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

/// A descriptor that is closed again.
struct File {
  int fd;
  explicit File(int fd) noexcept : fd{fd} {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd); }
};

/// An event's page: records made and records over, counted by whoever records.
struct EventPage {
  std::atomic<std::uint64_t> made, over;
  std::atomic<std::int32_t> recorder;  ///< the process that made the last record
};

constexpr unsigned kLooksBetween = 64;  // a look at /proc takes longer than one at the page

/// Nobody will end the records of a process that has died: its work is over.
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
  const char* end = std::strrchr(text, ')');  // of the program's name; the state follows
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

struct SharedEvent {
  int fd = -1;
  EventPage* page = nullptr;
  ~SharedEvent() {
    if (page) munmap(page, 4096);
    if (fd >= 0) close(fd);
  }
};

struct State {
  std::mutex mutex;
  std::map<const Event*, std::shared_ptr<SharedEvent>> events;
  struct Opened {
    std::uintptr_t base;
    int uses;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Opened> opened;  // by device and inode
};
State& state() {
  static State& s = *new State;
  return s;
}

/// Takes the descriptor over, also when it fails.
std::shared_ptr<SharedEvent> attach(int fd) {
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

std::shared_ptr<SharedEvent> shared_of(Event& event) {
  State& s = state();
  const std::lock_guard lock{s.mutex};
  auto& shared = s.events[&event];
  if (!shared) {
    const int fd = make_shared_file("cucore-event");
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    if (ftruncate(fd, 4096) != 0) {
      close(fd);
      fail(CUDA_ERROR_OPERATING_SYSTEM);
    }
    shared = attach(fd);
  }
  return shared;
}

/// Puts the allocation's pages into a file of their own, at the same addresses.
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
  // Made first: once the pages have moved, nothing may fail.
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

}  // namespace

std::function<void()> begin_ipc_record(Event& event) {
  const auto shared = shared_of(event);
  const std::uint64_t number = begin_record(*shared->page);
  try {
    return [shared, number] { end_record(*shared->page, number); };
  } catch (...) {  // no memory: it is over at once
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
  const auto shared = shared_of(event);
  return shared->page->over.load() >= shared->page->made.load() || recorder_is_gone(*shared->page);
}

void wait_for_ipc_event(Event& event) {
  const auto shared = shared_of(event);
  const std::uint64_t number = shared->page->made.load();
  for (unsigned round = 1; shared->page->over.load() < number; ++round) {
    if (round % kLooksBetween == 0 && recorder_is_gone(*shared->page)) return;
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
}

void forget_ipc_event(Event& event) noexcept {
  if (!(event.flags & CU_EVENT_INTERPROCESS)) return;
  State& s = state();
  const std::lock_guard lock{s.mutex};
  s.events.erase(&event);
}

namespace {

/// Waits for the record that was the last when it was made.
class IpcWaitOp final : public Op {
 public:
  IpcWaitOp(std::shared_ptr<SharedEvent> shared, std::uint64_t number)
      : shared_{std::move(shared)}, number_{number} {}
  Progress run(Task& task) override {
    if (shared_->page->over.load() >= number_) return Progress::done;
    Pool::instance().poll(
        [shared = shared_, number = number_, &context = task.context(), round = 0u]() mutable {
          if (context.is_broken() || shared->page->over.load() >= number) return true;
          return ++round % kLooksBetween == 0 && recorder_is_gone(*shared->page);
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
  const auto shared = shared_of(event);
  return make_object<IpcWaitOp>(shared, shared->page->made.load());
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  return guarded([&] {
    require(out != nullptr);
    Context& context = current_context();
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && a->base == address && a->kind == MemoryKind::device);
    require(a->own_pages, CUDA_ERROR_NOT_SUPPORTED);
    require_capture_safe();
    State& s = state();
    const std::lock_guard lock{s.mutex};
    if (a->shared_fd < 0) {
      context.synchronize();  // nothing may write while the pages move
      make_shareable(*a);
    }
    Ticket t = make_ticket(Shared::memory, a->shared_fd);
    t.offset = static_cast<std::uint32_t>(a->base % AddressSpace::instance().page());
    t.size = a->size;
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &t, sizeof t);
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return guarded([&] {
    require(out && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    Context& context = current_context();
    require_capture_safe();
    Ticket t;
    std::memcpy(&t, &handle, sizeof t);
    const File file{open_ticket(t, Shared::memory)};
    State& s = state();
    const std::lock_guard lock{s.mutex};
    const std::pair key{t.device, t.inode};
    if (const auto at = s.opened.find(key); at != s.opened.end()) {
      ++at->second.uses;
      *out = at->second.base;
      return;
    }
    auto& space = AddressSpace::instance();
    const std::size_t bytes = t.bytes;
    require(bytes % space.page() == 0 && t.offset < space.page() && t.size <= bytes - t.offset &&
                t.size > 0,
            CUDA_ERROR_INVALID_HANDLE);
    auto a = std::make_shared<Allocation>();
    const std::uintptr_t start = space.take(bytes + space.page(), space.page());
    try {
      require(mmap(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, file.fd, 0) != MAP_FAILED,
              CUDA_ERROR_INVALID_HANDLE);
      a->base = start + t.offset;
      a->size = t.size;
      a->kind = MemoryKind::imported;
      a->device = context.device.ordinal;
      a->context_id = context.id;
      a->release = [start, bytes, key](Allocation&) {
        AddressSpace::instance().give(start, bytes + AddressSpace::instance().page());
        State& all = state();
        const std::lock_guard again{all.mutex};
        all.opened.erase(key);
      };
      s.opened[key] = {a->base, 1};
      MemoryMap::instance().insert(a);
    } catch (...) {  // not by its release, which would want the lock
      s.opened.erase(key);
      space.give(start, bytes + space.page());
      throw;
    }
    *out = a->base;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return guarded([&] {
    Context& context = current_context();
    const AllocationRef a = MemoryMap::instance().find(address);
    require(a && a->base == address && a->kind == MemoryKind::imported);
    {
      State& s = state();
      const std::lock_guard lock{s.mutex};
      for (auto& [key, opened] : s.opened)
        if (opened.base == address && --opened.uses > 0) return;
    }
    context.synchronize();
    if (a->context_id != context.id)
      for (const Ref<Context>& other : live_contexts())
        if (other->id == a->context_id) other->synchronize();
    MemoryMap::drop(MemoryMap::instance().take_out(address));
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    Event& event = given<Event>(handle);
    require(event.flags & CU_EVENT_INTERPROCESS, CUDA_ERROR_INVALID_HANDLE);
    const Ticket t = make_ticket(Shared::event, shared_of(event)->fd);
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &t, sizeof t);
  });
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  return guarded([&] {
    require(out != nullptr);
    Context& context = current_context();
    Ticket t;
    std::memcpy(&t, &handle, sizeof t);
    const int fd = open_ticket(t, Shared::event);
    std::shared_ptr<SharedEvent> shared = attach(fd);
    auto event =
        make_object<Event>(context, unsigned{CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS});
    {
      State& s = state();
      const std::lock_guard lock{s.mutex};
      s.events[event.get()] = shared;
    }
    *out = event->publish();
  });
}

}  // extern "C"
