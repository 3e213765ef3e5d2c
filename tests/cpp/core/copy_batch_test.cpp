// SPDX-License-Identifier: Apache-2.0
// copy_batch_test.cpp: many copies in one call.
#include <vector>

#include "cucore/buffer.hpp"
#include "cucore/copy.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/graph.hpp"
#include "support.hpp"

namespace cucore {
namespace {

class CopyBatchTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    for (unsigned char i = 0; i < 3; ++i) {
      buffers_.push_back(Device{0}.allocate(64, stream_));
      buffers_.back().fill(i, stream_);
      targets_.push_back(Device{0}.allocate(64, stream_));
      from_.push_back(buffers_.back());
      into_.push_back(targets_.back());
    }
  }
  unsigned char first_of(const Buffer& buffer) {
    std::vector<unsigned char> bytes(64);
    buffer.copy_to(std::span{bytes}, stream_);
    stream_.sync();
    return bytes[0];
  }
  Stream stream_;
  std::vector<Buffer> buffers_;
  std::vector<Buffer> targets_;
  std::vector<BufferRef> from_;
  std::vector<BufferRef> into_;
};

TEST_F(CopyBatchTest, EachSourceIsCopiedToItsDestination) {
  copy_batch(stream_, from_, into_);
  for (unsigned char i = 0; i < 3; ++i) EXPECT_EQ(first_of(targets_[i]), i);
}

TEST_F(CopyBatchTest, OptionsAreOneForAllOrOneEach) {
  CopyOptions options;
  options.src_access_order = MemcpySrcAccessOrder::any;
  options.src_location_hint = Location::device(0);
  copy_batch(stream_, from_, into_, std::vector{options});
  copy_batch(stream_, from_, into_, std::vector{options, CopyOptions{}, options});
  EXPECT_EQ(first_of(targets_[2]), 2);
  EXPECT_THROW(copy_batch(stream_, from_, into_, std::vector{options, options}),
               std::invalid_argument);
}

TEST_F(CopyBatchTest, NumbersAndSizesThatDifferAreRefused) {
  EXPECT_THROW(copy_batch(stream_, from_, std::span{into_}.first(2)), std::invalid_argument);
  into_[1] = {into_[1].handle(), 32};
  EXPECT_THROW(copy_batch(stream_, from_, into_), std::invalid_argument);
}

TEST_F(CopyBatchTest, ABatchInTheLegacyDefaultStreamIsRefused) {
  EXPECT_THROW(copy_batch(StreamRef{CU_STREAM_LEGACY}, from_, into_), BatchStreamError);
}

TEST_F(CopyBatchTest, ABatchInACapturingStreamIsRefusedAndTheCaptureGoesOn) {
  const GraphDefinition graph = capture(stream_, [&] {
    EXPECT_THROW(copy_batch(stream_, from_, into_), BatchStreamError);
    CUCORE_CALL(cuMemsetD8Async(into_[0].handle(), 5, into_[0].size(), stream_.handle()));
  });
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST_F(CopyBatchTest, ABatchOfNoCopiesDoesNothing) {
  copy_batch(StreamRef{CU_STREAM_LEGACY}, {}, {});
}

}  // namespace
}  // namespace cucore
