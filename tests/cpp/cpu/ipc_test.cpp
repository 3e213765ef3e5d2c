// SPDX-License-Identifier: Apache-2.0
// Virtual memory, and memory and events shared with a child process.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "support.hpp"

namespace {

constexpr std::size_t kUnit = std::size_t{2} << 20;

/// Runs `child` in a process forked before cuInit. Each test starts with it.
class Peer {
 public:
  explicit Peer(const std::function<bool(Peer&)>& child) {
    int ends[2];
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_ = fork();
    socket_ = ends[pid_ == 0];
    close(ends[pid_ != 0]);
    if (pid_ == 0) _exit(child(*this) ? 0 : 1);
  }
  ~Peer() {
    close(socket_);
    if (killed_) return;
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
  }
  void send(const void* data, std::size_t bytes, int fd = -1) {
    iovec part{const_cast<void*>(data), bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ASSERT_EQ(static_cast<ssize_t>(bytes), sendmsg(socket_, &message, MSG_NOSIGNAL));
  }
  /// Kills the process.
  void die() {
    killed_ = true;
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  bool receive(void* data, std::size_t bytes, int* fd = nullptr) {
    iovec part{data, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(socket_, &message, MSG_WAITALL) != static_cast<ssize_t>(bytes)) return false;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); fd && header)
      std::memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return true;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  bool killed_ = false;
};

bool ok(CUresult result) { return result == CUDA_SUCCESS; }
bool start_driver() {
  CUcontext context;
  return ok(cuInit(0)) && ok(cuCtxCreate(&context, nullptr, 0, 0));
}

/// The parent's context, destroyed at the end of the test.
class Started {
 public:
  Started() { EXPECT_TRUE(start_driver()); }
  ~Started() {
    CUcontext context = nullptr;
    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT_OK(cuCtxDestroy(context));
  }
};

TEST(Ipc, MemoryHandlesShareBytes) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    CUipcMemHandle handle;
    CUdeviceptr p = 0;
    int value = 0;
    char done = 1;
    if (!parent.receive(&handle, sizeof handle) || !start_driver()) return false;
    if (!ok(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))) return false;
    if (!ok(cuMemcpyDtoH(&value, p + 400, 4)) || value != 77) return false;
    if (!ok(cuMemsetD32(p, 88, 1)) || !ok(cuIpcCloseMemHandle(p))) return false;
    if (cuMemsetD32(p, 1, 1) != CUDA_ERROR_INVALID_VALUE) return false;
    parent.send(&done, 1);
    return true;
  }};
  const Started driver;
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 1000));
  ASSERT_OK(cuMemsetD32(p, 77, 250));
  CUipcMemHandle handle;
  ASSERT_OK(cuIpcGetMemHandle(&handle, p));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, p + 4));
  CUdeviceptr same = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
            cuIpcOpenMemHandle(&same, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  peer.send(&handle, sizeof handle);
  char done = 0;
  ASSERT_TRUE(peer.receive(&done, 1));
  int value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, p, 4));
  EXPECT_EQ(88, value);
  ASSERT_OK(cuMemFree(p));
}

/// An exportable pool with one block that is filled with a value.
struct SharedPool {
  bool make(unsigned value) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return ok(cuMemPoolCreate(&pool, &props)) &&
           ok(cuMemAllocFromPoolAsync(&block, 100, pool, nullptr)) &&
           ok(cuMemsetD32(block, value, 25));
  }
  bool send(Peer& peer) const {
    int fd = -1;
    CUmemPoolPtrExportData data;
    if (!ok(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0)) ||
        !ok(cuMemPoolExportPointer(&data, block)))
      return false;
    peer.send(&data, sizeof data, fd);
    return close(fd) == 0;
  }
  /// Opens the pool of another process; `data` names the block.
  bool receive(Peer& peer, CUmemPoolPtrExportData* data) {
    int fd = -1;
    if (!peer.receive(data, sizeof *data, &fd) || fd < 0 || !start_driver()) return false;
    const CUresult opened = cuMemPoolImportFromShareableHandle(
        &pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return close(fd) == 0 && ok(opened) && ok(cuMemPoolImportPointer(&block, pool, data));
  }
  bool holds(unsigned value) const {
    unsigned found = 0;
    return ok(cuMemcpyDtoH(&found, block, 4)) && found == value;
  }
  CUmemoryPool pool = nullptr;
  CUdeviceptr block = 0;
};

TEST(Ipc, PoolsAreImportedFromFileDescriptors) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    SharedPool theirs;
    CUmemPoolPtrExportData data;
    if (!theirs.receive(parent, &data) || !theirs.holds(5)) return false;
    CUmemPoolPtrExportData bad = data;
    bad.reserved[9] = 0xff;  // an offset outside the file
    CUdeviceptr q = 0;
    if (cuMemPoolImportPointer(&q, theirs.pool, &bad) == CUDA_SUCCESS) return false;
    return ok(cuMemFreeAsync(theirs.block, nullptr));
  }};
  const Started driver;
  SharedPool mine;
  ASSERT_TRUE(mine.make(5));
  ASSERT_TRUE(mine.send(peer));
}

/// An interprocess event, and a stream that waits for release().
class Sharer {
 public:
  Sharer() {
    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    EXPECT_OK(cuIpcGetEventHandle(&handle, event));
    void* p = nullptr;
    EXPECT_OK(cuMemAllocHost(&p, sizeof *flag_));
    flag_ = static_cast<unsigned*>(p);
  }
  void block() const {
    EXPECT_OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(flag_), 1,
                                  CU_STREAM_WAIT_VALUE_EQ));
  }
  /// Sends the event to the peer, releases the stream when the peer asks, and waits for the
  /// stream's work.
  void release(Peer& peer) const {
    peer.send(&handle, sizeof handle);
    char byte = 0;
    ASSERT_TRUE(peer.receive(&byte, 1));
    std::atomic_ref{*flag_}.store(1);
    ASSERT_OK(cuStreamSynchronize(stream));
  }
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUipcEventHandle handle{};

 private:
  unsigned* flag_ = nullptr;
};

/// In the other process: opens an event of the first process whose record is incomplete; null on
/// failure.
CUevent opened_event(Peer& parent) {
  CUipcEventHandle handle;
  CUevent event = nullptr;
  if (!parent.receive(&handle, sizeof handle) || !start_driver() ||
      !ok(cuIpcOpenEventHandle(&event, handle)) || cuEventQuery(event) != CUDA_ERROR_NOT_READY)
    return nullptr;
  return event;
}

/// In the other process: lets the first process continue.
void let_go(Peer& parent) {
  const char byte = 1;
  parent.send(&byte, 1);
}

TEST(Ipc, EventsSynchronizeProcesses) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    const CUevent event = opened_event(parent);
    if (!event) return false;
    let_go(parent);
    return ok(cuEventSynchronize(event)) && ok(cuEventQuery(event));
  }};
  const Started driver;
  const Sharer mine;
  mine.block();
  ASSERT_OK(cuEventRecord(mine.event, mine.stream));
  mine.release(peer);
}

/// A graph records it here; a graph of the other process waits for it.
TEST(Ipc, GraphEventsSynchronizeProcesses) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUstream stream = nullptr;
    const CUevent event = opened_event(parent);
    if (!event) return false;
    if (!ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) || !ok(cuGraphCreate(&graph, 0)) ||
        !ok(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event)) ||
        !ok(cuGraphInstantiate(&exec, graph, 0)) || !ok(cuGraphLaunch(exec, stream)))
      return false;
    if (cuStreamQuery(stream) != CUDA_ERROR_NOT_READY) return false;
    let_go(parent);
    return ok(cuStreamSynchronize(stream)) && ok(cuEventQuery(event)) &&
           ok(cuEventSynchronize(event));
  }};
  const Started driver;
  const Sharer mine;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamBeginCapture(mine.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  mine.block();
  ASSERT_OK(cuEventRecordWithFlags(mine.event, mine.stream, CU_EVENT_RECORD_EXTERNAL));
  ASSERT_OK(cuStreamEndCapture(mine.stream, &graph));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuEventDestroy(mine.event));  // the graph can still record it
  ASSERT_OK(cuGraphLaunch(exec, mine.stream));
  mine.release(peer);
}

TEST(Ipc, ContextEventsSynchronizeProcesses) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    CUcontext context = nullptr;
    CUstream stream = nullptr, later = nullptr;
    const CUevent event = opened_event(parent);
    if (!event || !ok(cuCtxGetCurrent(&context)) ||
        !ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) ||
        !ok(cuCtxWaitEvent(context, event)) || cuStreamQuery(stream) != CUDA_ERROR_NOT_READY ||
        !ok(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING)) ||
        cuStreamQuery(later) != CUDA_ERROR_NOT_READY)
      return false;
    let_go(parent);
    return ok(cuStreamSynchronize(stream)) && ok(cuEventQuery(event));
  }};
  const Started driver;
  const Sharer mine;
  mine.block();
  ASSERT_OK(cuCtxRecordEvent(mine.context, mine.event));
  mine.release(peer);
}

/// Open descriptors and shared mappings of this process.
std::pair<std::size_t, std::size_t> held() {
  std::size_t descriptors = 0, mappings = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    ++descriptors;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);)
    mappings += line.find("memfd:cucore-shared") != std::string::npos ||
                line.find("memfd:cucore-pool") != std::string::npos;
  return {descriptors, mappings};
}

TEST(Ipc, CrashedImporterLeaksNothing) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    CUipcMemHandle handle;
    CUdeviceptr p = 0;
    char byte = 1;
    if (!parent.receive(&handle, sizeof handle) || !start_driver()) return false;
    if (!ok(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) ||
        !ok(cuMemsetD32(p, 5, 1)))
      return false;
    parent.send(&byte, 1);
    for (;;) pause();
  }};
  const Started driver;
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  const auto at_first = held();
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 1 << 20));
  CUipcMemHandle handle;
  ASSERT_OK(cuIpcGetMemHandle(&handle, p));
  peer.send(&handle, sizeof handle);
  char byte = 0;
  ASSERT_TRUE(peer.receive(&byte, 1));
  peer.die();
  int value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, p, 4));
  EXPECT_EQ(5, value);
  ASSERT_OK(cuMemFree(p));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  EXPECT_EQ(at_first, held());
}

TEST(Ipc, CrashedPoolImporterLeaksNothing) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    SharedPool theirs;
    CUmemPoolPtrExportData data;
    if (!theirs.receive(parent, &data) || !ok(cuMemsetD32(theirs.block, 6, 25))) return false;
    let_go(parent);
    for (;;) pause();
  }};
  const Started driver;
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_OK(cuMemGetInfo(&before, &total));
  const auto at_first = held();
  SharedPool mine;
  ASSERT_TRUE(mine.make(5));
  ASSERT_TRUE(mine.send(peer));
  char byte = 0;
  ASSERT_TRUE(peer.receive(&byte, 1));
  peer.die();
  EXPECT_TRUE(mine.holds(6)) << "what it wrote";
  ASSERT_OK(cuMemFreeAsync(mine.block, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuMemPoolDestroy(mine.pool));
  ASSERT_OK(cuMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  EXPECT_EQ(at_first, held());
}

TEST(Ipc, PoolOutlivesItsCrashedExporter) {
  NEEDS_FRESH_PROCESS();
  Peer peer{[](Peer& parent) {
    SharedPool mine;
    if (!start_driver() || !mine.make(5) || !mine.send(parent)) return false;
    for (;;) pause();
  }};
  SharedPool theirs;
  CUmemPoolPtrExportData data;
  ASSERT_TRUE(theirs.receive(peer, &data));
  peer.die();
  EXPECT_TRUE(theirs.holds(5));
  ASSERT_OK(cuMemsetD32(theirs.block, 7, 25));
  EXPECT_TRUE(theirs.holds(7));
  // Work queued before the free may still use the block, also when it is opened again.
  void* flag = nullptr;
  unsigned* found = nullptr;
  CUstream stream = nullptr;
  ASSERT_OK(cuMemAllocHost(&flag, 8));
  found = static_cast<unsigned*>(flag) + 1;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(
      cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(flag), 1, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(cuMemcpyDtoHAsync(found, theirs.block, 4, stream));
  ASSERT_OK(cuMemFreeAsync(theirs.block, stream));
  ASSERT_OK(cuMemPoolImportPointer(&theirs.block, theirs.pool, &data)) << "the file is still there";
  std::atomic_ref{*static_cast<unsigned*>(flag)} = 1u;
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(7u, *found);
  EXPECT_TRUE(theirs.holds(7));
  EXPECT_EQ(1u, held().second);
  ASSERT_OK(cuMemFreeAsync(theirs.block, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(0u, held().second) << "all of it";
  ASSERT_OK(cuMemPoolDestroy(theirs.pool));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&context));
  ASSERT_OK(cuCtxDestroy(context));
}

TEST(Ipc, CrashedExporterInvalidatesHandlesAndCompletesEvents) {
  NEEDS_FRESH_PROCESS();
  struct Message {
    CUipcMemHandle memory;
    CUipcEventHandle event;
  } message;
  Peer peer{[](Peer& parent) {
    Message m;
    CUdeviceptr p = 0, flag = 0;
    CUevent event = nullptr;
    CUstream stream = nullptr;
    if (!start_driver() || !ok(cuMemAlloc(&p, 4096)) || !ok(cuMemsetD32(p, 9, 1024)) ||
        !ok(cuMemAlloc(&flag, 4)))
      return false;
    if (!ok(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)) ||
        !ok(cuStreamCreate(&stream, 1)))
      return false;
    if (!ok(cuIpcGetMemHandle(&m.memory, p)) || !ok(cuIpcGetEventHandle(&m.event, event)))
      return false;
    if (!ok(cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ)) ||
        !ok(cuEventRecord(event, stream)))
      return false;
    parent.send(&m, sizeof m);
    for (;;) pause();
  }};
  ASSERT_TRUE(peer.receive(&message, sizeof message));
  const Started driver;
  CUdeviceptr p = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  ASSERT_OK(cuIpcOpenMemHandle(&p, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  ASSERT_OK(cuIpcOpenEventHandle(&event, message.event));
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  peer.die();
  ASSERT_OK(cuStreamSynchronize(stream));  // the recording process has ended
  ASSERT_OK(cuEventSynchronize(event));
  int value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, p, 4));  // existing mappings stay valid
  EXPECT_EQ(9, value);
  ASSERT_OK(cuIpcCloseMemHandle(p));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
            cuIpcOpenMemHandle(&p, message.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

TEST(Ipc, CallsInAForkedChildFail) {
  const Started driver;
  const pid_t pid = fork();
  if (pid == 0) {
    int count = 0;
    _exit(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(0, status);
  EXPECT_OK(cuCtxSynchronize());  // the parent is not affected
}

class VirtualMemory : public DriverTest {};

TEST(Ipc, DestroyedContextClosesFilesOfEvents) {
  ASSERT_OK(cuInit(0));
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  };
  const auto share = [](int count) {
    CUcontext context = nullptr;
    ASSERT_OK(cuCtxCreate(&context, nullptr, 0, 0));
    for (int i = 0; i < count; ++i) {
      CUevent event = nullptr;
      CUipcEventHandle handle{};
      ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
      ASSERT_OK(cuIpcGetEventHandle(&handle, event));
    }
    ASSERT_OK(cuCtxDestroy(context));
  };
  share(1);
  const auto before = open_files();
  share(8);
  EXPECT_EQ(before, open_files());
}

TEST_F(VirtualMemory, MemoryIsMappedAtTheReservedAddress) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::size_t granularity = 0;
  ASSERT_OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(kUnit, granularity);
  CUdeviceptr range = 0;
  ASSERT_OK(cuMemAddressReserve(&range, 2 * kUnit, 0, 0, 0));
  CUmemGenericAllocationHandle memory = 0;
  ASSERT_OK(cuMemCreate(&memory, kUnit, &prop, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, kUnit + 1, &prop, 0));
  ASSERT_OK(cuMemMap(range, kUnit, 0, memory, 0));
  ASSERT_OK(cuMemMap(range + kUnit, kUnit, 0, memory, 0));  // the same bytes twice
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, kUnit, 0, memory, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  unsigned long long flags = 1;
  ASSERT_OK(cuMemGetAccess(&flags, &access.location, range));
  EXPECT_EQ(0u, flags);
  const auto may = [&] {
    unsigned answer = 9;
    EXPECT_OK(cuPointerGetAttribute(&answer, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, range + 8));
    return answer;
  };
  EXPECT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE, may());
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_OK(cuMemSetAccess(range, 2 * kUnit, &access, 1));
  EXPECT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ, may());
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_OK(cuMemSetAccess(range, 2 * kUnit, &access, 1));
  EXPECT_EQ(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE, may());
  ASSERT_OK(cuMemsetD32(range, 9, 4));
  int value = 0;
  ASSERT_OK(cuMemcpyDtoH(&value, range + kUnit + 12, 4));
  EXPECT_EQ(9, value);
  int fd = -1;
  ASSERT_OK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle again = 0;
  ASSERT_OK(cuMemImportFromShareableHandle(&again,
                                           reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  ASSERT_OK(cuMemRelease(again));
  ASSERT_OK(cuMemRelease(memory));
  ASSERT_OK(cuMemcpyDtoH(&value, range, 4));  // mapped memory outlives its handle
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, 2 * kUnit));
  ASSERT_OK(cuMemUnmap(range, 2 * kUnit));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&value, range, 4));
  ASSERT_OK(cuMemAddressFree(range, 2 * kUnit));
}

}  // namespace
