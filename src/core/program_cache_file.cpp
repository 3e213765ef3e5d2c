// SPDX-License-Identifier: Apache-2.0
// program_cache_file.cpp: the on-disk program cache. All file operations are relative to a file
// descriptor of its folder, so that the folder that was checked is the one that is used. Symbolic
// links are not followed.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "core/cache_folder.hpp"
#include "core/private_folders.hpp"
#include "core/sha256.hpp"
#include "cucore/program_cache.hpp"
#include "protection.hpp"

namespace cucore {
namespace {

constexpr std::string_view kMagic = "cucore program cache 1\n";
constexpr std::string_view kTemporary = ".new-";
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kNameLength = 64;  // hexadecimal SHA-256

class Descriptor {
 public:
  explicit Descriptor(int value) : value_{value} {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

[[noreturn]] void fail_system(const std::string& what) {
  throw std::system_error{errno, std::generic_category(), what};
}

std::filesystem::path default_folder() {
  if (const auto folder = detail::user_cache_folder()) return *folder / "programs";
  throw std::runtime_error{
      "a program cache needs a folder: neither XDG_CACHE_HOME nor HOME is set"};
}

std::string file_name(std::string_view key) { return detail::hex(detail::sha256(key)); }

bool is_entry(std::string_view name) {
  return name.size() == kNameLength && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<std::string> read_all(int file, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(file, bytes.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

void write_all(int file, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_system(what);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

struct FileStreamProgramCache::State {
  std::filesystem::path path;
  std::optional<std::uint64_t> limit;
  int folder = -1;

  ~State() {
    if (folder >= 0) ::close(folder);
  }

  struct Entry {
    std::string name;
    timespec used;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries() const {
    std::vector<Entry> list;
    const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) fail_system("cannot list " + path.string());
    DIR* stream = ::fdopendir(copy);
    if (stream == nullptr) {
      ::close(copy);
      fail_system("cannot list " + path.string());
    }
    while (const dirent* row = ::readdir(stream)) {
      struct stat status;
      if (!is_entry(row->d_name) ||
          ::fstatat(folder, row->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      list.push_back({row->d_name, status.st_mtim, static_cast<std::uint64_t>(status.st_size)});
    }
    ::closedir(stream);
    return list;
  }

  /// Removes temporary files that a process has not finished writing for an hour or more.
  void remove_left_files() const {
    const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const stream = copy < 0 ? nullptr : ::fdopendir(copy);
    if (stream == nullptr) {
      if (copy >= 0) ::close(copy);
      return;
    }
    const auto limit_of_age = ::time(nullptr) - 3600;
    while (const dirent* row = ::readdir(stream)) {
      struct stat status;
      if (std::string_view{row->d_name}.starts_with(kTemporary) &&
          ::fstatat(folder, row->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
          status.st_mtim.tv_sec < limit_of_age)
        ::unlinkat(folder, row->d_name, 0);
    }
    ::closedir(stream);
  }

  /// Evicts the least recently used entries until the rest fits. Other processes may evict
  /// concurrently: a missing file is not an error.
  void evict() const {
    if (!limit) return;
    auto list = entries();
    remove_left_files();
    std::uint64_t total = 0;
    for (const Entry& entry : list) total += entry.bytes;
    std::ranges::sort(list, [](const Entry& a, const Entry& b) {
      return std::pair{a.used.tv_sec, a.used.tv_nsec} < std::pair{b.used.tv_sec, b.used.tv_nsec};
    });
    for (const Entry& entry : list) {
      if (total <= *limit) break;
      ::unlinkat(folder, entry.name.c_str(), 0);
      total -= entry.bytes;
    }
  }
};

FileStreamProgramCache::FileStreamProgramCache(std::optional<std::filesystem::path> folder,
                                               std::optional<std::uint64_t> max_size_bytes)
    : state_{std::make_unique<State>()} {
  State& s = *state_;
  s.path = std::filesystem::absolute(folder ? *folder : default_folder());
  s.limit = max_size_bytes;
  detail::make_private_folders(s.path);
  s.folder = ::open(s.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (s.folder < 0) {
    if (errno == ELOOP || errno == ENOTDIR)
      throw std::runtime_error{"the cache folder " + s.path.string() +
                               " is a link or no folder: remove it, or name another"};
    fail_system("cannot open the cache folder " + s.path.string());
  }
  struct stat status;
  if (::fstat(s.folder, &status) != 0)
    fail_system("cannot look at the cache folder " + s.path.string());
  if (status.st_uid != ::geteuid() && CUCORE_PROTECTION("cache-folder-owner"))
    throw std::runtime_error{"the cache folder " + s.path.string() +
                             " belongs to another user: name another"};
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw std::runtime_error{"others may write to the cache folder " + s.path.string() +
                             ": chmod 700 it, or name another"};
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) ::fchmod(s.folder, S_IRWXU);
}
FileStreamProgramCache::~FileStreamProgramCache() = default;

const std::filesystem::path& FileStreamProgramCache::folder() const noexcept {
  return state_->path;
}

std::optional<std::string> FileStreamProgramCache::get(std::string_view key) {
  const std::string name = file_name(key);
  // Non-blocking: an entry may be any file, including a pipe without a writer.
  const Descriptor file{
      ::openat(state_->folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0) return std::nullopt;
  struct stat status;
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return std::nullopt;
  }
  const auto bytes = read_all(file.get(), static_cast<std::size_t>(status.st_size));
  const std::size_t head = kMagic.size() + kDigestBytes;
  if (bytes && bytes->size() >= head && bytes->starts_with(kMagic)) {
    const std::string_view code = std::string_view{*bytes}.substr(head);
    // The digest covers the name: a file moved to another entry's name counts as damaged.
    if (std::string_view{*bytes}.substr(kMagic.size(), kDigestBytes) ==
        detail::Sha256{}.add_field(name).add_field(code).digest()) {
      ::futimens(file.get(), nullptr);  // update the time of last use
      return std::string{code};
    }
  }
  ::unlinkat(state_->folder, name.c_str(), 0);
  return std::nullopt;
}

void FileStreamProgramCache::put(std::string_view key, std::string_view code) {
  static std::atomic<unsigned> counter{0};
  // Another process may have stored it first.
  if (const auto found = get(key); found && *found == code) return;
  const std::string name = file_name(key);
  const std::string temporary = std::string{kTemporary} + std::to_string(::getpid()) + "-" +
                                std::to_string(counter.fetch_add(1));
  {
    // May be left over from a terminated process with the same ID.
    ::unlinkat(state_->folder, temporary.c_str(), 0);
    const Descriptor file{::openat(state_->folder, temporary.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                   S_IRUSR | S_IWUSR)};
    if (file.get() < 0) fail_system("cannot write to " + state_->path.string());
    try {
      write_all(file.get(), kMagic, "cannot write to " + state_->path.string());
      write_all(file.get(), detail::Sha256{}.add_field(name).add_field(code).digest(),
                "cannot write to " + state_->path.string());
      write_all(file.get(), code, "cannot write to " + state_->path.string());
    } catch (...) {
      ::unlinkat(state_->folder, temporary.c_str(), 0);
      throw;
    }
  }
  if (::renameat(state_->folder, temporary.c_str(), state_->folder, name.c_str()) != 0) {
    ::unlinkat(state_->folder, temporary.c_str(), 0);
    fail_system("cannot write to " + state_->path.string());
  }
  state_->evict();
}

bool FileStreamProgramCache::erase(std::string_view key) {
  return ::unlinkat(state_->folder, file_name(key).c_str(), 0) == 0;
}

void FileStreamProgramCache::clear() {
  for (const auto& entry : state_->entries()) ::unlinkat(state_->folder, entry.name.c_str(), 0);
}

std::size_t FileStreamProgramCache::size() const { return state_->entries().size(); }

}  // namespace cucore
