// SPDX-License-Identifier: Apache-2.0
// Managed memory: advice and prefetches are stored by page.
#include <array>

#include "support.hpp"

namespace {

constexpr std::size_t kPage = 4096, kPages = 16;
const CUmemLocation kDevice{CU_MEM_LOCATION_TYPE_DEVICE, {0}},
    kHost{CU_MEM_LOCATION_TYPE_HOST, {0}};

class ManagedMemory : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuMemAllocManaged(&p_, kPages * kPage, CU_MEM_ATTACH_GLOBAL));
  }
  CUdeviceptr page(std::size_t i) const { return p_ + i * kPage; }
  int asked(CUmem_range_attribute attribute, std::size_t first, std::size_t count) const {
    int value = 77;
    EXPECT_OK(cuMemRangeGetAttribute(&value, sizeof value, attribute, page(first), count * kPage));
    return value;
  }
  CUdeviceptr p_ = 0;
};

TEST_F(ManagedMemory, ReadMostlyIsThatOfTheFirstPage) {
  ASSERT_OK(cuMemAdvise(page(4), 4 * kPage, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
  constexpr auto kAsked = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
  EXPECT_EQ(1, asked(kAsked, 4, 4));
  EXPECT_EQ(1, asked(kAsked, 5, 2));
  EXPECT_EQ(0, asked(kAsked, 3, 2));
  EXPECT_EQ(1, asked(kAsked, 7, 2));
  EXPECT_EQ(0, asked(kAsked, 0, kPages));
  ASSERT_OK(cuMemAdvise(page(5), kPage, CU_MEM_ADVISE_UNSET_READ_MOSTLY, kDevice));
  EXPECT_EQ(1, asked(kAsked, 4, 1));
  EXPECT_EQ(0, asked(kAsked, 5, 1));
  EXPECT_EQ(1, asked(kAsked, 6, 2));
  ASSERT_OK(cuMemAdvise(p_, kPages * kPage, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
  EXPECT_EQ(1, asked(kAsked, 0, kPages));
}

TEST_F(ManagedMemory, AdviceCoversWholePages) {
  ASSERT_OK(cuMemAdvise(page(2) + 100, 8, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
  EXPECT_EQ(1, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 2, 1));
  EXPECT_EQ(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1, 1));
  EXPECT_EQ(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 3, 1));
}

TEST_F(ManagedMemory, LocationIsThatOfTheFirstPage) {
  ASSERT_OK(cuMemAdvise(p_, 8 * kPage, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kDevice));
  ASSERT_OK(cuMemAdvise(page(8), 4 * kPage, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, kHost));
  constexpr auto kAsked = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
  constexpr auto kType = CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE;
  EXPECT_EQ(0, asked(kAsked, 0, 8));
  EXPECT_EQ(CU_DEVICE_CPU, asked(kAsked, 8, 4));
  EXPECT_EQ(0, asked(kAsked, 7, 2));
  EXPECT_EQ(CU_DEVICE_CPU, asked(kAsked, 11, 2));
  EXPECT_EQ(CU_DEVICE_INVALID, asked(kAsked, 12, 4));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, asked(kType, 0, 8));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST, asked(kType, 8, 4));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_INVALID, asked(kType, 12, 4));
  ASSERT_OK(cuMemAdvise(page(4), 8 * kPage, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, kDevice));
  EXPECT_EQ(0, asked(kAsked, 0, 4));
  EXPECT_EQ(CU_DEVICE_INVALID, asked(kAsked, 4, 1));
}

TEST_F(ManagedMemory, AccessedByIsThatOfTheFirstPage) {
  ASSERT_OK(cuMemAdvise(p_, 8 * kPage, CU_MEM_ADVISE_SET_ACCESSED_BY, kDevice));
  ASSERT_OK(cuMemAdvise(page(4), 8 * kPage, CU_MEM_ADVISE_SET_ACCESSED_BY, kHost));
  const auto by = [&](std::size_t first, std::size_t count) {
    std::array<int, 3> list{};
    EXPECT_OK(cuMemRangeGetAttribute(list.data(), sizeof list, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                     page(first), count * kPage));
    return list;
  };
  constexpr int kNone = CU_DEVICE_INVALID;
  EXPECT_EQ((std::array{0, kNone, kNone}), by(0, 8));
  EXPECT_EQ((std::array{0, int{CU_DEVICE_CPU}, kNone}), by(4, 4));
  EXPECT_EQ((std::array{int{CU_DEVICE_CPU}, kNone, kNone}), by(8, 8));
  EXPECT_EQ((std::array{kNone, kNone, kNone}), by(12, 4));
}

TEST_F(ManagedMemory, LastPrefetchLocationIsStoredByPage) {
  ASSERT_OK(cuMemPrefetchAsync(p_, 8 * kPage, kDevice, 0, nullptr));
  ASSERT_OK(cuMemPrefetchAsync(page(8), 8 * kPage, kHost, 0, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  constexpr auto kAsked = CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION;
  EXPECT_EQ(0, asked(kAsked, 0, 8));
  EXPECT_EQ(CU_DEVICE_CPU, asked(kAsked, 8, 8));
  EXPECT_EQ(0, asked(kAsked, 7, 2));
  CUmemLocation where[4] = {};
  ASSERT_OK(cuMemGetLocationInfo(p_, kPages * kPage, 4 * kPage, 0, where));
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, where[1].type);
  EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST, where[2].type);
  CUdeviceptr parts[] = {p_, page(12)};
  std::size_t sizes[] = {kPage, kPage}, starts[] = {0, 1};
  CUmemLocation to[] = {kHost, kDevice};
  ASSERT_OK(cuMemPrefetchBatchAsync(parts, sizes, 2, to, starts, 2, 0, CU_STREAM_PER_THREAD));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(CU_DEVICE_CPU, asked(kAsked, 0, 1));
  EXPECT_EQ(0, asked(kAsked, 1, 7));
  EXPECT_EQ(0, asked(kAsked, 12, 1));
  EXPECT_EQ(CU_DEVICE_CPU, asked(kAsked, 13, 3));
}

TEST_F(ManagedMemory, InvalidRangesAndAdviceFail) {
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMemAdvise(page(8), 9 * kPage, CU_MEM_ADVISE_SET_READ_MOSTLY, kDevice));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuMemAdvise(p_, kPage, static_cast<CUmem_advise>(99), kDevice));
  EXPECT_EQ(0, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, 1));
}

}  // namespace
