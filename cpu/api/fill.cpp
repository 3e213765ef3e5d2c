// SPDX-License-Identifier: Apache-2.0
// cuMemset*.
#include "cpu/device/fill.hpp"

#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/submit.hpp"

using namespace cucpu::driver;

namespace {

CUresult now(CUdeviceptr dst, std::size_t pitch, unsigned value, unsigned element,
             std::size_t width, std::size_t height, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        current_context();
        run_synchronously(make_fill({dst, pitch, value, element, width, height}));
      },
      function);
}

// Not inlined, so that the guard is.
[[gnu::noinline]] CUresult later(CUdeviceptr dst, std::size_t pitch, unsigned value,
                                 unsigned element, std::size_t width, std::size_t height,
                                 CUstream handle, const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        const Ref<Stream> stream = stream_of(handle);
        submit(*stream, make_fill({dst, pitch, value, element, width, height}));
      },
      function);
}

}  // namespace

extern "C" {

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char v, size_t n) { return now(dst, 0, v, 1, n, 1); }
CUresult cuMemsetD16(CUdeviceptr dst, unsigned short v, size_t n) {
  return now(dst, 0, v, 2, n, 1);
}
CUresult cuMemsetD32(CUdeviceptr dst, unsigned int v, size_t n) { return now(dst, 0, v, 4, n, 1); }
CUresult cuMemsetD2D8(CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h) {
  return now(dst, pitch, v, 1, w, h);
}
CUresult cuMemsetD2D16(CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h) {
  return now(dst, pitch, v, 2, w, h);
}
CUresult cuMemsetD2D32(CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h) {
  return now(dst, pitch, v, 4, w, h);
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char v, size_t n, CUstream s) {
  return later(dst, 0, v, 1, n, 1, s);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short v, size_t n, CUstream s) {
  return later(dst, 0, v, 2, n, 1, s);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int v, size_t n, CUstream s) {
  return later(dst, 0, v, 4, n, 1, s);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h,
                           CUstream s) {
  return later(dst, pitch, v, 1, w, h, s);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h,
                            CUstream s) {
  return later(dst, pitch, v, 2, w, h, s);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h,
                            CUstream s) {
  return later(dst, pitch, v, 4, w, h, s);
}

}  // extern "C"
