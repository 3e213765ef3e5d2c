// SPDX-License-Identifier: Apache-2.0
// stream_test.cpp: streams and events.
#include "cucore/stream.hpp"

#include "support.hpp"

namespace cucore {
namespace {

using StreamTest = testing::WithDevice;

TEST_F(StreamTest, OptionsAreKept) {
  const Device device{0};
  EXPECT_TRUE(device.create_stream().is_nonblocking());
  EXPECT_FALSE(device.create_stream({.nonblocking = false}).is_nonblocking());
  EXPECT_THROW(device.create_stream({.priority = 1000}), std::invalid_argument);
}

TEST_F(StreamTest, EventsMeasureTime) {
  const Device device{0};
  const Stream stream = device.create_stream();
  const Event start = stream.record({.timing_enabled = true});
  const Event end = stream.record({.timing_enabled = true});
  end.sync();
  EXPECT_GE(Event::elapsed_ms(start, end), 0.0f);
  const Event untimed = stream.record();
  untimed.sync();
  EXPECT_THROW(Event::elapsed_ms(start, untimed), InvalidStateError);
}

TEST_F(StreamTest, WaitingOrdersStreams) {
  const Device device{0};
  const Stream first = device.create_stream();
  const Stream second = device.create_stream();
  Buffer a = device.allocate(1 << 20, first);
  Buffer b = device.allocate(1 << 20, first);
  a.fill(5, first);
  second.wait(static_cast<StreamRef>(first));
  b.copy_from(a, second);
  std::vector<std::byte> back(1 << 20);
  b.copy_to(std::span{back}, second);
  second.sync();
  EXPECT_EQ(back.back(), std::byte{5});
}

TEST_F(StreamTest, ACopyKeepsTheStreamOpen) {
  const Device device{0};
  Stream stream = device.create_stream();
  const Stream copy = stream;
  stream.close();
  EXPECT_TRUE(stream.is_closed());
  EXPECT_NO_THROW(copy.sync());
}

TEST_F(StreamTest, DefaultStreamsHaveTheirHandles) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Stream::legacy_default().handle()), 1u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Stream::per_thread_default().handle()), 2u);
}

}  // namespace
}  // namespace cucore
