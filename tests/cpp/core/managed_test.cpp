// SPDX-License-Identifier: Apache-2.0
// managed_test.cpp: advice, prefetches and discards of managed memory.
#include "cucore/managed.hpp"

#include <cstring>
#include <vector>

#include "cucore/buffer.hpp"
#include "cucore/copy.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(std::is_trivially_copyable_v<ManagedRef> &&
              std::is_convertible_v<Buffer&, BufferRef>);

/// Whether the system takes advice on managed memory: a GPU without page faults does not.
bool takes_advice(const ManagedRef& memory) {
  try {
    memory.set_read_mostly(false);
    return true;
  } catch (const CUDAError& error) {
    if (error.code() == CUDA_ERROR_NOT_SUPPORTED) return false;
    throw;
  }
}

class ManagedTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    const Device device{0};
    if (device.attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0)
      GTEST_SKIP() << "no concurrent managed access";
    stream_ = device.create_stream();
    try {
      resource_ = MemoryPool::create({CU_MEM_ALLOCATION_TYPE_MANAGED, Location::device(0).raw()});
    } catch (const CUDAError& error) {
      GTEST_SKIP() << error.what();
    }
    buffer_ = Buffer::allocate(resource_, kBytes, stream_);
    stream_.sync();
  }
  static constexpr std::size_t kBytes = 1 << 16;
  Stream stream_;
  std::shared_ptr<MemoryResource> resource_;
  Buffer buffer_;
};

TEST_F(ManagedTest, AdviceIsReadBack) {
  const ManagedRef memory{buffer_};
  if (!takes_advice(memory)) GTEST_SKIP() << "no advice on managed memory here";
  EXPECT_TRUE(is_managed(memory));
  EXPECT_FALSE(memory.read_mostly());
  memory.set_read_mostly(true);
  EXPECT_TRUE(memory.read_mostly());
  memory.set_read_mostly(false);
  EXPECT_FALSE(memory.read_mostly());

  EXPECT_EQ(memory.preferred_location(), std::nullopt);
  memory.set_preferred_location(Location::device(0));
  EXPECT_EQ(memory.preferred_location(), Location::device(0));
  memory.set_preferred_location(Location::host());
  EXPECT_EQ(memory.preferred_location(), Location::host());
  memory.set_preferred_location(std::nullopt);
  EXPECT_EQ(memory.preferred_location(), std::nullopt);
}

TEST_F(ManagedTest, ThePlacesThatKeepAMappingAreASet) {
  const ManagedRef memory{buffer_};
  if (!takes_advice(memory)) GTEST_SKIP() << "no advice on managed memory here";
  memory.set_accessed_by(std::vector{Location::device(0)});
  EXPECT_EQ(memory.accessed_by(), std::vector{Location::device(0)});
  memory.add_accessed_by(Location::host());
  EXPECT_EQ(memory.accessed_by().size(), 2u);
  memory.remove_accessed_by(Location::device(0));
  EXPECT_EQ(memory.accessed_by(), std::vector{Location::host()});
  memory.set_accessed_by({});
  EXPECT_TRUE(memory.accessed_by().empty());
}

TEST_F(ManagedTest, APrefetchKeepsTheContents) {
  const ManagedRef memory{buffer_};
  auto* host = reinterpret_cast<unsigned char*>(memory.handle());
  std::memset(host, 7, kBytes);
  memory.prefetch(Location::device(0), stream_);
  const std::vector<BufferRef> batch{buffer_};
  prefetch_batch(stream_, batch, std::vector{Location::host()});
  stream_.sync();
  EXPECT_EQ(host[kBytes - 1], 7);
  memory.discard(stream_);
  memory.discard_prefetch(Location::host(), stream_);
  stream_.sync();
}

TEST_F(ManagedTest, AnotherNumberOfPlacesIsRefused) {
  const std::vector<BufferRef> batch{buffer_, buffer_, buffer_};
  const std::vector places{Location::host(), Location::host()};
  EXPECT_THROW(prefetch_batch(stream_, batch, places), std::invalid_argument);
  EXPECT_THROW(discard_prefetch_batch(stream_, batch, places), std::invalid_argument);
}

TEST_F(ManagedTest, AccessedByTakesDevicesAndTheWholeHost) {
  const ManagedRef memory{buffer_};
  if (!takes_advice(memory)) GTEST_SKIP() << "no advice on managed memory here";
  const std::vector<Location> wrong{Location::device(0), Location::host_numa(0)};
  EXPECT_THROW(memory.set_accessed_by(wrong), std::invalid_argument);
  EXPECT_THROW(memory.add_accessed_by(Location::host_numa_current()), std::invalid_argument);
  EXPECT_TRUE(memory.accessed_by().empty());
}

TEST_F(ManagedTest, MemoryThatIsNotManagedIsRefused) {
  const Buffer plain = Device{0}.allocate(64, stream_);
  const ManagedRef memory{BufferRef{plain}};
  EXPECT_THROW(static_cast<void>(memory.read_mostly()), std::invalid_argument);
  EXPECT_THROW(memory.prefetch(Location::host(), stream_), std::invalid_argument);
}

TEST_F(ManagedTest, ABatchInTheLegacyDefaultStreamIsRefused) {
  const std::vector<BufferRef> batch{buffer_};
  EXPECT_THROW(discard_batch(StreamRef{CU_STREAM_LEGACY}, batch), CUDAError);
  discard_batch(StreamRef{CU_STREAM_LEGACY}, {});
}

TEST_F(ManagedTest, ManagedMemoryIsCopiedInABatch) {
  Buffer target = Buffer::allocate(resource_, kBytes, stream_);
  stream_.sync();
  std::memset(reinterpret_cast<void*>(buffer_.handle()), 9, kBytes);
  const std::vector<BufferRef> from{buffer_};
  const std::vector<BufferRef> into{target};
  copy_batch(stream_, from, into);
  stream_.sync();
  EXPECT_EQ(reinterpret_cast<unsigned char*>(target.handle())[kBytes - 1], 9);
}

}  // namespace
}  // namespace cucore
