// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/api.cpp: the exported functions. A group collects calls; its end starts all of them.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cpu/nccl/collectives.hpp"
#include "cpu/nccl/communicator.hpp"
#include "cpu/nccl/nccl.hpp"
#include "cpu/nccl/reduction.hpp"

/// What a program holds.
struct ncclComm {
  std::unique_ptr<cucpu::nccl::Communicator> value;
};

namespace {

using namespace cucpu::nccl;

constexpr int kVersion = 22807;  // 2.28.7: the functions here are those of that release
constexpr int kNoColor = -1;     // NCCL_SPLIT_NOCOLOR
constexpr std::size_t kMaxText = 512;

thread_local char g_last_error[kMaxText];

void remember(const char* text) { std::strncpy(g_last_error, text, kMaxText - 1); }

/// The one place where exceptions become codes.
template <class F>
ncclResult_t guarded(F f) noexcept {
  try {
    f();
    return ncclSuccess;
  } catch (const Failure& failure) {
    remember(failure.what());
    return failure.code;
  } catch (const std::exception& error) {
    remember(error.what());
    return ncclInternalError;
  }
}

void require(bool condition, const char* what) {
  if (!condition) throw Failure{ncclInvalidArgument, what};
}

Communicator& communicator(ncclComm_t comm) {
  require(comm != nullptr && comm->value != nullptr, "the communicator is null");
  if (comm->value->status() != ncclSuccess)
    throw Failure{comm->value->status(), comm->value->message()};
  return *comm->value;
}

/// The device of the calling thread, with a context.
int current_device() {
  ensure_context(0);
  CUdevice device = 0;
  check_driver(Driver::instance().cuCtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

// ---- groups

struct Message {
  ncclComm_t comm;
  CUstream stream;
  Mesh::Piece piece;
};
struct Collective {
  ncclComm_t comm;
  CUstream stream;
  Communicator::Work work;
};

struct Group {
  int depth = 0;
  std::vector<std::function<void()>> blocking;  // meet other ranks, perhaps of this thread
  std::vector<Collective> collectives;
  std::vector<Message> messages;
  ncclResult_t error = ncclSuccess;  // the first of a call inside
};
thread_local Group g_group;

/// Runs them all at a time; the first failure counts.
void run_together(const std::vector<std::function<void()>>& tasks) {
  std::vector<std::exception_ptr> failures(tasks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        tasks[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void finish_group() {
  Group group = std::exchange(g_group, Group{});
  if (group.error != ncclSuccess) throw Failure{group.error, std::string{g_last_error}};
  run_together(group.blocking);
  for (Collective& one : group.collectives)
    communicator(one.comm).submit(std::move(one.work), {one.stream});
  // All messages of a communicator go at a time, in whatever order peers expect them.
  while (!group.messages.empty()) {
    ncclComm_t const comm = group.messages.front().comm;
    std::vector<Mesh::Piece> pieces;
    std::vector<CUstream> streams;
    std::erase_if(group.messages, [&](const Message& message) {
      if (message.comm != comm) return false;
      pieces.push_back(message.piece);
      if (std::find(streams.begin(), streams.end(), message.stream) == streams.end())
        streams.push_back(message.stream);
      return true;
    });
    communicator(comm).submit([pieces](Mesh& mesh) { mesh.transfer(pieces); }, streams);
  }
}

/// A call that counts as a group of its own where there is none.
template <class F>
ncclResult_t in_group(F f) noexcept {
  ++g_group.depth;
  const ncclResult_t code = guarded(f);
  if (code != ncclSuccess && g_group.error == ncclSuccess) g_group.error = code;
  if (--g_group.depth > 0) return code;
  const ncclResult_t ended = guarded([] { finish_group(); });
  return code != ncclSuccess ? code : ended;
}

// ---- arguments

Operator operator_of(const Communicator& comm, int op, ncclDataType_t type) {
  if (op >= ncclSum && op <= ncclAvg) return {static_cast<ncclRedOp_t>(op), nullptr};
  auto factor = comm.factor(op);
  require(factor != nullptr, "the reduction operator does not exist");
  require(factor->type == type, "the reduction operator was made for another type");
  return {ncclSum, std::move(factor)};
}

Elements elements_of(std::size_t count, ncclDataType_t type) {
  require(size_of(type) != 0, "the data type does not exist");
  return {count, type};
}

template <class Run>
ncclResult_t collective(ncclComm_t comm, CUstream stream, const void* from, void* into,
                        std::size_t count, ncclDataType_t type, int root, int op, Run run) {
  return in_group([&] {
    Communicator& c = communicator(comm);
    const Elements elements = elements_of(count, type);
    require(root >= 0 && root < c.mesh.size, "the root is no rank of the communicator");
    require(count == 0 || from != nullptr || into != nullptr, "a buffer is null");
    const Operator how = operator_of(c, op, type);
    g_group.collectives.push_back({comm, stream, [=](Mesh& mesh) {
                                     if (elements.count != 0)
                                       run(mesh, from, into, elements, how, root);
                                   }});
  });
}
std::size_t bytes_of(Elements elements) { return elements.count * size_of(elements.type); }

ncclResult_t message(ncclComm_t comm, CUstream stream, void* data, std::size_t count,
                     ncclDataType_t type, int peer, bool sends) {
  return in_group([&] {
    Communicator& c = communicator(comm);
    const Elements elements = elements_of(count, type);
    require(peer >= 0 && peer < c.mesh.size, "the peer is no rank of the communicator");
    require(count == 0 || data != nullptr, "the buffer is null");
    g_group.messages.push_back({comm, stream, {peer, sends, data, bytes_of(elements)}});
  });
}

ncclResult_t init(ncclComm_t* out, int size, const ncclUniqueId& identity, int rank) {
  return in_group([&] {
    require(out != nullptr, "the place for the communicator is null");
    require(size > 0 && rank >= 0 && rank < size, "the rank is not below the number of ranks");
    const int device = current_device();
    *out = nullptr;
    g_group.blocking.emplace_back([=] {
      auto made = std::make_unique<ncclComm>();
      made->value = std::make_unique<Communicator>(identity, rank, size, device);
      *out = made.release();
    });
  });
}

struct Choice {
  int color, key;
};

void split(Communicator& from, int color, int key, ncclComm_t* out) {
  const auto size = static_cast<std::size_t>(from.mesh.size);
  const auto rank = static_cast<std::size_t>(from.mesh.rank);
  std::vector<Choice> choices(size);
  const Choice own{color, key};
  std::vector<ncclUniqueId> identities(size);
  std::vector<std::size_t> members;
  from.submit(
      [&](Mesh& mesh) {
        all_gather(mesh, &own, choices.data(), sizeof own);
        for (std::size_t r = 0; r < size; ++r)
          if (color >= 0 && choices[r].color == color) members.push_back(r);
        std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
          return choices[a].key < choices[b].key;
        });
        ncclUniqueId identity{};
        if (!members.empty() && members.front() == rank) identity = make_identity();
        all_gather(mesh, &identity, identities.data(), sizeof identity);
      },
      {});
  if (from.status() != ncclSuccess) throw Failure{from.status(), from.message()};
  if (members.empty()) return;
  const auto place = std::find(members.begin(), members.end(), rank) - members.begin();
  auto made = std::make_unique<ncclComm>();
  made->value = std::make_unique<Communicator>(identities[members.front()], static_cast<int>(place),
                                               static_cast<int>(members.size()), from.device);
  *out = made.release();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return guarded([&] {
    require(version != nullptr, "the place for the version is null");
    *version = kVersion;
  });
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm != nullptr && comm->value != nullptr)
    if (const std::string text = comm->value->message(); !text.empty()) remember(text.c_str());
  return g_last_error;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded([&] {
    require(id != nullptr, "the place for the identity is null");
    Driver::instance();
    *id = make_identity();
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return init(comm, size, id, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, void*) {
  return init(comm, size, id, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int count,
                                      ncclUniqueId* ids, void*) {
  if (count < 1 || ids == nullptr) return ncclInvalidArgument;
  return init(comm, size, ids[0], rank);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return guarded([&] {
    require(comms != nullptr && count > 0, "there must be a place for each communicator");
    Driver::instance();
    current_device();
    const ncclUniqueId identity = make_identity();
    std::vector<std::function<void()>> tasks;
    for (int rank = 0; rank < count; ++rank)
      tasks.emplace_back([=] {
        auto made = std::make_unique<ncclComm>();
        made->value = std::make_unique<Communicator>(identity, rank, count,
                                                     devices != nullptr ? devices[rank] : rank);
        comms[rank] = made.release();
      });
    run_together(tasks);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, void*) {
  return in_group([&] {
    Communicator& from = communicator(comm);
    require(out != nullptr && (color >= 0 || color == kNoColor), "the color is negative");
    *out = nullptr;
    g_group.blocking.emplace_back([&from, color, key, out] { split(from, color, key, out); });
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded([&] {
    require(comm != nullptr && comm->value != nullptr, "the communicator is null");
    comm->value->drain();
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return;
    comm->value->drain();
    delete comm;
  });
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return;
    comm->value->abort();
    delete comm;
  });
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] {
    require(comm != nullptr && comm->value != nullptr && error != nullptr, "an argument is null");
    *error = comm->value->status();
  });
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return guarded([&] {
    require(comm != nullptr && count != nullptr, "an argument is null");
    *count = comm->value->mesh.size;
  });
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guarded([&] {
    require(comm != nullptr && device != nullptr, "an argument is null");
    *device = comm->value->device;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guarded([&] {
    require(comm != nullptr && rank != nullptr, "an argument is null");
    *rank = comm->value->mesh.rank;
  });
}

// Registration makes transfers faster on a GPU; here there is nothing to do.
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, std::size_t, void** handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = buffer;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void*) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** out, std::size_t size) {
  return guarded([&] {
    require(out != nullptr, "the place for the address is null");
    current_device();
    CUdeviceptr address = 0;
    check_driver(Driver::instance().cuMemAlloc(&address, size), "cuMemAlloc");
    *out = reinterpret_cast<void*>(address);
  });
}
ncclResult_t ncclMemFree(void* memory) {
  return guarded([&] {
    if (memory == nullptr) return;
    current_device();
    check_driver(Driver::instance().cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
  });
}

ncclResult_t ncclRedOpCreatePreMulSum(int* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded([&] {
    require(op != nullptr && scalar != nullptr, "an argument is null");
    require(residence == ncclScalarDevice || residence == ncclScalarHostImmediate,
            "the residence of the scalar does not exist");
    Communicator::Factor factor;
    factor.type = elements_of(1, type).type;
    if (residence == ncclScalarHostImmediate)
      factor.value.assign(static_cast<const char*>(scalar),
                          static_cast<const char*>(scalar) + size_of(type));
    else
      factor.address = scalar;
    *op = communicator(comm).add_factor(std::move(factor));
  });
}
ncclResult_t ncclRedOpDestroy(int op, ncclComm_t comm) {
  return guarded([&] {
    require(communicator(comm).remove_factor(op), "the reduction operator does not exist");
  });
}

ncclResult_t ncclReduce(const void* from, void* into, std::size_t count, ncclDataType_t type,
                        int op, int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, root, op,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator& o, int r) {
                      reduce_to(m, f, i, e, o, r);
                    });
}
ncclResult_t ncclBroadcast(const void* from, void* into, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, root, ncclSum,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator&, int r) {
                      broadcast(m, f, i, bytes_of(e), r);
                    });
}
ncclResult_t ncclBcast(void* data, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, CUstream stream) {
  return ncclBroadcast(data, data, count, type, root, comm, stream);
}
ncclResult_t ncclAllReduce(const void* from, void* into, std::size_t count, ncclDataType_t type,
                           int op, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, 0, op,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator& o, int) {
                      all_reduce(m, f, i, e, o);
                    });
}
ncclResult_t ncclReduceScatter(const void* from, void* into, std::size_t count, ncclDataType_t type,
                               int op, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, 0, op,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator& o, int) {
                      reduce_scatter(m, f, i, e, o);
                    });
}
ncclResult_t ncclAllGather(const void* from, void* into, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, 0, ncclSum,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator&, int) {
                      all_gather(m, f, i, bytes_of(e));
                    });
}
ncclResult_t ncclAlltoAll(const void* from, void* into, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, 0, ncclSum,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator&, int) {
                      all_to_all(m, f, i, bytes_of(e));
                    });
}
ncclResult_t ncclGather(const void* from, void* into, std::size_t count, ncclDataType_t type,
                        int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, root, ncclSum,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator&, int r) {
                      gather(m, f, i, bytes_of(e), r);
                    });
}
ncclResult_t ncclScatter(const void* from, void* into, std::size_t count, ncclDataType_t type,
                         int root, ncclComm_t comm, CUstream stream) {
  return collective(comm, stream, from, into, count, type, root, ncclSum,
                    [](Mesh& m, const void* f, void* i, Elements e, const Operator&, int r) {
                      scatter(m, f, i, bytes_of(e), r);
                    });
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream stream) {
  return message(comm, stream, const_cast<void*>(from), count, type, peer, true);
}
ncclResult_t ncclRecv(void* into, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream stream) {
  return message(comm, stream, into, count, type, peer, false);
}

ncclResult_t ncclGroupStart() {
  ++g_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (g_group.depth == 0) {
    remember("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--g_group.depth > 0) return ncclSuccess;
  return guarded([] { finish_group(); });
}

}  // extern "C"
#pragma GCC visibility pop
