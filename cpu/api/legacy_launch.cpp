// SPDX-License-Identifier: Apache-2.0
// Launches of the first CUDA versions: shape and arguments of a function are set one by one, then
// cuLaunch runs it. Also the cooperative launch on several devices.
#include <cstring>
#include <set>
#include <vector>

#include "cpu/device/guard.hpp"
#include "cpu/device/module.hpp"

using namespace cucpu::driver;

namespace {

constexpr unsigned kMaxParamBytes = 4096;

/// Runs `f` with the launch state of a function, locked.
template <class F>
CUresult edit(CUfunction handle, F f, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        current_context();
        Function::LegacyLaunch& old = function_of(handle).legacy_launch;
        const std::lock_guard lock{old.mutex};
        f(old);
      },
      function);
}

void put(Function::LegacyLaunch& old, int offset, const void* bytes, std::size_t count) {
  require(bytes && offset >= 0 && static_cast<unsigned>(offset) <= kMaxParamBytes &&
          count <= kMaxParamBytes - static_cast<unsigned>(offset));
  if (old.params.size() < static_cast<std::size_t>(offset) + count)
    old.params.resize(static_cast<std::size_t>(offset) + count);
  std::memcpy(old.params.data() + offset, bytes, count);
}

CUresult launch(CUfunction handle, int width, int height, CUstream stream,
                const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&]() -> CUresult {
        require(width > 0 && height > 0);
        current_context();
        Function::LegacyLaunch& old = function_of(handle).legacy_launch;
        unsigned block[3], shared;
        std::vector<std::byte> params;
        {
          const std::lock_guard lock{old.mutex};
          std::memcpy(block, old.block, sizeof block);
          shared = old.shared;
          params = old.params;
        }
        std::size_t bytes = params.size();
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &bytes, CU_LAUNCH_PARAM_END};
        return cuLaunchKernel(handle, static_cast<unsigned>(width), static_cast<unsigned>(height),
                              1, block[0], block[1], block[2], shared, stream, nullptr,
                              bytes ? extra : nullptr);
      },
      function);
}

/// A barrier: every stream continues only when all have arrived.
void join(const std::vector<Ref<Stream>>& streams) {
  std::vector<std::uint64_t> numbers;
  for (const auto& stream : streams) numbers.push_back(stream->submitted());
  for (const auto& stream : streams)
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (streams[i] != stream) stream->submit(make_object<WaitOp>(streams[i], numbers[i]));
}

}  // namespace

extern "C" {

CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z) {
  return edit(f, [&](Function::LegacyLaunch& old) {
    require(x > 0 && y > 0 && z > 0);
    old.block[0] = static_cast<unsigned>(x), old.block[1] = static_cast<unsigned>(y),
    old.block[2] = static_cast<unsigned>(z);
  });
}

CUresult cuFuncSetSharedSize(CUfunction f, unsigned int bytes) {
  return edit(f, [&](Function::LegacyLaunch& old) { old.shared = bytes; });
}

CUresult cuParamSetSize(CUfunction f, unsigned int bytes) {
  return edit(f, [&](Function::LegacyLaunch& old) {
    require(bytes <= kMaxParamBytes);
    old.params.resize(bytes);
  });
}

CUresult cuParamSeti(CUfunction f, int offset, unsigned int value) {
  return edit(f, [&](Function::LegacyLaunch& old) { put(old, offset, &value, sizeof value); });
}

CUresult cuParamSetf(CUfunction f, int offset, float value) {
  return edit(f, [&](Function::LegacyLaunch& old) { put(old, offset, &value, sizeof value); });
}

CUresult cuParamSetv(CUfunction f, int offset, void* bytes, unsigned int count) {
  return edit(f, [&](Function::LegacyLaunch& old) { put(old, offset, bytes, count); });
}

CUresult cuLaunch(CUfunction f) { return launch(f, 1, 1, nullptr); }

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  return launch(f, width, height, nullptr);
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  return launch(f, width, height, stream);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned int count,
                                              unsigned int flags) {
  return guarded([&]() -> CUresult {
    constexpr unsigned kKnown = CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                                CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC;
    require(list && count > 0 && count <= static_cast<unsigned>(device_count()) &&
            (flags & ~kKnown) == 0);
    std::vector<Ref<Stream>> streams;
    std::set<int> devices;
    for (unsigned i = 0; i < count;
         ++i) {  // one launch per device, equal shapes, no default streams
      const CUDA_LAUNCH_PARAMS &a = list[0], &p = list[i];
      const Ref<Stream> stream = stream_of(p.hStream);
      require(stream->role() == StreamRole::created, CUDA_ERROR_INVALID_HANDLE);
      require(devices.insert(context_of(*stream).device.ordinal).second, CUDA_ERROR_INVALID_DEVICE);
      require(p.gridDimX == a.gridDimX && p.gridDimY == a.gridDimY && p.gridDimZ == a.gridDimZ &&
              p.blockDimX == a.blockDimX && p.blockDimY == a.blockDimY &&
              p.blockDimZ == a.blockDimZ && p.sharedMemBytes == a.sharedMemBytes);
      streams.push_back(stream);
    }
    if (!(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC)) join(streams);
    for (unsigned i = 0; i < count; ++i) {
      const CUDA_LAUNCH_PARAMS& p = list[i];
      const CUresult result = cuLaunchCooperativeKernel(
          p.function, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
          p.sharedMemBytes, p.hStream, p.kernelParams);
      if (result != CUDA_SUCCESS) return result;
    }
    if (!(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)) join(streams);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
