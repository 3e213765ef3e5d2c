// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/call_targets_test.cpp: calls through pointers reach functions of loaded modules
// only.
#include "cpu/engine/run/call_targets.hpp"

#include "grid_fixture.hpp"

namespace cucpu::test {
namespace {

struct Call {
  std::uint64_t address;
  std::uint64_t answer = 0;
};

void call(ThreadContext* thread) {
  auto& call = param<Call>(*thread->block);
  call.answer = cucpu_rt_call_target(call.address);
}

Outcome call_through(Call& call) {
  LaunchShape shape;
  shape.grid = shape.block = {1, 1, 1};
  const Call* const address = &call;
  return run(thread_code(test::call), shape, &address);
}

TEST(CallTargets, ARegisteredFunctionIsCallableWhileItsModuleIsLoaded) {
  constexpr std::uint64_t kFunction = 0x7f0012345670;
  Call call{kFunction};
  {
    const CallTargets targets{{kFunction}};
    EXPECT_EQ(call_through(call).code, 0);
    EXPECT_EQ(call.answer, kFunction);
  }
  EXPECT_EQ(call_through(call).code, 700);
}

TEST(CallTargets, AFunctionOfTwoModulesStaysCallableUntilBothAreUnloaded) {
  constexpr std::uint64_t kFunction = 0x7f0012345680;
  Call call{kFunction};
  const CallTargets first{{kFunction}};
  { const CallTargets second{{kFunction}}; }
  EXPECT_EQ(call_through(call).code, 0);
}

TEST(CallTargets, ErrorCodesOfOtherAddressesAreThoseOfAnH200) {
  const std::pair<std::uint64_t, int> cases[] = {
      {0, 718}, {0x1234, 718}, {0x1230, 715}, {0x7f0000000000, 700}, {~std::uint64_t{0}, 715}};
  for (const auto& [address, code] : cases) {
    Call call{address};
    const Outcome outcome = call_through(call);
    EXPECT_EQ(outcome.code, code) << std::hex << address;
    EXPECT_NE(outcome.report.find("no function of a loaded module"), std::string::npos)
        << outcome.report;
  }
}

}  // namespace
}  // namespace cucpu::test
