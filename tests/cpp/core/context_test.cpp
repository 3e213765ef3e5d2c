// SPDX-License-Identifier: Apache-2.0
// context_test.cpp: what is current stays current.
#include "cucore/context.hpp"

#include <thread>

#include "support.hpp"

namespace cucore {
namespace {

using ContextTest = testing::WithDevice;

TEST_F(ContextTest, ThePrimaryContextIsOne) {
  EXPECT_EQ(Context::primary(0), Context::primary(0));
  EXPECT_EQ(Context::primary(0), Context::current());
  EXPECT_FALSE(Context::primary(0).is_green());
}

TEST_F(ContextTest, AScopeLeavesTheCallersContextAsItWas) {
  std::thread{[] {
    EXPECT_FALSE(Context::current());
    {
      const ScopedContext scope{Context::primary(0)};
      EXPECT_EQ(Context::current(), Context::primary(0));
      const ScopedContext same{Context::primary(0)};
    }
    EXPECT_FALSE(Context::current());
  }}.join();
}

TEST_F(ContextTest, DeviceMethodsLeaveTheCallersContextAsItWas) {
  std::thread{[] {
    const Device device{0};
    const Stream stream = device.create_stream();
    const Event event = device.create_event();
    Buffer buffer = device.allocate(64, stream);
    stream.sync();
    buffer.close();
    EXPECT_FALSE(Context::current());
  }}.join();
}

}  // namespace
}  // namespace cucore
