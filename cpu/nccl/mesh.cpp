// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/mesh.cpp: rendezvous of the ranks, and their messages.
#include "cpu/nccl/mesh.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace cucpu::nccl {
namespace {

constexpr char kMagic[8] = {'c', 'u', 'c', 'o', 'r', 'e', 'n', '1'};

struct Identity {
  char magic[8];
  std::uint64_t token;
  std::uint32_t address;  // IPv4, network order, as is the port
  std::uint16_t port;
};
static_assert(sizeof(Identity) <= sizeof(ncclUniqueId));

struct Hello {  // what a rank says first, to the root and to other ranks
  std::uint64_t token;
  std::int32_t rank, size;
  std::uint32_t address;
  std::uint16_t port;
};
struct Place {
  std::uint32_t address;
  std::uint16_t port;
};

[[noreturn]] void fail_with_errno(const char* what, int code) {
  throw Failure{ncclSystemError, std::string{what} + ": " + std::strerror(code)};
}

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_{fd} {}
  Socket(Socket&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// The address that other machines reach this one by: of the interface in NCCL_SOCKET_IFNAME, else
/// of the first one that is up and no loopback, else the loopback's.
std::uint32_t own_address() {
  const char* wanted = std::getenv("NCCL_SOCKET_IFNAME");
  std::uint32_t found = htonl(INADDR_LOOPBACK);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP))
      continue;
    const bool is_wanted = wanted != nullptr && *wanted != '\0'
                               ? std::string_view{at->ifa_name}.starts_with(wanted)
                               : !(at->ifa_flags & IFF_LOOPBACK);
    if (!is_wanted) continue;
    found = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr.s_addr;
    break;
  }
  freeifaddrs(list);
  return found;
}

Socket listening(std::uint32_t address, std::uint16_t& port) {
  Socket made{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = address;
  socklen_t bytes = sizeof at;
  if (made.fd() < 0 || bind(made.fd(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      listen(made.fd(), 1024) != 0 ||
      getsockname(made.fd(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
    fail_with_errno("no socket for the rendezvous of ranks", errno);
  port = at.sin_port;
  return made;
}

Socket accepted(const Socket& listener) {
  int fd;
  do {
    fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0) fail_with_errno("accept", errno);
  return Socket{fd};
}

Socket connected(const Place& place) {
  Socket made{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = place.address;
  at.sin_port = place.port;
  int result;
  do {
    result = connect(made.fd(), reinterpret_cast<sockaddr*>(&at), sizeof at);
  } while (result != 0 && errno == EINTR);
  if (made.fd() < 0 || result != 0) fail_with_errno("another rank cannot be reached", errno);
  return made;
}

void put(const Socket& to, const void* data, std::size_t bytes) {
  for (auto* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = send(to.fd(), at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw Failure{ncclRemoteError, "another rank has ended"};
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}
bool get(const Socket& from, void* data, std::size_t bytes) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = recv(from.fd(), at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Waits for all ranks and tells each of them where the others are.
void serve_rendezvous(const Socket& listener, std::uint64_t token) {
  std::map<int, Socket> ranks;
  std::map<int, Place> places;
  int size = 0;
  do {
    Socket rank = accepted(listener);
    Hello hello{};
    if (!get(rank, &hello, sizeof hello) || hello.token != token || hello.rank < 0 ||
        hello.rank >= hello.size || (size != 0 && hello.size != size) || ranks.contains(hello.rank))
      continue;  // a stranger, or a wrong rank: closing tells it
    size = hello.size;
    places[hello.rank] = {hello.address, hello.port};
    ranks[hello.rank] = std::move(rank);
  } while (size == 0 || ranks.size() < static_cast<std::size_t>(size));
  std::vector<Place> table;
  for (const auto& [rank, place] : places) table.push_back(place);
  for (const auto& [rank, to] : ranks) {
    try {
      put(to, table.data(), table.size() * sizeof(Place));
    } catch (const Failure&) {  // it has ended: the others find out
    }
  }
}

}  // namespace

ncclUniqueId make_identity() {
  Identity made{};
  std::memcpy(made.magic, kMagic, sizeof kMagic);
  if (getrandom(&made.token, sizeof made.token, 0) != sizeof made.token)
    fail_with_errno("getrandom", errno);
  made.address = own_address();
  auto listener = std::make_shared<Socket>(listening(made.address, made.port));
  std::thread{[listener, token = made.token] {
    try {
      serve_rendezvous(*listener, token);
    } catch (const std::exception&) {  // ranks see the closed connection
    }
  }}.detach();
  ncclUniqueId id{};
  std::memcpy(id.internal, &made, sizeof made);
  return id;
}

Mesh::Mesh(const ncclUniqueId& identity, int rank, int size)
    : rank{rank}, size{size}, sockets_(static_cast<std::size_t>(size), -1) {
  try {
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) fail_with_errno("eventfd", errno);
    connect_all(identity);
  } catch (...) {
    for (const int fd : sockets_)
      if (fd >= 0) close(fd);
    if (wake_ >= 0) close(wake_);
    throw;
  }
}

Mesh::~Mesh() {
  for (const int fd : sockets_)
    if (fd >= 0) close(fd);
  close(wake_);
}

void Mesh::connect_all(const ncclUniqueId& given) {
  Identity identity;
  std::memcpy(&identity, given.internal, sizeof identity);
  if (std::memcmp(identity.magic, kMagic, sizeof kMagic) != 0)
    throw Failure{ncclInvalidArgument, "the ncclUniqueId is not one of this library"};
  Hello hello{};
  hello.token = identity.token;
  hello.rank = rank;
  hello.size = size;
  hello.address = own_address();
  const Socket listener = listening(hello.address, hello.port);
  std::vector<Place> table(static_cast<std::size_t>(size));
  {
    const Socket root = connected({identity.address, identity.port});
    put(root, &hello, sizeof hello);
    if (!get(root, table.data(), table.size() * sizeof(Place)))
      throw Failure{ncclInvalidUsage, "the communicator was not made: is rank " +
                                          std::to_string(rank) + " of " + std::to_string(size) +
                                          " taken, or do sizes differ?"};
  }
  for (int other = 0; other < rank; ++other) {
    Socket to = connected(table[static_cast<std::size_t>(other)]);
    put(to, &hello, sizeof hello);
    sockets_[static_cast<std::size_t>(other)] = to.release();
  }
  for (int missing = size - 1 - rank; missing > 0;) {
    Socket from = accepted(listener);
    Hello theirs{};
    if (!get(from, &theirs, sizeof theirs) || theirs.token != identity.token ||
        theirs.rank <= rank || theirs.rank >= size ||
        sockets_[static_cast<std::size_t>(theirs.rank)] >= 0)
      continue;
    sockets_[static_cast<std::size_t>(theirs.rank)] = from.release();
    --missing;
  }
  for (const int fd : sockets_) {
    if (fd < 0) continue;
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
}

void Mesh::abort() noexcept {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

namespace {

/// A message under way: its size first, then its bytes.
struct Flow {
  std::uint64_t header = 0;
  char* data = nullptr;
  std::size_t bytes = 0, done = 0;  // with the header
  [[nodiscard]] bool is_over() const { return done == bytes + sizeof header; }
};

/// Goes on with the first message; false when the socket is not ready.
bool advance(int fd, bool sends, Flow& flow) {
  char* at;
  std::size_t left;
  if (flow.done < sizeof flow.header) {
    at = reinterpret_cast<char*>(&flow.header) + flow.done;
    left = sizeof flow.header - flow.done;
  } else {
    at = flow.data + (flow.done - sizeof flow.header);
    left = flow.bytes + sizeof flow.header - flow.done;
  }
  const ssize_t moved = sends ? send(fd, at, left, MSG_NOSIGNAL) : recv(fd, at, left, 0);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) throw Failure{ncclRemoteError, "another rank has ended"};
  flow.done += static_cast<std::size_t>(moved);
  if (!sends && flow.done == sizeof flow.header && flow.header != flow.bytes)
    throw Failure{ncclInvalidUsage, "another rank sends " + std::to_string(flow.header) +
                                        " bytes, this one expects " + std::to_string(flow.bytes)};
  return true;
}

}  // namespace

void Mesh::transfer(const std::vector<Piece>& pieces) {
  struct Peer {
    std::deque<Flow> out, in;
  };
  std::map<int, Peer> peers;
  for (const Piece& piece : pieces) {
    Flow flow{piece.bytes, static_cast<char*>(piece.data), piece.bytes};
    (piece.sends ? peers[piece.peer].out : peers[piece.peer].in).push_back(flow);
  }
  if (const auto self = peers.find(rank); self != peers.end()) {
    auto& [out, in] = self->second;
    if (out.size() != in.size())
      throw Failure{ncclInvalidUsage, "a rank sends to itself without receiving, in one group"};
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].bytes != in[i].bytes)
        throw Failure{ncclInvalidUsage, "a rank receives another size than it sends to itself"};
      std::memmove(in[i].data, out[i].data, in[i].bytes);
    }
    peers.erase(self);
  }
  std::vector<pollfd> waits;
  while (!peers.empty()) {
    waits.assign(1, {wake_, POLLIN, 0});
    for (auto at = peers.begin(); at != peers.end();) {
      const int fd = sockets_[static_cast<std::size_t>(at->first)];
      auto& [out, in] = at->second;
      for (const bool sends : {true, false}) {
        auto& flows = sends ? out : in;
        while (!flows.empty() && (flows.front().is_over() || advance(fd, sends, flows.front())))
          if (flows.front().is_over()) flows.pop_front();
      }
      if (out.empty() && in.empty()) {
        at = peers.erase(at);
        continue;
      }
      waits.push_back(
          {fd, static_cast<short>((out.empty() ? 0 : POLLOUT) | (in.empty() ? 0 : POLLIN)), 0});
      ++at;
    }
    if (peers.empty()) return;
    while (poll(waits.data(), waits.size(), -1) < 0 && errno == EINTR) {
    }
    if (waits[0].revents != 0) throw Failure{ncclRemoteError, "the communicator was aborted"};
  }
}

}  // namespace cucpu::nccl
