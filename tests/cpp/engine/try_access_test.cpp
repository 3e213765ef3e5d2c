// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/try_access_test.cpp: accesses to memory that may be unmapped.
#include "cpu/engine/run/try_access.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cucpu::test {
namespace {

class Page {
 public:
  explicit Page(int protection)
      : address_{mmap(nullptr, size(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {}
  ~Page() { munmap(address_, size()); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  static std::size_t size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  [[nodiscard]] volatile int* get() const { return static_cast<volatile int*>(address_); }

 private:
  void* address_;
};

TEST(TryAccess, AccessesToMappedMemoryRun) {
  const Page page{PROT_READ | PROT_WRITE};
  volatile int* const to = page.get();
  MemoryFault fault;
  EXPECT_TRUE(try_access([to] { *to = 7; }, fault));
  EXPECT_EQ(*to, 7);
}

TEST(TryAccess, AFaultReturnsFalseAndItsAddress) {
  const Page page{PROT_READ};
  volatile int* const to = page.get() + 3;
  for (int round = 0; round < 3; ++round) {
    MemoryFault fault;
    EXPECT_FALSE(try_access([to] { *to = 7; }, fault));
    EXPECT_TRUE(fault.has_address);
    EXPECT_EQ(fault.address, reinterpret_cast<std::uintptr_t>(to));
  }
}

TEST(TryAccess, AnInnerFaultLeavesOnlyTheInnerAccess) {
  const Page bad{PROT_NONE};
  volatile int* const to = bad.get();
  bool inner = true, continued = false;
  MemoryFault fault, other;
  EXPECT_TRUE(try_access(
      [&] {
        inner = try_access([to] { *to = 1; }, other);
        continued = true;
      },
      fault));
  EXPECT_FALSE(inner);
  EXPECT_TRUE(continued);
}

}  // namespace
}  // namespace cucpu::test
