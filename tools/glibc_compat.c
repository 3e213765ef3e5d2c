/* SPDX-License-Identifier: Apache-2.0 */
/* glibc_compat.c: functions and variables of newer glibcs, for libraries that must run with glibc 2.28 (tools/link_stubs.py).
   Linked statically and hidden. Each is what glibc's own is, or a correct, slower form of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 2.30. */
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* 2.30. Waits with glibc's own function where there is one. Else the deadline is converted to the clock that pthread_cond_timedwait
   uses; a wait that ends too early because that clock was set is a spurious wakeup, which callers expect. */
typedef int ClockWait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  static _Atomic(ClockWait*) known = NULL;
  ClockWait* own = known;
  if (own == NULL) {
    own = (ClockWait*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    if (own == NULL) own = (ClockWait*)-1;
    known = own;
  }
  if (own != (ClockWait*)-1) return own(cond, mutex, clock, deadline);
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(cond, mutex, deadline);
  struct timespec now, other;
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  clock_gettime(CLOCK_REALTIME, &other);
  const int64_t second = 1000000000;
  int64_t left = (deadline->tv_sec - now.tv_sec) * second + deadline->tv_nsec - now.tv_nsec;
  if (left < 0) left = 0;
  const int64_t nanoseconds = other.tv_nsec + left % second;
  const struct timespec converted = {other.tv_sec + left / second + nanoseconds / second, nanoseconds % second};
  const int result = pthread_cond_timedwait(cond, mutex, &converted);
  if (result != ETIMEDOUT) return result;
  clock_gettime(clock, &now);
  const int reached = now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
  return reached ? ETIMEDOUT : 0;
}

/* 2.32. Zero: reference counts are always atomic. */
char __libc_single_threaded = 0;

/* 2.33. Before, these were inline functions in the headers. The kernel's struct is glibc's on 64-bit systems. */
int fstatat(int folder, const char* path, struct stat* out, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}
int stat(const char* path, struct stat* out) { return fstatat(AT_FDCWD, path, out, 0); }
int lstat(const char* path, struct stat* out) { return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW); }
int fstat(int file, struct stat* out) { return (int)syscall(SYS_fstat, file, out); }

/* 2.33. mallinfo() counts in int. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct mallinfo2 mallinfo2(void) {
  const struct mallinfo small = mallinfo();
  const struct mallinfo2 wide = {
      .arena = (unsigned)small.arena,       .ordblks = (unsigned)small.ordblks,   .smblks = (unsigned)small.smblks,
      .hblks = (unsigned)small.hblks,       .hblkhd = (unsigned)small.hblkhd,     .usmblks = (unsigned)small.usmblks,
      .fsmblks = (unsigned)small.fsmblks,   .uordblks = (unsigned)small.uordblks, .fordblks = (unsigned)small.fordblks,
      .keepcost = (unsigned)small.keepcost,
  };
  return wide;
}

/* 2.36. */
uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) abort();
  return value;
}
