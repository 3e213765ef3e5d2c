/* SPDX-License-Identifier: Apache-2.0 */
/* cpu/ptxas/preload.c: libcucore_stand_ins.so, which `cucore run --cpu` loads into a program and
 * its children. Starting a program named ptxas starts cucore's instead, wherever it lies: packages
 * bring a ptxas of their own and start it by its path. tileiras compiles for sm_80: code for newer
 * targets has parameters that only NVIDIA's driver can set. nvcc keeps its own ptxas: fat binaries
 * hold PTX beside the machine code, and `nvcc --cubin` has a stand-in of its own. C, without other
 * libraries: it is part of every process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

static const char* base_name(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The program to start in place of `path`. */
static const char* replaced(const char* path) {
  if (!path) return path;
  const char* const stand_in = getenv("CUCORE_PTXAS");
  if (!stand_in || !*stand_in) return path;
  const char* const name = base_name(path);
  return strcmp(name, "ptxas") == 0 || strcmp(name, "ptxas-blackwell") == 0 ? stand_in : path;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int execve(const char* path, char* const arguments[], char* const environment[]) {
  return REAL(execve)(replaced(path), arguments, environment);
}

int execv(const char* path, char* const arguments[]) {
  return REAL(execve)(replaced(path), arguments, environ);
}

int execvp(const char* file, char* const arguments[]) {
  return REAL(execvp)(replaced(file), arguments);
}

int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  return REAL(execvpe)(replaced(file), arguments, environment);
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
  return REAL(posix_spawn)(pid, replaced(path), actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[],
                 char* const environment[]) {
  return REAL(posix_spawnp)(pid, replaced(file), actions, attributes, arguments, environment);
}

/* The program's arguments, changed before its main() reads them. "sm_80" is not longer than what it
 * replaces. */
static void retarget(char* target) {
  if (strncmp(target, "sm_", 3) == 0 && strlen(target) >= 5)
    memcpy(target, "sm_80", sizeof "sm_80");
}

__attribute__((constructor)) static void at_start(int count, char** arguments) {
  if (!arguments || count < 1 || !arguments[0] || !getenv("CUCORE_PTXAS")) return;
  if (strcmp(base_name(arguments[0]), "nvcc") == 0) unsetenv("CUCORE_PTXAS");
  if (strcmp(base_name(arguments[0]), "tileiras") != 0) return;
  static const char option[] = "--gpu-name";
  for (int i = 1; i < count; ++i) {
    if (strcmp(arguments[i], option) == 0 && i + 1 < count)
      retarget(arguments[i + 1]);
    else if (strncmp(arguments[i], option, sizeof option - 1) == 0 &&
             arguments[i][sizeof option - 1] == '=')
      retarget(arguments[i] + sizeof option);
  }
}
