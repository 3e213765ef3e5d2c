// SPDX-License-Identifier: Apache-2.0
// support.hpp: a device to test on, and kernels written in PTX so that no compiler is needed.
#pragma once

#include <gtest/gtest.h>

#include "cucore/device.hpp"
#include "cucore/error.hpp"
#include "cucore/object_code.hpp"

namespace cucore::testing {

/// Skips a test on a machine that has no device at all.
class WithDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      if (Device::count() == 0) GTEST_SKIP() << "no device";
    } catch (const DriverNotFoundError& error) {
      GTEST_SKIP() << error.what();
    }
    Device{0}.set_current();
  }
};

inline constexpr const char* kAddPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_value(.param .u64 data, .param .u32 value, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data];
  ld.param.u32 %r0, [value];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  cvta.to.global.u64 %rd1, %rd0;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.u32 %r6, [%rd1];
  add.u32 %r6, %r6, %r0;
  st.global.u32 [%rd1], %r6;
done:
  ret;
}
)";

}  // namespace cucore::testing
