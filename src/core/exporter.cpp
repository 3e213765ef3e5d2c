// SPDX-License-Identifier: Apache-2.0
// exporter.cpp: serves the connections of importing processes.
#include "core/exporter.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "core/ipc_link.hpp"
#include "cucore/context.hpp"

namespace cucore::detail {
namespace {

constexpr std::size_t kLongestMessage = 64;

[[noreturn]] void refused(const char* what) {
  throw std::system_error{errno, std::generic_category(), what};
}

/// Compares in constant time.
bool is_equal(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

/// Never blocks: a peer that does not read its replies is disconnected, so it cannot delay others.
bool send_answer(int socket, char answer, int file_descriptor = -1) noexcept {
  iovec place{&answer, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &place;
  header.msg_iovlen = 1;
  if (file_descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(message), &file_descriptor, sizeof file_descriptor);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

/// The exporter of this process, or one inherited from the parent by fork().
struct Current {
  std::mutex mutex;
  std::shared_ptr<Exporter> exporter;
  int process = -1;

  /// Abandons an inherited exporter: a forked child has no threads of its parent.
  void discard_inherited() {
    if (exporter == nullptr || process == getpid()) return;
    new std::shared_ptr<Exporter>{std::move(exporter)};  // NOLINT: intentionally leaked
    exporter = nullptr;
  }
};
Current& current() {
  static Current& c = *new Current;  // never destroyed: its thread may run until the process ends
  return c;
}

}  // namespace

void fill_randomly(void* to, std::size_t size) {
  if (getrandom(to, size, 0) != static_cast<ssize_t>(size)) refused("getrandom");
}

/// A connection to an importing process, and the leases that it holds.
struct Exporter::Link {
  explicit Link(int fd) noexcept : socket{fd} {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { close(socket); }

  const int socket;
  bool knows_the_key = false;
  std::map<std::uint64_t, std::vector<std::shared_ptr<void>>> held;
};

std::shared_ptr<Exporter> Exporter::mine() {
  Current& c = current();
  const std::lock_guard lock{c.mutex};
  c.discard_inherited();
  if (c.exporter == nullptr) {
    c.exporter = std::shared_ptr<Exporter>{new Exporter};
    c.process = getpid();
  }
  return c.exporter;
}

std::shared_ptr<Exporter> Exporter::named(std::string_view name) noexcept {
  Current& c = current();
  const std::lock_guard lock{c.mutex};
  const bool is_it = c.exporter != nullptr && c.process == getpid() && c.exporter->name() == name;
  return is_it ? c.exporter : nullptr;
}

void Exporter::end() noexcept {
  Current& c = current();
  std::shared_ptr<Exporter> ending;
  {
    const std::lock_guard lock{c.mutex};
    if (c.process != getpid()) return;  // the sockets of a forked child belong to its parent
    ending = std::move(c.exporter);
  }
  if (ending != nullptr) ending->stop();
}

Exporter::Exporter() : process_{getpid()} {
  fill_randomly(key_.data(), key_.size());
  std::array<unsigned char, 16> number{};
  fill_randomly(number.data(), number.size());
  name_ = "cucore-";
  for (const unsigned char byte : number) {
    constexpr char digits[] = "0123456789abcdef";
    name_ += digits[byte >> 4];
    name_ += digits[byte & 15];
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // a leading null byte selects the abstract namespace
  std::copy(name_.begin(), name_.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  try {
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ < 0) refused("socket");
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) refused("bind");
    if (listen(listener_, 128) != 0) refused("listen");
    wake_ = eventfd(0, EFD_CLOEXEC);
    if (wake_ < 0) refused("eventfd");
    thread_ = std::thread{[this] { serve(); }};
  } catch (...) {
    if (listener_ >= 0) close(listener_);
    if (wake_ >= 0) close(wake_);
    throw;
  }
}

Exporter::~Exporter() {
  stop();
  close(listener_);
  close(wake_);
}

void Exporter::stop() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
  thread_.join();
}

std::uint64_t Exporter::offer(Hold hold) {
  const std::lock_guard lock{mutex_};
  offered_.emplace(next_, std::move(hold));
  return next_++;
}

void Exporter::withdraw(std::uint64_t number) noexcept {
  if (process_ != getpid()) return;         // fork() may have copied a locked mutex
  decltype(offered_)::node_type withdrawn;  // destroyed after the lock is released
  const std::lock_guard lock{mutex_};
  withdrawn = offered_.extract(number);
}

std::shared_ptr<void> Exporter::hold(std::uint64_t number) {
  Hold hold;
  {
    const std::lock_guard lock{mutex_};
    const auto found = offered_.find(number);
    if (found == offered_.end()) return nullptr;
    hold = found->second;
  }
  return hold();
}

void Exporter::offer_pool(const PoolName& name, const std::shared_ptr<MemoryPool>& pool) {
  const std::lock_guard lock{mutex_};
  std::erase_if(pools_, [](const auto& entry) { return entry.second.expired(); });
  pools_[name] = pool;
}

// ---- connections of importing processes

void Exporter::serve() noexcept {
  std::vector<std::unique_ptr<Link>> links;
  std::vector<pollfd> waiting;
  while (true) {
    try {
      waiting.assign({{wake_, POLLIN, 0}, {listener_, POLLIN, 0}});
      for (const auto& link : links) waiting.push_back({link->socket, POLLIN, 0});
      // EINTR, or temporarily out of memory.
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents != 0) break;
      for (std::size_t i = links.size(); i-- > 0;)
        if (waiting[i + 2].revents != 0 && !answer(*links[i]))
          links.erase(links.begin() + static_cast<std::ptrdiff_t>(i));
      if (waiting[1].revents != 0) accept_one(links);
    } catch (const std::exception&) {  // out of memory: the peer retries
    }
  }
  links.clear();  // closes all connections and releases their leases
}

void Exporter::accept_one(std::vector<std::unique_ptr<Link>>& links) const {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) {
    // The listener stays readable, so do not spin.
    if (errno == EMFILE || errno == ENFILE) usleep(10'000);
    return;
  }
  auto link = std::make_unique<Link>(fd);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
    links.push_back(std::move(link));
}

bool Exporter::answer(Link& link) {
  std::array<char, kLongestMessage> text{};
  const ssize_t got = recv(link.socket, text.data(), text.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  const std::string_view message{text.data(), static_cast<std::size_t>(got)};
  if (!link.knows_the_key) {
    link.knows_the_key = is_equal(message, key());
    return send_answer(link.socket, link.knows_the_key ? kYes : kNo) && link.knows_the_key;
  }
  const char kind = message.front();
  const std::string_view rest = message.substr(1);
  if (kind == kAskPool) return answer_pool(link, rest);
  std::uint64_t number = 0;
  if (rest.size() != sizeof number) return false;
  std::memcpy(&number, rest.data(), sizeof number);
  if (kind == kAskBuffer) {
    std::shared_ptr<void> held = hold(number);
    const char said = held != nullptr ? kYes : kNo;
    if (held != nullptr) link.held[number].push_back(std::move(held));
    return send_answer(link.socket, said);
  }
  if (kind == kReturnBuffer) {
    const auto found = link.held.find(number);
    if (found == link.held.end()) return true;
    found->second.pop_back();
    if (found->second.empty()) link.held.erase(found);
  }
  return true;
}

bool Exporter::answer_pool(const Link& link, std::string_view name) {
  std::shared_ptr<MemoryPool> pool;
  if (PoolName wanted{}; name.size() == wanted.size()) {
    std::memcpy(wanted.data(), name.data(), wanted.size());
    const std::lock_guard lock{mutex_};
    if (const auto found = pools_.find(wanted); found != pools_.end()) pool = found->second.lock();
  }
  if (pool == nullptr) return send_answer(link.socket, kNo);
  int fd = -1;
  try {
    const ScopedContext scope{Context::primary(std::max(pool->device_id(), 0))};
    fd = pool->export_file_descriptor();
  } catch (const std::exception&) {  // the driver no longer exports the pool
    return send_answer(link.socket, kNo);
  }
  const bool is_sent = send_answer(link.socket, kYes, fd);
  close(fd);
  return is_sent;
}

}  // namespace cucore::detail
