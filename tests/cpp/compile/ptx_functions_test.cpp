// SPDX-License-Identifier: Apache-2.0
#include "core/ptx_functions.hpp"

#include <gtest/gtest.h>

namespace cucore::detail {
namespace {

using Names = std::set<std::string, std::less<>>;

constexpr char kModule[] = R"(.version 8.0
.target sm_90
// .extern .func commented ( .param .b64 p );
.global .align 1 .b8 text[9] = ".func no";
.extern .func  (.param .b64 func_retval0) outside
(
	.param .b64 outside_param_0
)
;
.func (.param .b64 r) inside(.param .b64 a);
.visible .func seen() { ret; }
.weak .func .noreturn weak() { { .reg .b32 %r; } trap; }
.func (.param .b64 r) inside(
	.param .b64 a
)
{
	call.uni (r), outside, (a);
	ret;
}
.visible .entry kernel(.param .u64 p) { /* .func none() { } */ ret; }
)";

TEST(PtxFunctionsTest, DefinedAndExternalFunctionsAreFound) {
  const PtxFunctions found = functions_of_ptx(kModule);
  EXPECT_EQ(found.defined, (Names{"inside", "seen", "weak"}));
  EXPECT_EQ(found.external, Names{"outside"});
}

TEST(PtxFunctionsTest, TextThatIsNoModuleHasNoFunctions) {
  for (const char* text : {"", ".func", ".func (", "{ .func f() {", "\"", "/*", "}}} .func"})
    EXPECT_TRUE(functions_of_ptx(text).defined.empty()) << text;
}

TEST(PtxFunctionsTest, NamedFunctionsBecomeVisibleAndOthersStay) {
  const std::string made = make_functions_visible(kModule, {"inside", "seen", "outside"});
  EXPECT_NE(made.find(".visible .func (.param .b64 r) inside(.param .b64 a);"), made.npos);
  EXPECT_NE(made.find(".visible .func (.param .b64 r) inside(\n"), made.npos);
  EXPECT_NE(made.find("\n.visible .func seen()"), made.npos);
  EXPECT_NE(made.find("\n.extern .func  (.param .b64 func_retval0) outside"), made.npos);
  EXPECT_EQ(make_functions_visible(kModule, {"weak"}), kModule);
}

}  // namespace
}  // namespace cucore::detail
