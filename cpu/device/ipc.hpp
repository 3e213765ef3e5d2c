// SPDX-License-Identifier: Apache-2.0
// cpu/device/ipc.hpp: memory and events that two processes share. A handle is a ticket that names a
// descriptor of the exporting process; the importer opens it through /proc and checks that it is
// still the same file, so a handle of a dead process opens nothing.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cpu/device/event.hpp"
#include "cpu/mem/allocation.hpp"

namespace cucpu::driver {

enum class Shared : std::uint32_t { memory = 1, event = 2 };

struct Ticket {
  char magic[8];
  Shared kind;
  std::int32_t pid, fd;
  std::uint32_t offset;  // offset of the allocation in its first page
  std::uint64_t device, inode, bytes, size;
};
static_assert(sizeof(Ticket) <= 64);

Ticket make_ticket(Shared kind, int fd);
/// Opens the exporter's file. Fails with 1 for a damaged ticket, with 201 in the exporting process
/// and with 400 for a file that has changed.
int open_ticket(const Ticket& t, Shared kind);

/// Closes a descriptor.
struct File {
  int fd;
  explicit File(int fd) noexcept : fd{fd} {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd); }
};

/// The shared page of an event: the numbers of records made and completed.
struct EventPage {
  std::atomic<std::uint64_t> made, over;
  std::atomic<std::int32_t> recorder;  ///< the process that made the last record
};

struct SharedEvent {
  int fd = -1;
  EventPage* page = nullptr;
  ~SharedEvent();
};

struct IpcState {
  std::mutex mutex;
  std::map<const Event*, std::shared_ptr<SharedEvent>> events;
  struct Opened {
    std::uintptr_t base;
    int uses;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Opened> opened;  // by device and inode
};
IpcState& ipc_state();

/// Maps the page; owns the descriptor even when it throws.
std::shared_ptr<SharedEvent> attach_shared_event(int fd);
/// The page of an interprocess event, made at first use.
std::shared_ptr<SharedEvent> shared_event_of(Event& event);

/// Moves the allocation's pages into a memfd at the same addresses.
void make_shareable(Allocation& a);

/// Starts a record; the returned function completes it.
std::function<void()> begin_ipc_record(Event& event);
void publish_ipc_record(Event& event, Stream& stream);
[[nodiscard]] bool ipc_event_is_over(Event& event);
void wait_for_ipc_event(Event& event);
void release_ipc_event(Event& event) noexcept;
/// An operation that waits for the event's last record, made by any process.
Ref<Op> ipc_wait(Event& event);

}  // namespace cucpu::driver
