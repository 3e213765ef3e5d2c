// SPDX-License-Identifier: Apache-2.0
// param_kinds_test.cpp: what PTX and mangled names tell of a kernel's parameters.
#include "core/param_kinds.hpp"

#include <gtest/gtest.h>

namespace cucore::detail {
namespace {

DeclaredParams params_of(std::string_view ptx) {
  DeclaredParams params;
  add_params_of_ptx(ptx, params);
  return params;
}

TEST(ParamKindsOfPtx, TypesOfParametersBecomeKinds) {
  const auto params = params_of(R"(
.version 8.0
.visible .entry scale(
	.param .u64 .ptr .global .align 4 data,
	.param .f32 factor,
	.param .s32 n,
	.param .align 8 .b8 pair[16],
	.param .b32 bits, .param.f64 other
)
{ ret; })");
  const std::vector<DeclaredParam> expected{
      {ParamKind::pointer, 8, "data"}, {ParamKind::floating, 4, "factor"},
      {ParamKind::integer, 4, "n"},    {ParamKind::unknown, 0, "pair"},
      {ParamKind::unknown, 4, "bits"}, {ParamKind::floating, 8, "other"}};
  EXPECT_EQ(params.at("scale"), expected);
}

TEST(ParamKindsOfPtx, NamesThatACompilerMadeUpAreLeftOut) {
  const auto params = params_of(".entry k(.param .f32 k_param_0, .param .u32 k_parameter) { }");
  EXPECT_EQ(params.at("k")[0].name, "");
  EXPECT_EQ(params.at("k")[1].name, "k_parameter");
}

TEST(ParamKindsOfPtx, CommentsAndStringLiteralsAreNoDeclarations) {
  const auto params = params_of(R"ptx(
// .entry a(.param .f32 x)
/* .entry b(.param .f32 x) */
.file 1 ".entry c(.param .f32 x)"
.entry d /* ( */ (.param .f32 // , .param .u32 y
  x) { }
)ptx");
  EXPECT_EQ(params.size(), 1u);
  EXPECT_EQ(params.at("d"), (std::vector<DeclaredParam>{{ParamKind::floating, 4, "x"}}));
}

TEST(ParamKindsOfPtx, AKernelWithoutParametersHasAnEmptyList) {
  const auto params = params_of(".entry a() { } .entry b { }");
  EXPECT_TRUE(params.at("a").empty());
  EXPECT_TRUE(params.at("b").empty());
}

TEST(ParamKindsOfPtx, TextThatEndsEarlyAddsNothing) {
  for (const char* text : {".entry", ".entry ", ".entry k", ".entry k(.param",
                           ".entry k(.param .f32", ".entry k(.param .f32 x,", ".entry k(x)",
                           ".entry k(.param .f32 x {", "/* .entry", "\".entry", "\"\\"}) {
    const auto params = params_of(text);
    EXPECT_TRUE(params.empty() || params.at("k").empty()) << text;
  }
}

TEST(ParamKindsOfNames, MangledNamesTellTheTypes) {
  const auto declared = params_of_mangled_name("_Z5scalePffPKdimb");  // scale(float*, float, ...)
  ASSERT_EQ(declared.size(), 6u);
  const ParamKind kinds[] = {ParamKind::pointer, ParamKind::floating, ParamKind::pointer,
                             ParamKind::integer, ParamKind::integer,  ParamKind::integer};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(declared[i].kind, kinds[i]) << i;
  // void axpy<float, int>(std::pair<float, int>, float, void (*)(int, int))
  const auto pairs = params_of_mangled_name("_Z4axpyIfiEvSt4pairIT_T0_ES1_PFviiE");
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].kind, ParamKind::unknown);
  EXPECT_EQ(pairs[1].kind, ParamKind::floating);
}

TEST(ParamKindsOfNames, OtherNamesTellNothing) {
  EXPECT_TRUE(params_of_mangled_name("scale").empty());
  EXPECT_TRUE(params_of_mangled_name("_Z").empty());
  EXPECT_TRUE(params_of_mangled_name("_Z99unfinished").empty());
  EXPECT_TRUE(params_of_mangled_name("_Z1kv").empty());
}

TEST(ParamKinds, WhatOneDeclarationDoesNotTellAnotherMay) {
  std::vector<ParamInfo> params{{0, 8}, {8, 4}, {12, 4}};
  std::vector<std::string> names;
  ASSERT_TRUE(apply_declaration(params_of_mangled_name("_Z1kPffi"), params, names));
  ASSERT_TRUE(apply_declaration(
      params_of(".entry _Z1kPffi(.param .u64 p, .param .b32 f, .param .b32 _Z1kPffi_param_2)")
          .at("_Z1kPffi"),
      params, names));
  EXPECT_EQ(params[0].kind, ParamKind::integer);  // the best one last
  EXPECT_EQ(params[1].kind, ParamKind::floating);
  EXPECT_EQ(params[2].kind, ParamKind::integer);
  EXPECT_EQ(names, (std::vector<std::string>{"p", "f", ""}));
}

TEST(ParamKinds, ADeclarationThatDoesNotFitTheTableIsIgnored) {
  std::vector<ParamInfo> params{{0, 8}, {8, 4}};
  std::vector<std::string> names;
  EXPECT_FALSE(apply_declaration({{ParamKind::pointer, 8, "p"}}, params, names));
  EXPECT_FALSE(apply_declaration({{ParamKind::pointer, 8, "p"}, {ParamKind::floating, 8, "x"}},
                                 params, names));
  EXPECT_EQ(params[0].kind, ParamKind::unknown);
  EXPECT_TRUE(apply_declaration({{ParamKind::pointer, 8, "p"}, {ParamKind::floating, 4, "x"}},
                                params, names));
  EXPECT_EQ(params[1].kind, ParamKind::floating);
  EXPECT_EQ(names[1], "x");
}

}  // namespace
}  // namespace cucore::detail
