// SPDX-License-Identifier: Apache-2.0
// context_test.cpp: what is current stays current.
#include "cucore/context.hpp"

#include <thread>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
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

TEST_F(ContextTest, ARefNamesAContextAndAsksTheDriverAboutIt) {
  const Context context = Context::primary(0);
  const ContextRef ref = context;
  EXPECT_EQ(ref, context);
  EXPECT_EQ(ref.handle(), context.handle());
  EXPECT_EQ(ref.device(), 0);
  EXPECT_EQ(ContextRef{}.device(), -1);
  EXPECT_FALSE(ContextRef{});
  std::thread{[ref] {
    EXPECT_FALSE(ContextRef::current());
    ref.set_current();
    EXPECT_EQ(ContextRef::current(), ref);
    ref.sync();
  }}.join();
}

TEST_F(ContextTest, AViewOfAContextHasItsDeviceAndOwnsNothing) {
  CUdevice device = 0;
  CUCORE_CALL(cuDeviceGet(&device, 0));
  CUcontext raw = nullptr;
  CUCORE_CALL(cuCtxCreate(&raw, nullptr, 0, device));
  CUcontext popped = nullptr;
  CUCORE_CALL(cuCtxPopCurrent(&popped));
  {
    const Context view = Context::view(ContextRef{raw});
    EXPECT_EQ(view.device(), 0);
    EXPECT_FALSE(view.is_primary());
    EXPECT_FALSE(view.is_green());
  }
  ContextRef{raw}.sync();  // the view has not destroyed it
  CUCORE_CALL(cuCtxDestroy(raw));
}

TEST_F(ContextTest, ContextRecordsAllItsWorkInAnEvent) {
  const Device device{0};
  const Stream stream = device.create_stream();
  Buffer buffer = device.allocate(1 << 20, stream);
  buffer.fill(7, stream);
  const Event event = device.create_event();
  device.primary_context().record(event);
  event.sync();
  EXPECT_TRUE(stream.is_done());
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
