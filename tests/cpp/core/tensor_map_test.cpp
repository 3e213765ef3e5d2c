// SPDX-License-Identifier: Apache-2.0
// tensor_map_test.cpp: descriptors for the tensor memory accelerator.
#include "cucore/tensor_map.hpp"

#include <cstring>
#include <string>

#include "cucore/launch.hpp"
#include "support.hpp"

namespace cucore {
namespace {

static_assert(KernelArgument<TensorMapDescriptor>);
static_assert(detail::argument_type<CUtensorMap>().size == 128);

class TensorMapTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    if (Device{0}.compute_capability().major < 9) GTEST_SKIP() << "no tensor memory accelerator";
    stream_ = Device{0}.create_stream();
    buffer_ = Device{0}.allocate(32 * 32 * sizeof(float), stream_);
    tensor_ = {.ptr = buffer_.handle(), .shape = {32, 32}};
  }
  std::string refusal(const TensorRef& tensor, const TensorMapDescriptorOptions& options) {
    try {
      const TensorMapDescriptor map{tensor, options};
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }
  Stream stream_;
  Buffer buffer_;
  TensorRef tensor_;
};

TEST_F(TensorMapTest, AMapIsMadeAndGivenAnotherAddress) {
  TensorMapDescriptor map{tensor_, {.box_dim = {8, 16}}};
  EXPECT_EQ(map.rank(), 2u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&map.raw()) % 64, 0u);
  Buffer other = Device{0}.allocate(32 * 32 * sizeof(float), stream_);
  const CUtensorMap before = map.raw();
  map.replace_address(other.handle());
  EXPECT_NE(std::memcmp(&before, &map.raw(), sizeof before), 0);
}

TEST_F(TensorMapTest, TypesOfDLPackAreFoundOrNone) {
  EXPECT_EQ(tensor_map_type({dlpack::kDLBfloat, 16, 1}), TensorMapDataType::bfloat16);
  EXPECT_EQ(tensor_map_type({dlpack::kDLInt, 64, 1}), TensorMapDataType::int64);
  EXPECT_EQ(tensor_map_type({dlpack::kDLInt, 8, 1}), std::nullopt);
  EXPECT_EQ(tensor_map_type({dlpack::kDLFloat, 32, 2}), std::nullopt);
}

TEST_F(TensorMapTest, WhatTheAcceleratorCannotDoIsNamed) {
  EXPECT_EQ(refusal(tensor_, {.box_dim = {8}}), "box_dim has 1 values, the view 2 dimensions");
  EXPECT_EQ(refusal(tensor_, {.box_dim = {8, 257}}), "box_dim[1] must be in 1..256, not 257");
  EXPECT_EQ(refusal(tensor_, {.box_dim = {8, 8}, .element_strides = {1, 9}}),
            "element_strides[1] must be in 1..8, not 9");
  TensorRef other = tensor_;
  other.ptr += 4;
  EXPECT_NE(refusal(other, {.box_dim = {8, 8}}).find("multiple of 16"), std::string::npos);
  other = tensor_;
  other.strides = {32, 2};
  EXPECT_NE(refusal(other, {.box_dim = {8, 8}}).find("must be contiguous"), std::string::npos);
  other.strides = {3, 1};
  EXPECT_NE(refusal(other, {.box_dim = {8, 8}}).find("multiples of 16 bytes"), std::string::npos);
  other.shape = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(refusal(other, {}), "a tensor map has 1 to 5 dimensions, not 6");
}

}  // namespace
}  // namespace cucore
