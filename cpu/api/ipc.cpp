// SPDX-License-Identifier: Apache-2.0
// cuIpc*: memory and events that two processes share.
#include "cpu/device/ipc.hpp"

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "cpu/device/capture.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/mem/address_space.hpp"

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
    IpcState& s = ipc_state();
    const std::lock_guard lock{s.mutex};
    if (a->shared_fd < 0) {
      context.synchronize();  // nothing may write while the pages are moved
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
    IpcState& s = ipc_state();
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
        IpcState& all = ipc_state();
        const std::lock_guard again{all.mutex};
        all.opened.erase(key);
      };
      s.opened[key] = {a->base, 1};
      MemoryMap::instance().insert(a);
    } catch (...) {  // not through its release function, which takes the lock
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
      IpcState& s = ipc_state();
      const std::lock_guard lock{s.mutex};
      for (auto& [key, opened] : s.opened)
        if (opened.base == address && --opened.uses > 0) return;
    }
    context.synchronize();
    if (a->context_id != context.id)
      for (const Ref<Context>& other : live_contexts())
        if (other->id == a->context_id) other->synchronize();
    MemoryMap::drop(MemoryMap::instance().remove(address));
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  return guarded([&] {
    require(out != nullptr);
    current_context();
    Event& event = nonnull_object_of<Event>(handle);
    require(event.flags & CU_EVENT_INTERPROCESS, CUDA_ERROR_INVALID_HANDLE);
    const Ticket t = make_ticket(Shared::event, shared_event_of(event)->fd);
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
    std::shared_ptr<SharedEvent> shared = attach_shared_event(fd);
    auto event =
        make_object<Event>(context, unsigned{CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS});
    {
      IpcState& s = ipc_state();
      const std::lock_guard lock{s.mutex};
      s.events[event.get()] = shared;
    }
    *out = event->publish();
  });
}

}  // extern "C"
