// SPDX-License-Identifier: Apache-2.0
// Imported semaphores: eventfds, and counters in files.
#include "cpu/device/external_semaphore.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "cpu/engine/check/operations.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/polling_run.hpp"

namespace cucpu::driver {
namespace {

constexpr std::size_t kPage = 4096;

std::string name_of_counter() { return "the counter of an external semaphore"; }

/// Waits for the semaphores in order.
class WaitSemaphoresRun final : public PollingRun {
 public:
  WaitSemaphoresRun(Ref<WaitSemaphoresOp> op, Task& parent)
      : PollingRun{op->objects.size(), parent}, op_{std::move(op)} {}

 private:
  std::function<bool()> step(std::size_t at) override {
    const ExternalSemaphore& semaphore = *op_->objects[at];
    const unsigned long long value = op_->params[at].params.fence.value;
    if (semaphore.try_wait(value)) return {};
    return [&semaphore, value] { return semaphore.try_wait(value); };
  }

  Ref<WaitSemaphoresOp> op_;
};

}  // namespace

Ref<ExternalSemaphore> ExternalSemaphore::import_binary(int fd) {
  char link[64], target[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, target, sizeof target - 1);
  require(length > 0);
  target[length] = '\0';
  require(std::strstr(target, "[eventfd]") != nullptr);
  const int flags = fcntl(fd, F_GETFL);
  require(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
  return make_object<ExternalSemaphore>(fd, static_cast<std::atomic<unsigned long long>*>(nullptr));
}

Ref<ExternalSemaphore> ExternalSemaphore::import_timeline(int fd) {
  struct stat info;
  require(fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
          info.st_size >= static_cast<off_t>(sizeof(unsigned long long)));
  void* p = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  require(p != MAP_FAILED);
  return make_object<ExternalSemaphore>(fd, static_cast<std::atomic<unsigned long long>*>(p));
}

ExternalSemaphore::~ExternalSemaphore() {
  if (counter_) munmap(static_cast<void*>(counter_), kPage);
  close(fd_);
}

void ExternalSemaphore::signal(unsigned long long value) const {
  if (!counter_) {
    const std::uint64_t one = 1;
    if (write(fd_, &one, sizeof one) != sizeof one) fail(CUDA_ERROR_OPERATING_SYSTEM);
    return;
  }
  access_memory(
      [this, value] {
        unsigned long long now = counter_->load();
        while (now < value && !counter_->compare_exchange_weak(now, value)) {
        }
      },
      name_of_counter);
}

bool ExternalSemaphore::try_wait(unsigned long long value) const {
  if (counter_) {
    unsigned long long now = 0;
    access_memory([&] { now = counter_->load(); }, name_of_counter);
    return now >= value;
  }
  std::uint64_t taken = 0;
  return read(fd_, &taken, sizeof taken) == sizeof taken;
}

template <>
Progress SignalSemaphoresOp::run(Task&) {
  for (std::size_t i = 0; i < objects.size(); ++i) objects[i]->signal(params[i].params.fence.value);
  return Progress::done;
}

template <>
Progress WaitSemaphoresOp::run(Task& task) {
  operations::disable();
  const auto run = make_object<WaitSemaphoresRun>(Ref<WaitSemaphoresOp>{this}, task);
  return run->advance() ? Progress::done : Progress::pending;
}

}  // namespace cucpu::driver
