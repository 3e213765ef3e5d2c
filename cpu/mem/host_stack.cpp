// SPDX-License-Identifier: Apache-2.0
// cpu/mem/host_stack.cpp
#include "cpu/mem/host_stack.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cucpu {
namespace {

/// The function that faulthandler uses: it writes the frames of a thread to a file, and needs no
/// lock of the interpreter.
std::string python_stack() {
  using ThreadState = void*();
  using Dump = void(int, void*);
  auto* const state =
      reinterpret_cast<ThreadState*>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  auto* const dump = reinterpret_cast<Dump*>(dlsym(RTLD_DEFAULT, "_Py_DumpTraceback"));
  void* const thread = state && dump ? state() : nullptr;
  if (!thread) return {};
  const int file = memfd_create("cucore-stack", MFD_CLOEXEC);
  if (file < 0) return {};
  dump(file, thread);
  std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  const bool read = pread(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  close(file);
  if (!read) return {};
  constexpr std::string_view kTitle = "Stack (most recent call first):\n";
  if (text.starts_with(kTitle)) text.erase(0, kTitle.size());
  return text;
}

std::string name_of(const Dl_info& info, const void* address) {
  if (!info.dli_sname) return "?";
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> plain{
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free};
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<std::size_t>(static_cast<const char*>(address) -
                                         static_cast<const char*>(info.dli_saddr)));
  return (status == 0 ? plain.get() : info.dli_sname) + std::string{offset};
}

std::string native_stack() {
  constexpr int kMost = 32;
  void* frames[kMost];
  const int count = backtrace(frames, kMost);
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&host_stack), &own);
  std::string text;
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (!dladdr(frames[i], &info) || !info.dli_fname) continue;
    if (own.dli_fbase == info.dli_fbase && own.dli_fname &&
        std::strstr(own.dli_fname, "libcucore_cpu"))
      continue;
    text += "  " + name_of(info, frames[i]) + " in " + info.dli_fname + "\n";
  }
  return text;
}

}  // namespace

std::string host_stack() {
  std::string text = python_stack();
  return text.empty() ? native_stack() : text;
}

namespace allocation_stacks {
namespace {

struct Stacks {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::string> by_allocation;

  static Stacks& get() {
    static auto* const stacks = new Stacks;
    return *stacks;
  }
};

}  // namespace

void record(std::uint64_t allocation) {
  std::string stack = host_stack();
  Stacks& stacks = Stacks::get();
  const std::lock_guard lock{stacks.mutex};
  stacks.by_allocation[allocation] = std::move(stack);
}

std::string of(std::uint64_t allocation) {
  Stacks& stacks = Stacks::get();
  const std::lock_guard lock{stacks.mutex};
  const auto found = stacks.by_allocation.find(allocation);
  return found == stacks.by_allocation.end() ? std::string{} : found->second;
}

}  // namespace allocation_stacks
}  // namespace cucpu
