// SPDX-License-Identifier: Apache-2.0
// system_linker.cpp: reads the dynamic linker's search path and cache. It never calls dlopen(),
// because a search must not execute a library's constructors.
#include "pathfinder/system_linker.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

namespace cucore::pathfinder {
namespace {

constexpr const char* kCacheFile = "/etc/ld.so.cache";
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

struct CacheHeader {
  char magic[20];
  std::uint32_t entries;
  std::uint32_t string_bytes;
  std::uint8_t flags;
  std::uint8_t padding[3];
  std::uint32_t extension_offset;
  std::uint32_t unused[3];
};
static_assert(sizeof(CacheHeader) == 48);

struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name;  // offsets from the start of the file
  std::uint32_t path;
  std::uint32_t os_version;
  std::uint64_t hwcap;
};
static_assert(sizeof(CacheEntry) == 24);

// The second byte of an entry's flags specifies the machine; the first is 3 for a glibc 2 library.
#if defined(__x86_64__)
constexpr std::int32_t kMachineFlags = 0x0303;
#elif defined(__aarch64__)
constexpr std::int32_t kMachineFlags = 0x0a03;
#else
constexpr std::int32_t kMachineFlags =
    -1;  // unknown: accepts every entry; dlopen() rejects files of other machines
#endif

std::string_view string_at(std::string_view bytes, std::size_t offset) {
  if (offset >= bytes.size()) return {};
  const auto rest = bytes.substr(offset);
  const auto end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
}

/// The linker's search folders. They are fixed at process start, so they are read once.
struct Folders {
  std::vector<std::string> first;     // run-time paths, LD_LIBRARY_PATH
  std::vector<std::string> defaults;  // built into the linker
};

Folders read_folders() {
  Folders folders;
  void* self = dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  if (self == nullptr) return folders;
  Dl_serinfo size;
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    const std::unique_ptr<std::byte[]> memory{new std::byte[size.dls_size]};
    auto* info = new (memory.get()) Dl_serinfo;
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(self, RTLD_DI_SERINFO, info) == 0) {
      for (unsigned i = 0; i < info->dls_cnt; ++i) {
        const Dl_serpath& path = info->dls_serpath[i];
        if (path.dls_name == nullptr || path.dls_name[0] != '/') continue;
        ((path.dls_flags & LA_SER_DEFAULT) != 0 ? folders.defaults : folders.first)
            .emplace_back(path.dls_name);
      }
    }
  }
  dlclose(self);
  return folders;
}

std::vector<std::string> cached_paths(std::string_view soname) {
  std::vector<std::string> paths;
  const int file = open(kCacheFile, O_RDONLY | O_CLOEXEC);
  if (file < 0) return paths;
  struct stat status;
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory != MAP_FAILED) {
      paths = paths_in_linker_cache({static_cast<const char*>(memory), bytes}, soname);
      munmap(memory, bytes);
    }
  }
  close(file);
  return paths;
}

}  // namespace

std::vector<std::string> paths_in_linker_cache(std::string_view bytes, std::string_view soname) {
  std::vector<std::string> paths;
  // Old glibc versions write a table in an older format before this one.
  const auto start = bytes.find(kMagic);
  if (start == std::string_view::npos) return paths;
  bytes.remove_prefix(start);
  if (bytes.size() < sizeof(CacheHeader)) return paths;
  CacheHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.entries > (bytes.size() - sizeof header) / sizeof(CacheEntry)) return paths;
  for (std::uint32_t i = 0; i < header.entries; ++i) {
    CacheEntry entry;
    std::memcpy(&entry, bytes.data() + sizeof header + i * sizeof entry, sizeof entry);
    if (kMachineFlags >= 0 && entry.flags != kMachineFlags) continue;
    if (string_at(bytes, entry.name) != soname) continue;
    const auto path = string_at(bytes, entry.path);
    if (path.starts_with('/')) paths.emplace_back(path);
  }
  return paths;
}

std::vector<std::string> linker_candidates(std::string_view soname) {
  static const Folders folders = read_folders();
  std::vector<std::string> candidates;
  for (const auto& folder : folders.first) candidates.push_back(folder + "/" + std::string{soname});
  for (auto& path : cached_paths(soname)) candidates.push_back(std::move(path));
  for (const auto& folder : folders.defaults)
    candidates.push_back(folder + "/" + std::string{soname});
  return candidates;
}

}  // namespace cucore::pathfinder
