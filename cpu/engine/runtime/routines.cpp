// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/routines.cpp: the table of routines. Only addresses are taken, so all rows are
// declared with the same type.
#include "cpu/engine/runtime/table.hpp"

extern "C" {
#define CUCPU_ROUTINE(name) void name();
#include "cpu/engine/runtime/routines.def"
#undef CUCPU_ROUTINE

// Functions that LLVM's code generator calls.
// clang-format off
#define CUCPU_LIBCALLS(X) \
  X(memcpy) X(memmove) X(memset) X(memcmp) X(sin) X(cos) X(tan) X(exp) X(exp2) X(exp10) X(log) \
  X(log2) X(log10) X(pow) X(fmod) X(fma) X(sqrt) X(floor) X(ceil) X(trunc) X(rint) X(nearbyint) \
  X(round) X(roundeven) X(fmin) X(fmax) X(ldexp) X(frexp) X(sinf) X(cosf) X(tanf) X(expf) \
  X(exp2f) X(exp10f) X(logf) X(log2f) X(log10f) X(powf) X(fmodf) X(fmaf) X(sqrtf) X(floorf) \
  X(ceilf) X(truncf) X(rintf) X(nearbyintf) X(roundf) X(roundevenf) X(fminf) X(fmaxf) X(ldexpf) \
  X(frexpf) X(__divti3) X(__udivti3) X(__modti3) X(__umodti3) X(__multi3) X(__fixdfti) \
  X(__fixunsdfti) X(__fixsfti) X(__fixunssfti) X(__floattidf) X(__floatuntidf) X(__floattisf) \
  X(__floatuntisf)
// clang-format on
#define CUCPU_DECLARE(name) void name();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
CUCPU_LIBCALLS(CUCPU_DECLARE)
#pragma GCC diagnostic pop
#if defined(__x86_64__)
void __extendhfsf2();  // half precision without F16C
void __truncsfhf2();
void __truncdfhf2();
#endif
}

namespace cucpu::detail {

#define CUCPU_ROW(name) {#name, reinterpret_cast<const void*>(&::name)},
#define CUCPU_ROUTINE(name) CUCPU_ROW(name)
const Routine kRoutines[] = {
#include "cpu/engine/runtime/routines.def"
    CUCPU_LIBCALLS(CUCPU_ROW)
#if defined(__x86_64__)
        CUCPU_ROW(__extendhfsf2) CUCPU_ROW(__truncsfhf2) CUCPU_ROW(__truncdfhf2)
#endif
};

std::span<const Routine> table() { return kRoutines; }

}  // namespace cucpu::detail

namespace cucpu {
std::span<const Routine> routines() { return detail::table(); }
}  // namespace cucpu
