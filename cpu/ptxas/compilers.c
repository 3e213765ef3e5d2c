/* SPDX-License-Identifier: Apache-2.0 */
/* cpu/ptxas/compilers.c: NVRTC and nvJitLink in programs that `cucore run --cpu` starts. Their
 * cubins carry PTX then: libcucore.so has functions that stand in for theirs (core/device_code.hpp)
 * and is loaded when a program first looks one of them up. Programs that are linked with the
 * libraries call the functions below; the others look them up with dlsym(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void* (*Lookup)(void*, const char*);
typedef void* (*InPlaceOf)(const char*, void*);

/* The linker's own dlsym. It cannot be looked up by dlsym: that is the function below. */
static Lookup linkers_dlsym(void) {
  static Lookup found; /* every thread finds the same */
  Lookup lookup = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
  static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (size_t i = 0; !lookup && i < sizeof versions / sizeof *versions; ++i)
    lookup = (Lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  __atomic_store_n(&found, lookup, __ATOMIC_RELEASE);
  return lookup;
}

/* libcucore.so.0 lies in the folder above this library's. */
static InPlaceOf load_cucore(void) {
  Dl_info info;
  if (!dladdr((void*)&load_cucore, &info) || !info.dli_fname) return NULL;
  static const char name[] = "/../libcucore.so.0"; /* libcucore.so is a linker script in a wheel */
  const char* const slash = strrchr(info.dli_fname, '/');
  const size_t folder = slash ? (size_t)(slash - info.dli_fname) : 0;
  char* const path = slash ? malloc(folder + sizeof name) : NULL;
  if (!path) return NULL;
  memcpy(path, info.dli_fname, folder);
  memcpy(path + folder, name, sizeof name);
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  free(path);
  return library ? (InPlaceOf)linkers_dlsym()(library, "cucore_in_place_of") : NULL;
}

static InPlaceOf cucore(void) {
  static InPlaceOf found;
  InPlaceOf in_place_of = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
  if (!in_place_of) {
    in_place_of = load_cucore();
    __atomic_store_n(&found, in_place_of, __ATOMIC_RELEASE);
  }
  return in_place_of;
}

/* libcucore.so looks the libraries' own functions up while it is asked. */
static __thread int asking;

static void* in_place_of(const char* name, void* address) {
  if (!address || asking || !getenv("CUCORE_PTXAS")) return address;
  asking = 1;
  const InPlaceOf ask = cucore();
  void* const result = ask ? ask(name, address) : address;
  asking = 0;
  return result;
}

/* The function of the library that the process has loaded. Where it has several releases, the
 * newest. */
static void* loaded_function(const char* name) {
  static const char* const nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL};
  static const char* const nvjitlink[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", NULL};
  for (const char* const* library = strncmp(name, "nvrtc", 5) == 0 ? nvrtc : nvjitlink; *library;
       ++library) {
    void* const handle = dlopen(*library, RTLD_LAZY | RTLD_NOLOAD);
    void* const address = handle ? linkers_dlsym()(handle, name) : NULL;
    if (address) return address;
  }
  return NULL;
}

/* ---- programs that are linked with the libraries */

enum { kNvrtcInternalError = 11, kNvJitLinkInternalError = 6 };

#define FORWARD(name, parameters, arguments, failure)                      \
  int name parameters {                                                    \
    static int(*found) parameters;                                         \
    int(*function) parameters = __atomic_load_n(&found, __ATOMIC_ACQUIRE); \
    if (!function) {                                                       \
      *(void**)&function = in_place_of(#name, loaded_function(#name));     \
      if (!function) return failure;                                       \
      if (!asking) __atomic_store_n(&found, function, __ATOMIC_RELEASE);   \
    }                                                                      \
    return function arguments;                                             \
  }

#define NVRTC(name, parameters, arguments) FORWARD(name, parameters, arguments, kNvrtcInternalError)
NVRTC(nvrtcGetCUBINSize, (void* program, size_t* size), (program, size))
NVRTC(nvrtcGetCUBIN, (void* program, char* cubin), (program, cubin))
NVRTC(nvrtcCompileProgram, (void* program, int count, const char* const* options),
      (program, count, options))
NVRTC(nvrtcDestroyProgram, (void** program), (program))

/* The header of every release of nvJitLink links a name of its own: __nvJitLinkCreate_13_0. */
#define NVJITLINK(suffixed, parameters, arguments) \
  FORWARD(suffixed, parameters, arguments, kNvJitLinkInternalError)
#define RELEASES(name, major, parameters, arguments)       \
  NVJITLINK(__##name##_##major##_0, parameters, arguments) \
  NVJITLINK(__##name##_##major##_1, parameters, arguments) \
  NVJITLINK(__##name##_##major##_2, parameters, arguments) \
  NVJITLINK(__##name##_##major##_3, parameters, arguments) \
  NVJITLINK(__##name##_##major##_4, parameters, arguments) \
  NVJITLINK(__##name##_##major##_5, parameters, arguments) \
  NVJITLINK(__##name##_##major##_6, parameters, arguments) \
  NVJITLINK(__##name##_##major##_7, parameters, arguments) \
  NVJITLINK(__##name##_##major##_8, parameters, arguments) \
  NVJITLINK(__##name##_##major##_9, parameters, arguments)
#define EVERY_RELEASE(name, parameters, arguments) \
  NVJITLINK(name, parameters, arguments)           \
  RELEASES(name, 12, parameters, arguments)        \
  RELEASES(name, 13, parameters, arguments)
EVERY_RELEASE(nvJitLinkCreate, (void** handle, uint32_t count, const char** options),
              (handle, count, options))
EVERY_RELEASE(nvJitLinkDestroy, (void** handle), (handle))
EVERY_RELEASE(nvJitLinkAddData,
              (void* handle, int type, const void* data, size_t size, const char* name),
              (handle, type, data, size, name))
EVERY_RELEASE(nvJitLinkAddFile, (void* handle, int type, const char* name), (handle, type, name))
EVERY_RELEASE(nvJitLinkGetLinkedCubinSize, (void* handle, size_t* size), (handle, size))
EVERY_RELEASE(nvJitLinkGetLinkedCubin, (void* handle, void* cubin), (handle, cubin))

/* ---- programs that load the libraries */

/* Whether a function of that name stands above: libcucore.so decides about every other name. */
static int may_be_replaced(const char* name) {
  return strncmp(name, "nvrtc", 5) == 0 || strncmp(name, "nvJitLink", 9) == 0 ||
         strncmp(name, "__nvJitLink", 11) == 0;
}

static int is_of_this_library(const void* address) {
  Dl_info theirs, own;
  return dladdr(address, &theirs) && dladdr((void*)&is_of_this_library, &own) &&
         theirs.dli_fbase == own.dli_fbase;
}

__attribute__((noinline)) static void* look_up(void* handle, const char* name) {
  void* address = linkers_dlsym()(handle, name);
  /* The functions above do not mean that a library is there. */
  if (address && is_of_this_library(address)) address = loaded_function(name);
  return in_place_of(name, address);
}

/* RTLD_NEXT and RTLD_DEFAULT depend on the caller, whom the linker finds by the return address: all
 * other names are a jump to the linker's function, not a call (-foptimize-sibling-calls). */
void* dlsym(void* restrict handle, const char* restrict name) {
  if (!asking && (name[0] == 'n' || name[0] == '_') && handle != RTLD_NEXT && may_be_replaced(name))
    return look_up(handle, name);
  return linkers_dlsym()(handle, name);
}
