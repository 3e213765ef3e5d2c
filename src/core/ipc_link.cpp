// SPDX-License-Identifier: Apache-2.0
// ipc_link.cpp: the importing side of a connection between two processes.
#include "core/ipc_link.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#include "cucore/device.hpp"
#include "cucore/error.hpp"

namespace cucore::detail {
namespace {

[[noreturn]] void lost(const char* what) {
  throw InvalidStateError{
      std::string{"the process that shares this memory cannot be reached ("} + what +
      "): memory of ipc_enabled=True goes to processes of the same user on the same machine, as "
      "long as its own process lives; memory of other resources is sent by value"};
}

std::string with_number(char kind, std::uint64_t number) {
  std::string message(1 + sizeof number, kind);
  std::memcpy(message.data() + 1, &number, sizeof number);
  return message;
}

ssize_t send_all(int socket, std::string_view message) noexcept {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, message.data(), message.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

}  // namespace

std::shared_ptr<IPCLink> IPCLink::open(std::string_view name, std::string_view key) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) lost(std::strerror(errno));
  const std::shared_ptr<IPCLink> link{new IPCLink{fd}};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // a leading null byte selects the abstract namespace
  if (name.empty() || name.size() > sizeof address.sun_path - 1) lost("its name is damaged");
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  int result = 0;
  do {
    result = connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes);
  } while (result != 0 && errno == EINTR);
  if (result != 0) lost(std::strerror(errno));
  // Any process may listen under a name that has become free: send the key only to this user's.
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
    lost("it belongs to another user");
  int none = -1;
  if (link->ask(key, none) != kYes) lost("it does not know the key");
  return link;
}

namespace {
struct Links {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<IPCLink>, std::less<>> by_name;
};
Links& links() {
  static Links& l = *new Links;  // never destroyed: leases may end until the process does
  return l;
}
}  // namespace

std::shared_ptr<IPCLink> IPCLink::to(std::string_view name, std::string_view key) {
  Links& all = links();
  {
    const std::lock_guard lock{all.mutex};
    if (const auto found = all.by_name.find(name); found != all.by_name.end()) return found->second;
  }
  std::shared_ptr<IPCLink> made = open(name, key);  // blocks until the exporter replies
  const std::lock_guard lock{all.mutex};
  return all.by_name.try_emplace(std::string{name}, std::move(made)).first->second;
}

void IPCLink::erase(std::string_view name) noexcept {
  Links& all = links();
  std::shared_ptr<IPCLink> gone;
  const std::lock_guard lock{all.mutex};
  if (const auto found = all.by_name.find(name); found != all.by_name.end()) {
    gone = std::move(found->second);
    all.by_name.erase(found);
  }
}

void IPCLink::clear_all() noexcept {
  Links& all = links();
  const std::lock_guard lock{all.mutex};
  all.by_name.clear();
}

IPCLink::~IPCLink() { close(socket_); }

void IPCLink::send(std::string_view message) const {
  if (send_all(socket_, message) < 0) lost(std::strerror(errno));
}

char IPCLink::ask(std::string_view message, int& received) {
  const std::lock_guard lock{mutex_};
  send(message);
  char answer = 0;
  iovec place{&answer, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &place;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket_, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) lost(got < 0 ? std::strerror(errno) : "it has ended the connection");
  received = -1;
  if (const cmsghdr* found = CMSG_FIRSTHDR(&header);
      found != nullptr && found->cmsg_level == SOL_SOCKET && found->cmsg_type == SCM_RIGHTS &&
      found->cmsg_len == CMSG_LEN(sizeof(int)))
    std::memcpy(&received, CMSG_DATA(found), sizeof received);
  return answer;
}

int IPCLink::pool(std::string_view uuid) {
  int fd = -1;
  (void)ask(std::string{kAskPool} + std::string{uuid}, fd);
  return fd;
}

std::shared_ptr<void> IPCLink::lease(std::uint64_t number) {
  int none = -1;
  if (ask(with_number(kAskBuffer, number), none) != kYes) return nullptr;
  return {static_cast<void*>(this),
          [link = shared_from_this(), number](void*) { link->release(number); }};
}

void IPCLink::release(std::uint64_t number) const noexcept {
  try {
    // Fails if the exporter has ended, which then holds nothing.
    send_all(socket_, with_number(kReturnBuffer, number));
  } catch (const std::bad_alloc&) {  // the lease ends with this process
  }
}

std::shared_ptr<void> leased(IPCLink& link, std::uint64_t number) {
  std::shared_ptr<void> lease = link.lease(number);
  if (lease == nullptr)
    throw InvalidStateError{
        "the buffer was closed before it was opened here: its process must keep it until then"};
  return lease;
}

int visible_device(std::string_view uuid) {
  for (const Device& device : Device::all())
    if (device.uuid() == uuid) return device.device_id();
  throw InvalidStateError{
      "the memory lies on the device " + std::string{uuid} +
      ", which this process does not see: make it visible (CUDA_VISIBLE_DEVICES), or send memory "
      "of a resource without ipc_enabled=True, which goes by value"};
}

}  // namespace cucore::detail
