// SPDX-License-Identifier: Apache-2.0
// strided_memory_view_test.cpp: arrays by their layout, DLPack, and copies between layouts.
#include "cucore/strided_memory_view.hpp"

#include <numeric>
#include <vector>

#include "support.hpp"

namespace cucore {
namespace {

using dlpack::DLManagedTensorVersioned;
constexpr dlpack::DLDataType kInt32{dlpack::kDLInt, 32, 1};

// The layout that other libraries were compiled with.
static_assert(sizeof(dlpack::DLTensor) == 48 && offsetof(dlpack::DLTensor, shape) == 24);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

class StridedMemoryViewTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    testing::WithDevice::SetUp();
    if (IsSkipped()) return;
    stream_ = Device{0}.create_stream();
    source_ = Device{0}.allocate(64 * sizeof(int), stream_);
    target_ = Device{0}.allocate(64 * sizeof(int), stream_);
    std::vector<int> numbers(64);
    std::iota(numbers.begin(), numbers.end(), 0);
    source_.copy_from(std::span{numbers}, stream_);
    target_.fill(0xff, stream_);
  }
  std::vector<int> result() {
    std::vector<int> back(64);
    target_.copy_to(std::span{back}, stream_);
    stream_.sync();
    return back;
  }
  Stream stream_;
  Buffer source_;
  Buffer target_;
};

TEST_F(StridedMemoryViewTest, AViewKnowsItsLayout) {
  const auto view = StridedMemoryView::from_buffer(source_, {4, 3}, kInt32);
  EXPECT_EQ(view.strides(), (std::vector<std::int64_t>{3, 1}));
  EXPECT_TRUE(view.is_contiguous_c());
  EXPECT_FALSE(view.is_contiguous_f());
  EXPECT_EQ(view.size(), 12);
  EXPECT_TRUE(dlpack::is_same(view.device(), {dlpack::kDLCUDA, 0}));
  EXPECT_TRUE(StridedMemoryView::from_buffer(source_, {4, 3}, kInt32, {1, 4}).is_contiguous_f());
  EXPECT_TRUE(StridedMemoryView::from_buffer(source_, {4, 0}, kInt32, {7, 5}).is_contiguous_c());
}

TEST_F(StridedMemoryViewTest, AViewCanBeSeenInAnotherWay) {
  const auto view = StridedMemoryView::from_buffer(source_, {4, 3}, kInt32);
  EXPECT_EQ(view.device_id(), 0);
  EXPECT_TRUE(view.is_device_accessible());
  const auto floats = view.view({dlpack::kDLFloat, 32, 1});
  EXPECT_EQ(floats.dtype().code, dlpack::kDLFloat);
  EXPECT_EQ(floats.shape(), view.shape());
  EXPECT_THROW((void)view.view({dlpack::kDLFloat, 64, 1}), std::invalid_argument);
  const auto doubles = view.view({2, 3}, {dlpack::kDLFloat, 64, 1});
  EXPECT_EQ(doubles.strides(), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(view.view({3, 4}, kInt32, {1, 3}).strides(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_THROW((void)view.view({3, 4}, kInt32, {1}), std::invalid_argument);
}

TEST_F(StridedMemoryViewTest, AViewBecomesATensorMap) {
  const auto view = StridedMemoryView::from_buffer(source_, {8, 8}, kInt32);
  TensorMapDescriptorOptions options;
  options.box_dim = {4, 4};
  try {
    const TensorMapDescriptor map = view.as_tensor_map(options);
    EXPECT_EQ(map.rank(), 2u);
    EXPECT_EQ(map.data_type(), TensorMapDataType::int32);
  } catch (const CUDAError& error) {  // before compute capability 9.0
    EXPECT_LT(Device{0}.compute_capability().major, 9) << error.what();
  }
  EXPECT_THROW((void)view.view({4, 8}, {dlpack::kDLComplex, 64, 1}).as_tensor_map(options),
               std::invalid_argument);
}

TEST_F(StridedMemoryViewTest, ALayoutThatDoesNotFitIsRefused) {
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {65}, kInt32), std::invalid_argument);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;  // 64 bits cannot count the elements
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{kHuge, 4}, {4, kHuge}, {kHuge, kHuge, 16}, {kHuge}, {16, kHuge}})
    EXPECT_THROW(StridedMemoryView::from_buffer(source_, shape, kInt32), std::invalid_argument);
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {2, 2}, kInt32, {kHuge, kHuge}),
               std::invalid_argument);
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {5, 5}, kInt32, {kHuge, kHuge}),
               std::invalid_argument);
  EXPECT_EQ(StridedMemoryView::from_buffer(source_, {0, kHuge, 16}, kInt32).size(), 0);
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {2, 2}, kInt32, {63, 1}),
               std::invalid_argument);
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {2, 2}, kInt32, {1}), std::invalid_argument);
  EXPECT_THROW(StridedMemoryView::from_buffer(source_, {-1}, kInt32), std::invalid_argument);
}

TEST_F(StridedMemoryViewTest, LayoutFunctionsAgreeWithTheLayoutOfABuffer) {
  const std::vector<std::int64_t> shape{4, 1, 3};
  EXPECT_EQ(dense_strides(shape), (std::vector<std::int64_t>{3, 3, 1}));
  EXPECT_TRUE(dense_strides({}).empty());
  EXPECT_TRUE(is_contiguous(shape, std::vector<std::int64_t>{3, 99, 1}));
  EXPECT_FALSE(is_contiguous(shape, std::vector<std::int64_t>{4, 3, 1}));
  EXPECT_TRUE(is_contiguous(std::vector<std::int64_t>{2, 0}, std::vector<std::int64_t>{7, 7}));
  EXPECT_NO_THROW(check_layout(shape, dense_strides(shape), 32, 48));
  // A dimension of one element has no distance; a stride may be zero, but not lead backwards.
  EXPECT_NO_THROW(check_layout(shape, std::vector<std::int64_t>{0, -5, 1}, 32, 12));
  EXPECT_THROW(check_layout(shape, std::vector<std::int64_t>{3, 3, -1}, 32, 48),
               std::invalid_argument);
  try {
    check_layout(shape, dense_strides(shape), 32, 47);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "the view reaches outside the buffer, which has 47 bytes: shape (4, 1, 3), "
                 "strides (3, 3, 1), elements of 4 bytes");
  }
}

TEST_F(StridedMemoryViewTest, ElementsAreCopiedBetweenLayouts) {
  // A transposed view of 3 x 2 x 4 elements to a dense one.
  const auto from = StridedMemoryView::from_buffer(source_, {3, 2, 4}, kInt32, {4, 32, 1});
  const auto into = StridedMemoryView::from_buffer(target_, {3, 2, 4}, kInt32);
  into.copy_from(from, stream_);
  const auto back = result();
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 4; ++k) EXPECT_EQ(back[(i * 2 + j) * 4 + k], i * 4 + j * 32 + k);
  EXPECT_EQ(back[24], -1);
}

TEST_F(StridedMemoryViewTest, ElementsSmallerThanAByteAreCopiedWhereTheyAreContiguous) {
  constexpr dlpack::DLDataType kInt4{dlpack::kDLInt, 4, 1};
  const auto from = StridedMemoryView::from_buffer(source_, {16}, kInt4);
  const auto into = StridedMemoryView::from_buffer(target_, {16}, kInt4);
  into.copy_from(from, stream_);
  const auto back = result();
  EXPECT_EQ(back[1], 1);
  EXPECT_EQ(back[2], -1);
  const auto apart = StridedMemoryView::from_buffer(source_, {16}, kInt4, {2});
  EXPECT_THROW(into.copy_from(apart, stream_), std::domain_error);
}

TEST_F(StridedMemoryViewTest, ShapesTypesAndOverlapsThatDoNotMatchAreRefused) {
  const auto into = StridedMemoryView::from_buffer(target_, {4, 4}, kInt32);
  EXPECT_THROW(into.copy_from(StridedMemoryView::from_buffer(source_, {4}, kInt32), stream_),
               std::invalid_argument);
  EXPECT_THROW(
      into.copy_from(StridedMemoryView::from_buffer(source_, {4, 4}, kInt32, {0, 1}), stream_),
      std::domain_error);
}

TEST_F(StridedMemoryViewTest, ATensorGoesToAnotherLibraryAndComesBack) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = owner;
  const auto view = StridedMemoryView::from_buffer(source_, {2, 3}, kInt32);
  DLManagedTensorVersioned* const sent = view.to_dlpack(std::move(owner));
  EXPECT_EQ(sent->version.major, 1u);
  sent->flags |= dlpack::kDLFlagReadOnly;
  {
    const auto back = StridedMemoryView::from_dlpack(sent);
    EXPECT_EQ(back.ptr(), view.ptr());
    EXPECT_EQ(back.shape(), view.shape());
    EXPECT_TRUE(back.readonly());
    EXPECT_FALSE(alive.expired());
    EXPECT_THROW(back.copy_from(view, stream_), std::invalid_argument);
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(StridedMemoryViewTest, ATensorThatIsNotValidStaysTheCallers) {
  DLManagedTensorVersioned tensor{};
  tensor.version = {2, 0};
  EXPECT_THROW(StridedMemoryView::from_dlpack(&tensor), std::invalid_argument);
  tensor.version = {1, 0};
  tensor.dl_tensor.ndim = 1;
  EXPECT_THROW(StridedMemoryView::from_dlpack(&tensor), std::invalid_argument);
}

}  // namespace
}  // namespace cucore
