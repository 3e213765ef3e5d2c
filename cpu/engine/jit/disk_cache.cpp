// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/disk_cache.cpp
#include "cpu/engine/jit/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/SHA256.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "protection.hpp"

namespace cucpu {
namespace {

constexpr std::string_view kMagic = "cucore object 1\n";
constexpr std::size_t kHeader = 16 + 64;
constexpr off_t kLargest = off_t{256} << 20;
constexpr const char* kCount = "count";

class File {
 public:
  explicit File(int fd) : fd_{fd} {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

void make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

bool ours(int fd, mode_t kind) {
  struct stat info {};
  return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == kind && info.st_uid == geteuid() &&
         (info.st_mode & 022) == 0;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool is_entry(std::string_view name) {
  return name.size() == 66 && name.ends_with(".o") &&
         name.find_first_not_of("0123456789abcdef") == 64;
}

}  // namespace

std::string digest(std::string_view text) {
  const auto bytes = llvm::SHA256::hash(
      llvm::ArrayRef{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::string hex;
  for (const std::uint8_t byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

DiskCache::DiskCache(const std::string& folder, std::uint64_t limit) : limit_{limit} {
  if (folder.empty() || limit == 0) return;
  make_folders(folder);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    close(fd);
    return;
  }
  folder_ = fd;
}

DiskCache::~DiskCache() {
  if (folder_ >= 0) close(folder_);
}

std::optional<std::string> DiskCache::get(const std::string& key) const {
  if (!usable()) return std::nullopt;
  const File file{
      openat(folder_, (key + ".o").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  if (!file || !ours(file.get(), S_IFREG)) return std::nullopt;
  struct stat info {};
  fstat(file.get(), &info);
  if (info.st_size < static_cast<off_t>(kHeader) || info.st_size > kLargest) return std::nullopt;
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = read(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    done += static_cast<std::size_t>(n);
  }
  const std::string_view view{text};
  if (!view.starts_with(kMagic)) return std::nullopt;
  // The digest covers the key, so a renamed entry is invalid.
  std::string covered = key;
  covered.append(view.substr(kHeader));
  if (CUCORE_PROTECTION("cache-entry-digest") && digest(covered) != view.substr(kMagic.size(), 64))
    return std::nullopt;
  futimens(file.get(), nullptr);  // for eviction of the least recently used entry
  return text.substr(kHeader);
}

void DiskCache::put(const std::string& key, std::string_view content) noexcept try {
  if (!usable()) return;
  static std::atomic<unsigned> count{0};
  const std::string temporary =
      "tmp." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1));
  {
    const File file{openat(folder_, temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file) return;
    std::string covered = key;
    covered.append(content);
    if (!write_all(file.get(), kMagic) || !write_all(file.get(), digest(covered)) ||
        !write_all(file.get(), content)) {
      unlinkat(folder_, temporary.c_str(), 0);
      return;
    }
  }
  if (renameat(folder_, temporary.c_str(), folder_, (key + ".o").c_str()) != 0)
    unlinkat(folder_, temporary.c_str(), 0);
  if (grown(kHeader + content.size())) evict();
} catch (...) {
}

/// With thousands of entries a scan of the folder takes longer than compiling. So a file holds the
/// size of the cache: its length is the sum of all entries in KiB, rounded up. A writer of an entry
/// extends it with one atomic operation, and a scan sets the true length.
bool DiskCache::grown(std::uint64_t bytes) {
  const File count{
      openat(folder_, kCount, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!count) return true;
  struct stat info {};
  if (fstat(count.get(), &info) != 0) return true;
  if (!write_all(count.get(), std::string((bytes + 1023) / 1024, '\0'))) return true;
  const auto before = static_cast<std::uint64_t>(info.st_size);
  return before == 0 || before * 1024 + bytes > limit_;  // a new file: no scan has set it
}

void DiskCache::evict() {
  const int copy = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* folder = fdopendir(copy);
  if (!folder) {
    close(copy);
    return;
  }
  struct Entry {
    std::string name;
    std::uint64_t bytes;
    timespec used;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  while (const dirent* item = readdir(folder)) {
    struct stat info {};
    if (!is_entry(item->d_name) || fstatat(folder_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    entries.push_back({item->d_name, bytes, info.st_mtim});
    total += bytes;
  }
  closedir(folder);
  looks_.fetch_add(1, std::memory_order_relaxed);
  if (total <= limit_) return count_is(total);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                          : a.used.tv_nsec < b.used.tv_nsec;
  });
  for (const Entry& entry : entries) {
    if (total <= limit_ - limit_ / 4) break;
    if (unlinkat(folder_, entry.name.c_str(), 0) == 0) total -= entry.bytes;
  }
  count_is(total);
}

void DiskCache::count_is(std::uint64_t bytes) const {
  const File count{openat(folder_, kCount, O_WRONLY | O_NOFOLLOW | O_CLOEXEC)};
  if (!count || !ours(count.get(), S_IFREG)) return;
  // A sparse file, which needs no disk space. If it cannot be written the old size stays, and the
  // next scan comes earlier or later than necessary.
  if (ftruncate(count.get(), static_cast<off_t>(bytes / 1024 + 1)) != 0) return;
}

}  // namespace cucpu
