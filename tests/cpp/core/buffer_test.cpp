// SPDX-License-Identifier: Apache-2.0
// buffer_test.cpp: memory with an owner.
#include "cucore/buffer.hpp"

#include <numeric>

#include "support.hpp"

namespace cucore {
namespace {

class BufferTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (!IsSkipped()) stream_ = Device{0}.create_stream();
  }
  Stream stream_;
};

TEST_F(BufferTest, SpansGoThereAndBack) {
  std::vector<int> data(1000);
  std::iota(data.begin(), data.end(), 0);
  Buffer buffer = Device{0}.allocate(data.size() * sizeof(int), stream_);
  buffer.copy_from(std::span{data}, stream_);
  std::vector<int> back(data.size());
  buffer.copy_to(std::span{back}, stream_);
  stream_.sync();
  EXPECT_EQ(back, data);
}

TEST_F(BufferTest, WrongSizesAreRefused) {
  Buffer small = Device{0}.allocate(8, stream_);
  Buffer large = Device{0}.allocate(16, stream_);
  EXPECT_THROW(small.copy_from(large, stream_), std::invalid_argument);
  std::vector<std::byte> host(16);
  EXPECT_THROW(small.copy_from(std::span<const std::byte>{host}, stream_), std::invalid_argument);
  EXPECT_THROW(small.fill(std::span<const std::byte>{host}.first(3), stream_),
               std::invalid_argument);
}

/// Counts what it is given back.
class Counting final : public MemoryResource {
 public:
  CUdeviceptr allocate(std::size_t, StreamRef) override { return 4096; }
  void deallocate(CUdeviceptr, std::size_t, StreamRef) override { ++returned; }
  bool is_device_accessible() const noexcept override { return false; }
  bool is_host_accessible() const noexcept override { return false; }
  int device_id() const noexcept override { return -1; }
  int returned = 0;
};

TEST(BufferOwnership, MemoryGoesBackExactlyOnce) {
  const auto resource = std::make_shared<Counting>();
  {
    Buffer a = Buffer::allocate(resource, 64, Stream{});
    Buffer b = std::move(a);
    EXPECT_TRUE(a.is_closed());  // NOLINT: tests the state after a move
    b.close();
    b.close();
    EXPECT_EQ(resource->returned, 1);
    Buffer c = Buffer::allocate(resource, 64, Stream{});
    c = Buffer::allocate(resource, 64, Stream{});
    EXPECT_EQ(resource->returned, 2);
    Buffer d = Buffer::allocate(resource, 64, Stream{});
    EXPECT_EQ(d.release(), 4096u);
  }
  EXPECT_EQ(resource->returned, 3);
}

TEST(BufferOwnership, AViewKeepsItsOwner) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = owner;
  {
    const Buffer view = Buffer::view(4096, 16, owner);
    owner.reset();
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(BufferTest, MoreThanThereIsHasATypeOfItsOwnAndIsNoDisaster) {
  EXPECT_THROW((void)Device{0}.allocate(std::size_t{1} << 60, stream_), OutOfMemoryError);
  EXPECT_NO_THROW((void)Device{0}.allocate(64, stream_));
}

}  // namespace
}  // namespace cucore
