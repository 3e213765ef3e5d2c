// SPDX-License-Identifier: Apache-2.0
// cufile.cpp: a test double with cuFile's ABI over POSIX files and host memory, with the counters
// and errors of the real library. It has no direct storage and no device memory: it tests how
// cuda.bindings.cufile passes arguments, results and errors.
#include "cucore/abi/cufile.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

struct Handle {
  int fd;
};
struct Batch {
  unsigned room;
  std::vector<CUfileIOEvents_t> done;
};

struct State {
  std::mutex mutex;
  long uses = 0;
  CUfileDrvProps_t props{};
  std::map<const void*, std::size_t> buffers;
  std::set<void*> handles, streams, batches;
  std::map<int, bool> bools;
  std::map<int, std::size_t> sizes;
  std::map<int, std::string> strings;
  std::vector<std::size_t> slab_sizes{4, 1024}, slab_counts{64, 8};
  int level = 0;
  bool counting = false;
  CUfileStatsLevel3_t stats{};
};
State& state() {
  static State instance;
  return instance;
}

CUfileError_t answer(CUfileOpError code, CUresult driver = CUDA_SUCCESS) { return {code, driver}; }
constexpr auto kFine = CU_FILE_SUCCESS;

bool is_open() { return state().uses > 0; }

/// Calls `work` with the lock held if the driver is open.
template <class Work>
CUfileError_t opened(Work work) {
  const std::lock_guard lock{state().mutex};
  return answer(is_open() ? work() : CU_FILE_DRIVER_NOT_INITIALIZED);
}

void count(CUfileOpCounter_t& counter, std::uint64_t& bytes, std::uint64_t* histogram,
           ssize_t result) {
  State& s = state();
  if (!s.counting) return;
  if (result < 0) {
    ++counter.err;
    return;
  }
  ++counter.ok;
  bytes += static_cast<std::uint64_t>(result);
  if (histogram != nullptr)
    ++histogram[std::min<std::size_t>(31, static_cast<std::size_t>(result) / 1024)];
}

ssize_t transfer(void* handle, char* memory, std::size_t size, off_t at, bool writes) {
  State& s = state();
  if (!is_open()) return -CU_FILE_DRIVER_NOT_INITIALIZED;
  if (s.handles.count(handle) == 0) return -CU_FILE_HANDLE_NOT_REGISTERED;
  const int fd = static_cast<Handle*>(handle)->fd;
  const ssize_t n = writes ? ::pwrite(fd, memory, size, at) : ::pread(fd, memory, size, at);
  CUfileStatsLevel2_t& stats = s.stats.detailed;
  if (writes)
    count(stats.basic.write_ops, stats.basic.write_bytes, stats.write_size_kb_hist, n);
  else
    count(stats.basic.read_ops, stats.basic.read_bytes, stats.read_size_kb_hist, n);
  return n;  // -1 with errno, as cuFile reports system errors
}

ssize_t vector_transfer(void* handle, const CUfileIOVec_t* parts, std::size_t n, off_t at,
                        unsigned flags, bool writes) {
  if (flags != 0 || parts == nullptr) return -CU_FILE_INVALID_VALUE;
  ssize_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const ssize_t moved =
        transfer(handle, static_cast<char*>(parts[i].base), parts[i].len, at + total, writes);
    if (moved < 0) return moved;
    total += moved;
    if (static_cast<std::size_t>(moved) < parts[i].len) break;
  }
  return total;
}

CUfileError_t async_transfer(void* handle, void* base, const std::size_t* size, const off_t* at,
                             const off_t* offset, ssize_t* moved, CUstream stream, bool writes) {
  return opened([&] {
    State& s = state();
    if (s.handles.count(handle) == 0) return CU_FILE_HANDLE_NOT_REGISTERED;
    if (size == nullptr || at == nullptr || offset == nullptr || moved == nullptr)
      return CU_FILE_INVALID_VALUE;
    if (stream != nullptr && s.streams.count(stream) == 0) return CU_FILE_ASYNC_NOT_SUPPORTED;
    *moved = transfer(handle, static_cast<char*>(base) + *offset, *size, *at, writes);
    return kFine;
  });
}

}  // namespace

extern "C" {

CUfileError_t cuFileDriverOpen(void) {
  const std::lock_guard lock{state().mutex};
  State& s = state();
  if (++s.uses == 1) {
    s.props = {};
    s.props.nvfs.major_version = 2;
    s.props.nvfs.minor_version = 28;
    s.props.nvfs.max_direct_io_size = 16384;
    s.props.nvfs.dcontrolflags = 1u << CU_FILE_ALLOW_COMPAT_MODE;
    s.props.max_batch_io_size = 128;
    s.props.max_device_cache_size = 131072;
    s.props.max_device_pinned_mem_size = 33554432;
  }
  return answer(kFine);
}
CUfileError_t cuFileDriverClose_v2(void) {
  return opened([] { return --state().uses, kFine; });
}
CUfileError_t cuFileDriverClose(void) { return cuFileDriverClose_v2(); }
long cuFileUseCount(void) { return state().uses; }
CUfileError_t cuFileGetVersion(int* version) { return *version = 9000, answer(kFine); }

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  return opened([&] { return *props = state().props, kFine; });
}
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t threshold) {
  return opened([&] {
    auto& nvfs = state().props.nvfs;
    const unsigned bit = 1u << CU_FILE_USE_POLL_MODE;
    nvfs.dcontrolflags = poll ? nvfs.dcontrolflags | bit : nvfs.dcontrolflags & ~bit;
    nvfs.poll_thresh_size = threshold;
    return kFine;
  });
}
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t size) {
  return opened([&] {
    if (size == 0 || size % 64 != 0) return CU_FILE_DRIVER_UNSUPPORTED_LIMIT;
    return state().props.nvfs.max_direct_io_size = size, kFine;
  });
}
CUfileError_t cuFileDriverSetMaxCacheSize(size_t size) {
  return opened(
      [&] { return state().props.max_device_cache_size = static_cast<unsigned>(size), kFine; });
}
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t size) {
  return opened([&] {
    return state().props.max_device_pinned_mem_size = static_cast<unsigned>(size), kFine;
  });
}
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t, CUfileP2PFlags_t* flags) {
  return opened([&] { return *flags = CUFILE_NVFS, kFine; });
}
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t, CUfileP2PFlags_t) {
  return answer(kFine);
}
CUfileError_t cuFileExportPCIeTopology(const char*) {
  return answer(CU_FILE_PLATFORM_NOT_SUPPORTED);
}
CUfileError_t cuFileGetBARSizeInKB(int gpu, size_t* size) {
  return opened([&] {
    if (gpu != 0) return CU_FILE_DEVICE_NOT_FOUND;
    return *size = 262144, kFine;
  });
}

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  return opened([&] {
    if (descr == nullptr || descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
      return CU_FILE_INVALID_FILE_TYPE;
    struct stat about {};
    if (::fstat(descr->handle.fd, &about) != 0) return CU_FILE_INVALID_VALUE;
    *fh = *state().handles.insert(new Handle{descr->handle.fd}).first;
    if (state().counting) ++state().stats.detailed.basic.hdl_register_ops.ok;
    return kFine;
  });
}
void cuFileHandleDeregister(CUfileHandle_t fh) {
  const std::lock_guard lock{state().mutex};
  if (state().handles.erase(fh) != 0) delete static_cast<Handle*>(fh);
}
CUfileError_t cuFileBufRegister(const void* base, size_t length, int flags) {
  return opened([&] {
    if (base == nullptr || length == 0 || flags != 0) return CU_FILE_INVALID_VALUE;
    return state().buffers.emplace(base, length).second ? kFine : CU_FILE_MEMORY_ALREADY_REGISTERED;
  });
}
CUfileError_t cuFileBufDeregister(const void* base) {
  return opened(
      [&] { return state().buffers.erase(base) != 0 ? kFine : CU_FILE_MEMORY_NOT_REGISTERED; });
}

ssize_t cuFileRead(CUfileHandle_t fh, void* base, size_t size, off_t at, off_t offset) {
  const std::lock_guard lock{state().mutex};
  return transfer(fh, static_cast<char*>(base) + offset, size, at, false);
}
ssize_t cuFileWrite(CUfileHandle_t fh, const void* base, size_t size, off_t at, off_t offset) {
  const std::lock_guard lock{state().mutex};
  return transfer(fh, static_cast<char*>(const_cast<void*>(base)) + offset, size, at, true);
}
ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t n, off_t at,
                    unsigned flags) {
  const std::lock_guard lock{state().mutex};
  return vector_transfer(fh, iov, n, at, flags, false);
}
ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t n, off_t at,
                     unsigned flags) {
  const std::lock_guard lock{state().mutex};
  return vector_transfer(fh, iov, n, at, flags, true);
}
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* base, size_t* size, off_t* at, off_t* offset,
                              ssize_t* moved, CUstream stream) {
  return async_transfer(fh, base, size, at, offset, moved, stream, false);
}
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* base, size_t* size, off_t* at,
                               off_t* offset, ssize_t* moved, CUstream stream) {
  return async_transfer(fh, base, size, at, offset, moved, stream, true);
}
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  return opened([&] {
    if (flags > 15) return CU_FILE_INVALID_VALUE;
    return state().streams.insert(stream), kFine;
  });
}
CUfileError_t cuFileStreamDeregister(CUstream stream) {
  return opened([&] { return state().streams.erase(stream) != 0 ? kFine : CU_FILE_INVALID_VALUE; });
}

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch, unsigned n) {
  return opened([&] {
    if (n == 0 || n > state().props.max_batch_io_size) return CU_FILE_INTERNAL_BATCH_SETUP_ERROR;
    *batch = *state().batches.insert(new Batch{n, {}}).first;
    return kFine;
  });
}
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch, unsigned n, CUfileIOParams_t* what,
                                  unsigned flags) {
  return opened([&] {
    if (state().batches.count(batch) == 0 || flags != 0) return CU_FILE_INVALID_VALUE;
    auto* b = static_cast<Batch*>(batch);
    if (b->done.size() + n > b->room) return CU_FILE_BATCH_FULL;
    for (unsigned i = 0; i < n; ++i) {
      const auto& io = what[i].u.batch;
      const ssize_t moved =
          transfer(what[i].fh, static_cast<char*>(io.devPtr_base) + io.devPtr_offset, io.size,
                   io.file_offset, what[i].opcode == CUFILE_WRITE);
      b->done.push_back({what[i].cookie, moved < 0 ? CUFILE_FAILED : CUFILE_COMPLETE,
                         static_cast<size_t>(moved)});
    }
    return kFine;
  });
}
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch, unsigned at_least, unsigned* n,
                                     CUfileIOEvents_t* events, struct timespec*) {
  return opened([&] {
    if (state().batches.count(batch) == 0 || n == nullptr || *n < at_least)
      return CU_FILE_INVALID_VALUE;
    auto* b = static_cast<Batch*>(batch);
    *n = static_cast<unsigned>(std::min<std::size_t>(*n, b->done.size()));
    std::copy_n(b->done.begin(), *n, events);
    b->done.erase(b->done.begin(), b->done.begin() + *n);
    return kFine;
  });
}
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch) {
  return opened([&] { return state().batches.count(batch) != 0 ? kFine : CU_FILE_INVALID_VALUE; });
}
void cuFileBatchIODestroy(CUfileBatchHandle_t batch) {
  const std::lock_guard lock{state().mutex};
  if (state().batches.erase(batch) != 0) delete static_cast<Batch*>(batch);
}

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t p, bool* value) {
  return *value = state().bools[p], answer(kFine);
}
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t p, bool value) {
  if (is_open()) return answer(CU_FILE_DRIVER_ALREADY_OPEN);  // parameters must be set before
  return state().bools[p] = value, answer(kFine);
}
CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t p, size_t* value) {
  return *value = state().sizes[p], answer(kFine);
}
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t p, size_t value) {
  if (is_open()) return answer(CU_FILE_DRIVER_ALREADY_OPEN);
  return state().sizes[p] = value, answer(kFine);
}
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t p, size_t* least,
                                            size_t* most) {
  return *least = 1, *most = 1000 + static_cast<size_t>(p), answer(kFine);
}
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t p, char* text, int room) {
  const std::string& value = state().strings[p];
  if (room <= static_cast<int>(value.size())) return answer(CU_FILE_INVALID_VALUE);
  std::memcpy(text, value.c_str(), value.size() + 1);
  return answer(kFine);
}
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t p, const char* text) {
  return state().strings[p] = text, answer(kFine);
}
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* sizes, size_t* counts, int n) {
  const State& s = state();
  if (n != static_cast<int>(s.slab_sizes.size())) return answer(CU_FILE_INVALID_VALUE);
  std::copy(s.slab_sizes.begin(), s.slab_sizes.end(), sizes);
  std::copy(s.slab_counts.begin(), s.slab_counts.end(), counts);
  return answer(kFine);
}
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* sizes, const size_t* counts,
                                                   int n) {
  state().slab_sizes.assign(sizes, sizes + n);
  state().slab_counts.assign(counts, counts + n);
  return answer(kFine);
}
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* sizes, size_t* counts, int n) {
  return cuFileGetParameterPosixPoolSlabArray(sizes, counts, n);
}
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* sizes, const size_t* counts,
                                                         int n) {
  return cuFileSetParameterPosixPoolSlabArray(sizes, counts, n);
}

CUfileError_t cuFileSetStatsLevel(int level) {
  if (level < 0 || level > 3) return answer(CU_FILE_INVALID_VALUE);
  return state().level = level, answer(kFine);
}
CUfileError_t cuFileGetStatsLevel(int* level) { return *level = state().level, answer(kFine); }
CUfileError_t cuFileStatsStart(void) { return state().counting = true, answer(kFine); }
CUfileError_t cuFileStatsStop(void) { return state().counting = false, answer(kFine); }
CUfileError_t cuFileStatsReset(void) { return state().stats = {}, answer(kFine); }
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
  return opened([&] {
    return state().level < 1 ? CU_FILE_INVALID_VALUE
                             : (*stats = state().stats.detailed.basic, kFine);
  });
}
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
  return opened([&] {
    return state().level < 2 ? CU_FILE_INVALID_VALUE : (*stats = state().stats.detailed, kFine);
  });
}
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
  return opened([&] {
    if (state().level < 3) return CU_FILE_INVALID_VALUE;
    *stats = state().stats;
    stats->num_gpus = 1;
    stats->per_gpu_stats[0].read_bytes = stats->detailed.basic.read_bytes;
    return kFine;
  });
}
}  // extern "C"
