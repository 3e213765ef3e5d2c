// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/calls_clean.cpp: destroys the objects that a sequence of calls left, and checks that
// the driver then keeps nothing. Leak checkers do not detect such memory, because the driver still
// references it.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "calls.hpp"
#include "cpu/mem/allocation.hpp"

namespace calls {
namespace {

constexpr unsigned kOften = 64;          // inputs between two checks of the file descriptors
constexpr unsigned kMostOpenFiles = 64;  // of the fuzzer, the device and the other process

/// Waits until `count` is zero: a worker may still hold the last object of a finished grid. Aborts
/// if it stays positive, which is a leak.
template <class Count>
void expect_soon(const char* what, const Count& count) {
  std::size_t left = count();
  for (int look = 0; look < 2000 && left != 0; ++look) {
    usleep(1000);
    left = count();
  }
  if (left == 0) return;
  std::fprintf(stderr, "left behind: %zu %s\n", left, what);
  std::abort();
}

std::size_t open_files() {
  std::size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/// Frees memory of pools and of other processes, which belongs to no context.
void free_memory(const World& w) {
  CUcontext fresh = nullptr;
  if (cuCtxCreate(&fresh, nullptr, 0, 0) != CUDA_SUCCESS) std::abort();
  for (void* const memory : w.memory) {
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    cuMemFree(address);
    while (cuIpcCloseMemHandle(address) == CUDA_SUCCESS) {
    }
  }
  for (void* const pages : w.reserved) {
    for (std::size_t at = 0; at < kReserved; at += kMapped)
      cuMemUnmap(reinterpret_cast<CUdeviceptr>(pages) + at, kMapped);
    cuMemAddressFree(reinterpret_cast<CUdeviceptr>(pages), kReserved);
  }
  for (const CUmemoryPool pool : w.pools) cuMemPoolDestroy(pool);
  for (const auto handle : w.physical) cuMemRelease(handle);
  expect_soon("bytes of device memory", [] {
    std::size_t free = 0, total = 0;
    if (cuCtxSynchronize() != CUDA_SUCCESS || cuMemGetInfo(&free, &total) != CUDA_SUCCESS)
      std::abort();
    return total - free;
  });
  cuCtxDestroy(fresh);
}

}  // namespace

void clean(const World& w) {
  for (const CUgraphExec exec : w.execs) cuGraphExecDestroy(exec);
  for (const CUcontext context : w.contexts) cuCtxDestroy(context);  // also ends its captures
  for (const CUgraph graph : w.graphs) cuGraphDestroy(graph);
  CUcontext left = nullptr;
  while (cuCtxPopCurrent(&left) == CUDA_SUCCESS) {
  }
  for (const CUlibrary library : w.libraries) cuLibraryUnload(library);
  for (const CUuserObject object : w.user_objects) cuUserObjectRelease(object, 1);
  free_memory(w);
  expect_soon("records of memory", [] {
    std::size_t records = 0;
    cucpu::driver::MemoryMap::instance().for_each([&](const auto&) { ++records; });
    return records;
  });
  static unsigned inputs = 0;
  if (++inputs % kOften != 0) return;
  expect_soon("open files too many", [] {
    const std::size_t files = open_files();
    return files > kMostOpenFiles ? files - kMostOpenFiles : 0;
  });
}

}  // namespace calls
