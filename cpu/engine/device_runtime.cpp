// SPDX-License-Identifier: Apache-2.0
// cpu/engine/device_runtime.cpp
#include "cpu/engine/device_runtime.hpp"

#include <algorithm>
#include <array>

namespace cucpu {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize",
                                                    "cudaCGSynchronizeGrid", "cudaCGGetSize",
                                                    "cudaCGGetRank"};

// The handle of a grid is the address of its workspace, whose second word is a barrier: the block
// with number 0 adds what the others leave to bit 31, so that this bit changes when all blocks have
// arrived.
constexpr std::string_view kText = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .b32 %scope, %high, %low;
  .reg .b64 %handle;
  .reg .pred %other;
  ld.param.b32 %scope, [scope];
  mov.b32 %high, %envreg1;
  mov.b32 %low, %envreg2;
  mov.b64 %handle, {%low, %high};
  setp.ne.u32 %other, %scope, 1;
  selp.b64 %handle, 0, %handle, %other;
  st.param.b64 [result], %handle;
  ret;
}

.visible .func (.param .b32 result) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags)
{
  .reg .b64 %handle;
  .reg .b32 %a, %b, %c, %blocks, %add, %old, %now, %code;
  .reg .pred %none, %skip, %zero, %again;
  ld.param.b64 %handle, [handle];
  mov.b32 %code, 1;
  setp.eq.s64 %none, %handle, 0;
  @%none bra END;
  barrier.sync 0;
  mov.u32 %a, %tid.x;
  mov.u32 %b, %tid.y;
  mov.u32 %c, %tid.z;
  or.b32 %a, %a, %b;
  or.b32 %a, %a, %c;
  setp.ne.u32 %skip, %a, 0;
  @%skip bra WAIT;
  mov.u32 %a, %nctaid.x;
  mov.u32 %b, %nctaid.y;
  mov.u32 %c, %nctaid.z;
  mul.lo.u32 %blocks, %a, %b;
  mul.lo.u32 %blocks, %blocks, %c;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ctaid.y;
  mov.u32 %c, %ctaid.z;
  or.b32 %a, %a, %b;
  or.b32 %a, %a, %c;
  setp.eq.u32 %zero, %a, 0;
  sub.u32 %add, 0x80000001, %blocks;
  selp.b32 %add, %add, 1, %zero;
  fence.acq_rel.gpu;
  atom.add.acq_rel.gpu.u32 %old, [%handle+4], %add;
SPIN:
  ld.acquire.gpu.u32 %now, [%handle+4];
  xor.b32 %now, %now, %old;
  setp.ge.s32 %again, %now, 0;
  @%again bra SPIN;
WAIT:
  barrier.sync 0;
  mov.b32 %code, 0;
END:
  st.param.b32 [result], %code;
  ret;
}

.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .b64 %handle;
  .reg .b32 %flags, %code;
  ld.param.b64 %handle, [handle];
  ld.param.b32 %flags, [flags];
  {
    .param .b64 grid;
    .param .b32 how;
    .param .b32 answer;
    st.param.b64 [grid], %handle;
    st.param.b32 [how], %flags;
    call.uni (answer), cudaCGSynchronizeGrid, (grid, how);
    ld.param.b32 %code, [answer];
  }
  st.param.b32 [result], %code;
  ret;
}

.visible .func (.param .b32 result) cudaCGGetSize(.param .b64 threads, .param .b64 grids,
                                                  .param .b64 handle)
{
  .reg .b64 %threads, %grids, %handle;
  .reg .b32 %a, %b, %c, %n, %code;
  .reg .pred %none;
  ld.param.b64 %threads, [threads];
  ld.param.b64 %grids, [grids];
  ld.param.b64 %handle, [handle];
  mov.b32 %code, 1;
  setp.eq.s64 %none, %handle, 0;
  @%none bra END;
  mov.b32 %code, 0;
  mov.u32 %a, %nctaid.x;
  mov.u32 %b, %nctaid.y;
  mov.u32 %c, %nctaid.z;
  mul.lo.u32 %n, %a, %b;
  mul.lo.u32 %n, %n, %c;
  mov.u32 %a, %ntid.x;
  mov.u32 %b, %ntid.y;
  mov.u32 %c, %ntid.z;
  mul.lo.u32 %n, %n, %a;
  mul.lo.u32 %n, %n, %b;
  mul.lo.u32 %n, %n, %c;
  setp.ne.s64 %none, %threads, 0;
  @%none st.u32 [%threads], %n;
  setp.ne.s64 %none, %grids, 0;
  @%none st.u32 [%grids], 1;
END:
  st.param.b32 [result], %code;
  ret;
}

.visible .func (.param .b32 result) cudaCGGetRank(.param .b64 thread, .param .b64 grid,
                                                  .param .b64 handle)
{
  .reg .b64 %thread, %grid, %handle;
  .reg .b32 %a, %b, %n, %code;
  .reg .pred %none;
  ld.param.b64 %thread, [thread];
  ld.param.b64 %grid, [grid];
  ld.param.b64 %handle, [handle];
  mov.b32 %code, 1;
  setp.eq.s64 %none, %handle, 0;
  @%none bra END;
  mov.b32 %code, 0;
  mov.u32 %n, %ctaid.z;
  mov.u32 %a, %nctaid.y;
  mov.u32 %b, %ctaid.y;
  mad.lo.u32 %n, %n, %a, %b;
  mov.u32 %a, %nctaid.x;
  mov.u32 %b, %ctaid.x;
  mad.lo.u32 %n, %n, %a, %b;
  mov.u32 %a, %ntid.z;
  mov.u32 %b, %tid.z;
  mad.lo.u32 %n, %n, %a, %b;
  mov.u32 %a, %ntid.y;
  mov.u32 %b, %tid.y;
  mad.lo.u32 %n, %n, %a, %b;
  mov.u32 %a, %ntid.x;
  mov.u32 %b, %tid.x;
  mad.lo.u32 %n, %n, %a, %b;
  setp.ne.s64 %none, %thread, 0;
  @%none st.u32 [%thread], %n;
  setp.ne.s64 %none, %grid, 0;
  @%none st.u32 [%grid], 0;
END:
  st.param.b32 [result], %code;
  ret;
}
)";

}  // namespace

std::string_view device_runtime_text() { return kText; }

bool needs_device_runtime(const ptx::Function& function) {
  return !function.defined && std::ranges::find(kNames, function.name) != kNames.end();
}

}  // namespace cucpu
