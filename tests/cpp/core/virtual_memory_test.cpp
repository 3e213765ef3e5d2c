// SPDX-License-Identifier: Apache-2.0
// virtual_memory_test.cpp: memory that grows in place.
#include "cucore/virtual_memory.hpp"

#include <vector>

#include "cucore/driver.hpp"
#include "support.hpp"

namespace cucore {
namespace {

class VirtualMemoryTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    if (Device{0}.attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0)
      GTEST_SKIP() << "no virtual memory management";
    stream_ = Device{0}.create_stream();
    resource_ = VirtualMemoryResource::create(0);
  }
  std::vector<unsigned char> content(const Buffer& buffer) {
    std::vector<unsigned char> bytes(buffer.size());
    buffer.copy_to(std::span{bytes}, stream_);
    stream_.sync();
    return bytes;
  }
  Stream stream_;
  std::shared_ptr<VirtualMemoryResource> resource_;
};

TEST_F(VirtualMemoryTest, ABufferHasWholePagesAndIsGivenBack) {
  Buffer buffer = resource_->allocate_buffer(1000);
  EXPECT_GE(buffer.size(), 1000u);
  EXPECT_EQ(resource_->size_of(buffer.handle()), buffer.size());
  EXPECT_EQ(resource_->num_allocations(), 1u);
  buffer.close();
  EXPECT_EQ(resource_->num_allocations(), 0u);
}

TEST_F(VirtualMemoryTest, AGrownBufferKeepsItsContents) {
  Buffer buffer = resource_->allocate_buffer(1000);
  const std::size_t before = buffer.size();
  buffer.fill(3, stream_);
  stream_.sync();
  for (int i = 0; i < 3; ++i) {
    const std::size_t larger = buffer.size() + 1;
    buffer = resource_->modify_allocation(std::move(buffer), larger);
    EXPECT_EQ(content(buffer)[before - 1], 3);
  }
  EXPECT_GE(buffer.size(), 4 * before);
  buffer.fill(4, stream_);
  EXPECT_EQ(content(buffer).back(), 4);
  EXPECT_EQ(resource_->num_allocations(), 1u);
}

TEST_F(VirtualMemoryTest, ABufferMovesWhereTheAddressesBehindItAreTaken) {
  Buffer buffer = resource_->allocate_buffer(1000);
  buffer.fill(5, stream_);
  stream_.sync();
  CUdeviceptr taken = 0;
  const std::size_t size = buffer.size();
  CUCORE_CALL(cuMemAddressReserve(&taken, size, 0, buffer.handle() + size, 0));
  const CUdeviceptr before = buffer.handle();
  buffer = resource_->modify_allocation(std::move(buffer), 2 * size);
  if (taken == before + size) {
    EXPECT_NE(buffer.handle(), before);
  }
  EXPECT_EQ(content(buffer)[size - 1], 5);
  CUCORE_CALL(cuMemAddressFree(taken, size));
}

TEST_F(VirtualMemoryTest, ASmallerSizeKeepsTheBuffer) {
  Buffer buffer = resource_->allocate_buffer(1000);
  const CUdeviceptr ptr = buffer.handle();
  buffer = resource_->modify_allocation(std::move(buffer), 10);
  EXPECT_EQ(buffer.handle(), ptr);
}

TEST_F(VirtualMemoryTest, RdmaIsRefusedWhereTheDeviceHasNone) {
  constexpr auto kRdma = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
  if (Device{0}.attribute(kRdma) != 0) GTEST_SKIP() << "the device has it";
  EXPECT_THROW(static_cast<void>(VirtualMemoryResource::create(0, {.gpu_direct_rdma = true})),
               std::runtime_error);
}

TEST_F(VirtualMemoryTest, FailedGrowthLeavesTheBufferOpen) {
  Buffer buffer = resource_->allocate_buffer(1);
  const CUdeviceptr address = buffer.handle();
  EXPECT_THROW(
      static_cast<void>(resource_->modify_allocation(std::move(buffer), std::size_t{1} << 50)),
      CUDAError);
  EXPECT_EQ(buffer.handle(), address);  // NOLINT(bugprone-use-after-move): it was not moved
  EXPECT_EQ(resource_->num_allocations(), 1u);
  buffer.fill(7, stream_);
  stream_.sync();
}

TEST_F(VirtualMemoryTest, SizesAndBuffersThatDoNotFitAreRefused) {
  EXPECT_THROW(static_cast<void>(resource_->allocate_buffer(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(resource_->allocate_buffer(std::size_t{1} << 63)),
               std::invalid_argument);
  EXPECT_THROW(
      static_cast<void>(resource_->modify_allocation(Device{0}.allocate(16, stream_), 100)),
      std::invalid_argument);
  EXPECT_THROW(static_cast<void>(
                   VirtualMemoryResource::create(0, {.handle_type = CU_MEM_HANDLE_TYPE_WIN32_KMT})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(resource_->allocate_buffer(std::size_t{1} << 50)), CUDAError);
  EXPECT_EQ(resource_->num_allocations(), 0u);
}

}  // namespace
}  // namespace cucore
