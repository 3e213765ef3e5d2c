// SPDX-License-Identifier: Apache-2.0
// ipc_test.cpp: what can be shared with other processes. Two processes do so in
// examples/cpp/ipc.cpp.
#include "cucore/ipc.hpp"

#include <string>

#include "cucore/location.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(std::is_trivially_copyable_v<IPCBufferDescriptor>);

class IpcTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (!IsSkipped()) stream_ = Device{0}.create_stream();
  }
  Stream stream_;
};

TEST_F(IpcTest, ABufferOfASharedPoolHasADescriptor) {
  std::shared_ptr<MemoryPool> pool;
  try {
    pool = MemoryPool::create({.ipc_enabled = true});
  } catch (const CUDAError& error) {
    GTEST_SKIP() << error.what();
  }
  const Buffer buffer = Buffer::allocate(pool, 64, stream_);
  const IPCBufferDescriptor descriptor = export_buffer(buffer);
  EXPECT_EQ(descriptor.kind, IPCBufferDescriptor::Kind::pool);
  EXPECT_EQ(descriptor.size, 64u);
  EXPECT_NE(descriptor.payload, (std::array<std::byte, 64>{}));
  EXPECT_THROW(static_cast<void>(import_buffer(nullptr, descriptor, stream_)), InvalidStateError);
}

TEST_F(IpcTest, ADescriptorIsMadeOfItsParts) {
  std::array<std::byte, 65> bytes{};
  bytes[3] = std::byte{7};
  const std::span payload = std::span{bytes}.first(64);
  const auto made = IPCBufferDescriptor::from_parts(payload, 4096, "memory");
  EXPECT_EQ(made.payload[3], std::byte{7});
  EXPECT_EQ(made.size, 4096U);
  EXPECT_STREQ(made.kind_name(), "memory");
  EXPECT_STREQ(IPCBufferDescriptor::from_parts(payload, 0, "pool").kind_name(), "pool");
  EXPECT_THROW((void)IPCBufferDescriptor::from_parts(payload, 1, "other"), std::invalid_argument);
  EXPECT_THROW((void)IPCBufferDescriptor::from_parts(bytes, 1, "pool"), std::invalid_argument);
  EXPECT_THROW((void)IPCBufferDescriptor::from_parts({}, 1, "pool"), std::invalid_argument);
  EXPECT_EQ(ipc_event_handle(payload).reserved[3], 7);
  EXPECT_THROW((void)ipc_event_handle(bytes), std::invalid_argument);
}

TEST_F(IpcTest, APlainAllocationHasADescriptor) {
  const Buffer buffer = Buffer::allocate(std::make_shared<SynchronousMemory>(0), 64, stream_);
  EXPECT_EQ(export_buffer(buffer).kind, IPCBufferDescriptor::Kind::memory);
}

TEST_F(IpcTest, MemoryThatCannotBeSharedIsRefused) {
  const auto pool = MemoryPool::create({});
  const Buffer buffer = Buffer::allocate(pool, 64, stream_);
  EXPECT_THROW(static_cast<void>(export_buffer(buffer)), InvalidStateError);
  try {
    const auto managed =
        MemoryPool::create({CU_MEM_ALLOCATION_TYPE_MANAGED, Location::device(0).raw()});
    const Buffer moving = Buffer::allocate(managed, 64, stream_);
    EXPECT_THROW(static_cast<void>(export_buffer(moving)), InvalidStateError);
  } catch (const CUDAError& error) {
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace cucore
