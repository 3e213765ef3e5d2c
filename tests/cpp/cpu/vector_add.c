// SPDX-License-Identifier: Apache-2.0
/* A program that knows nothing of this project but the driver API: linked with -lcuda, adds two vectors with PTX. */
#include <stdio.h>
#include <stdlib.h>

#include "cucore/abi/driver.h"

static const char* const kPtx =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];\n"
    "  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;\n"
    "  setp.ge.s32 %p1, %r1, %r2; @%p1 bra DONE;\n"
    "  mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;\n"
    "  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd7], %f3;\n"
    "DONE: ret; }\n";

static void check(CUresult result, const char* call) {
  const char* name = "?";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}
#define CHECK(call) check(call, #call)

int main(void) {
  enum { kCount = 100000 };
  static float host[kCount];
  const size_t bytes = sizeof host;
  int count = kCount, i;
  CUcontext context;
  CUmodule module;
  CUfunction add;
  CUdeviceptr a, b, c;
  void* params[] = {&a, &b, &c, &count};
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&add, module, "add"));
  CHECK(cuMemAlloc(&a, bytes));
  CHECK(cuMemAlloc(&b, bytes));
  CHECK(cuMemAlloc(&c, bytes));
  for (i = 0; i < kCount; ++i) host[i] = (float)i;
  CHECK(cuMemcpyHtoD(a, host, bytes));
  for (i = 0; i < kCount; ++i) host[i] = (float)(2 * i);
  CHECK(cuMemcpyHtoD(b, host, bytes));
  CHECK(cuLaunchKernel(add, (kCount + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
  CHECK(cuMemcpyDtoH(host, c, bytes));
  for (i = 0; i < kCount; ++i)
    if (host[i] != 3.0f * (float)i) {
      fprintf(stderr, "element %d is %g\n", i, host[i]);
      return 1;
    }
  CHECK(cuDevicePrimaryCtxRelease(0));
  return 0;
}
