// SPDX-License-Identifier: Apache-2.0
// cpu/mem/sanitizer.hpp: CUCPU_ASAN or CUCPU_TSAN is defined in a build with that sanitizer. GCC
// and clang use different macros.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define CUCPU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUCPU_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define CUCPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CUCPU_TSAN 1
#endif
#endif
