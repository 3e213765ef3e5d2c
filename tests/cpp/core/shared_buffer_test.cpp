// SPDX-License-Identifier: Apache-2.0
// shared_buffer_test.cpp: buffers that two processes use by plain bytes.
#include "cucore/shared_buffer.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace cucore {
namespace {

static_assert(std::is_trivially_copyable_v<SharedBuffer>);

/// The program of shared_buffer_child.cpp: no child in CUDA's sense, it inherits nothing but pipes.
class Other {
 public:
  explicit Other(const SharedBuffer& shared) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      execl(CUCORE_SHARED_BUFFER_CHILD, CUCORE_SHARED_BUFFER_CHILD, nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    output_ = from[0];
    if (write(input_, &shared, sizeof shared) != static_cast<ssize_t>(sizeof shared)) std::abort();
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() {
    (void)end();
    close(output_);
  }

  /// One line of its output.
  std::string line() const {
    std::string text;
    char c = 0;
    while (read(output_, &c, 1) == 1 && c != '\n') text += c;
    return text;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    (void)end();
  }
  /// Lets it end; its exit status, -1 when it was killed or has ended before.
  int end() {
    if (process_ < 0) return -1;
    close(input_);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = -1;
  int input_ = -1, output_ = -1;
};

class SharedBufferTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    try {
      pool_ = MemoryPool::create({.ipc_enabled = true});
    } catch (const CUDAError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { stop_sharing(); }

  std::shared_ptr<Buffer> filled(unsigned char value, std::size_t size = 4096) const {
    auto buffer = std::make_shared<Buffer>(Buffer::allocate(pool_, size, stream_));
    buffer->fill(value, stream_);
    stream_.sync();
    return buffer;
  }
  std::vector<unsigned char> content(const Buffer& buffer) const {
    std::vector<unsigned char> bytes(buffer.size());
    buffer.copy_to(std::span{bytes}, stream_);
    stream_.sync();
    return bytes;
  }
  std::size_t used() const { return pool_->attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  /// The exporter's thread takes memory back when it gets round to it.
  void wait_until_unused() const {
    while (used() != 0) {
      std::this_thread::yield();
      stream_.sync();
    }
  }

  Stream stream_;
  std::shared_ptr<MemoryPool> pool_;
};

TEST_F(SharedBufferTest, OtherProcessesWriteToTheMemory) {
  const auto buffer = filled(5);
  const SharedBuffer shared = share_buffer(buffer);
  Other first{shared};
  ASSERT_EQ(first.line(), "open");
  Other second{shared};  // the same bytes
  ASSERT_EQ(second.line(), "open");
  EXPECT_EQ(first.end(), 0);
  EXPECT_EQ(second.end(), 0);
  EXPECT_EQ(content(*buffer), std::vector<unsigned char>(4096, 7));
}

TEST_F(SharedBufferTest, PlainAllocationsAreShared) {
  const auto buffer = std::make_shared<Buffer>(
      Buffer::allocate(std::make_shared<SynchronousMemory>(0), 4096, stream_));
  buffer->fill(1, stream_);
  stream_.sync();
  Other other{share_buffer(buffer)};
  ASSERT_EQ(other.line(), "open");
  EXPECT_EQ(other.end(), 0);
  EXPECT_EQ(content(*buffer), std::vector<unsigned char>(4096, 2));
}

TEST_F(SharedBufferTest, MemoryStaysUntilTheOtherProcessClosesIt) {
  auto buffer = filled(1, 1 << 20);
  Other other{share_buffer(buffer)};
  ASSERT_EQ(other.line(), "open");
  buffer.reset();
  stream_.sync();
  EXPECT_GE(used(), std::size_t{1} << 20);
  EXPECT_EQ(other.end(), 0);
  wait_until_unused();
}

TEST_F(SharedBufferTest, AKilledProcessHoldsNothing) {
  auto buffer = filled(1, 1 << 20);
  Other other{share_buffer(buffer)};
  ASSERT_EQ(other.line(), "open");
  buffer.reset();
  EXPECT_GE(used(), std::size_t{1} << 20);
  other.kill();
  wait_until_unused();
}

TEST_F(SharedBufferTest, ABufferThatIsGoneIsNotOpened) {
  auto buffer = filled(1);
  const SharedBuffer shared = share_buffer(buffer);
  buffer.reset();
  const auto replacement = filled(9);  // in the same place of the pool
  Other other{shared};
  EXPECT_NE(other.line().find("closed before it was opened here"), std::string::npos);
  EXPECT_EQ(other.end(), 1);
  EXPECT_THROW((void)open_shared_buffer(shared, stream_), InvalidStateError);
  EXPECT_EQ(content(*replacement), std::vector<unsigned char>(4096, 9));
}

TEST_F(SharedBufferTest, InItsOwnProcessItIsTheSameMemory) {
  auto buffer = filled(3);
  const SharedBuffer shared = share_buffer(buffer);
  EXPECT_EQ(share_buffer(buffer).number, shared.number);
  const CUdeviceptr at = buffer->handle();
  const Buffer again = open_shared_buffer(shared, stream_);
  buffer.reset();  // still held
  EXPECT_EQ(again.handle(), at);
  EXPECT_EQ(content(again), std::vector<unsigned char>(4096, 3));
}

TEST_F(SharedBufferTest, NumbersOfManyBuffersAreNeverUsedAgain) {
  std::uint64_t last = 0;
  for (int i = 0; i < 300; ++i) {  // addresses of owners do come again
    const std::uint64_t number = share_buffer(filled(1, 16)).number;
    EXPECT_GT(number, last);
    last = number;
  }
}

TEST_F(SharedBufferTest, WhoDoesNotKnowTheKeyGetsNothing) {
  SharedBuffer shared = share_buffer(filled(3));
  shared.key[0] = static_cast<char>(shared.key[0] + 1);
  Other other{shared};
  EXPECT_NE(other.line().find("does not know the key"), std::string::npos);
  EXPECT_EQ(other.end(), 1);
}

TEST_F(SharedBufferTest, AProcessThatHasStoppedSharingIsNotReached) {
  const auto buffer = filled(3);
  const SharedBuffer before = share_buffer(buffer);
  stop_sharing();
  Other other{before};
  EXPECT_NE(other.line().find("cannot be reached"), std::string::npos);
  EXPECT_EQ(other.end(), 1);
  Other later{share_buffer(buffer)};  // begins anew
  EXPECT_EQ(later.line(), "open");
}

TEST_F(SharedBufferTest, MessagesThatAreNoneEndTheirConnectionOnly) {
  const auto buffer = filled(3);
  const SharedBuffer shared = share_buffer(buffer);
  const int link = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(shared.exporter.data());
  std::memcpy(address.sun_path + 1, shared.exporter.data(), length);
  ASSERT_EQ(connect(link, reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)),
            0);
  char answer = 0;
  ASSERT_EQ(send(link, shared.key.data(), shared.key.size(), 0), 32);
  ASSERT_EQ(recv(link, &answer, 1, 0), 1);
  EXPECT_EQ(answer, '+');
  ASSERT_EQ(send(link, "B123", 4, 0), 4);   // the number of a buffer has eight bytes
  EXPECT_EQ(recv(link, &answer, 1, 0), 0);  // ended
  close(link);
  Other other{shared};
  EXPECT_EQ(other.line(), "open");
}

TEST_F(SharedBufferTest, WhatCannotBeSharedIsRefused) {
  EXPECT_THROW((void)share_buffer(nullptr), InvalidStateError);
  EXPECT_THROW((void)share_buffer(std::make_shared<Buffer>()), InvalidStateError);
  const auto kept = std::make_shared<Buffer>(
      Buffer::allocate(MemoryPool::create({}), 64, stream_));  // without ipc_enabled
  EXPECT_THROW((void)share_buffer(kept), InvalidStateError);
}

}  // namespace
}  // namespace cucore
