// SPDX-License-Identifier: Apache-2.0
// parser_test.cpp: the grammar, its diagnostics, and malformed text that must not crash the parser.
#include "cpu/ptx/parser.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "cpu/ptx/printer.hpp"

namespace cucpu::ptx {
namespace {

constexpr std::string_view kHead = ".version 9.4\n.target sm_90\n.address_size 64\n";

std::string kernel(std::string_view body) {
  return cat(kHead,
             ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 "
             "%r<99>; .reg .b64 %rd<9>;\n",
             body, "\nret;\n}\n");
}

struct Result {
  Parsed parsed;
  std::string log;
};

Result read(std::string text) {
  Diagnostics diagnostics{"test.ptx"};
  Result r;
  r.parsed = parse(std::move(text), diagnostics);
  r.log = diagnostics.log();
  return r;
}

void expect_good(const std::string& text) {
  const Result r = read(text);
  ASSERT_TRUE(r.parsed.module) << r.log << text;
  EXPECT_EQ(r.parsed.code, 0);
  const std::string printed = print(*r.parsed.module);
  const Result again = read(printed);
  ASSERT_TRUE(again.parsed.module) << again.log << printed;
  EXPECT_EQ(print(*again.parsed.module), printed);
}

void expect_error(const std::string& text, std::string_view message, int code = 218) {
  const Result r = read(text);
  EXPECT_FALSE(r.parsed.module);
  EXPECT_EQ(r.parsed.code, code);
  EXPECT_NE(r.log.find(message), std::string::npos) << "wanted: " << message << "\ngot: " << r.log;
}

TEST(Parser, KernelParametersAndDirectivesAreParsed) {
  const Result r = read(cat(
      kHead,
      ".visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 s[24], .param "
      ".f32 x)\n"
      ".maxntid 256, 2, 1 .minnctapersm 2 .maxnreg 64 .reqnctapercluster 2, 1, 1\n{ ret; }\n\0"));
  ASSERT_TRUE(r.parsed.module) << r.log;
  const Function& f = r.parsed.module->functions.at(0);
  EXPECT_TRUE(f.entry);
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.variables[0].pointer_space, Space::global);
  EXPECT_EQ(f.variables[0].pointer_align, 16u);
  EXPECT_EQ(f.variables[1].size, 24u);
  EXPECT_EQ((*f.maxntid)[1], 2u);
  EXPECT_EQ((*f.reqnctapercluster)[0], 2u);
  EXPECT_EQ(f.maxnreg, 64u);
}

TEST(Parser, NestedScopesMayRedeclareNames) {
  expect_good(
      kernel("{ .reg .pred p; .reg .u32 t; setp.gt.s32 p, %r1, 3; @p add.u32 t, %r1, 5; mov.u32 "
             "%r2, t; }\n"
             "{ .reg .f32 t; mov.f32 t, 0f3F800000; add.f32 t, t, t; }\n"));
}

TEST(Parser, LabelsOfInnerAndOuterScopesAreResolved) {
  expect_good(kernel("{ bra L; L: { bra L; bra M; } }\nM: bra M;\n"));
  expect_error(kernel("{ L: }\nbra L;"), "label 'L' is not defined");
  expect_error(kernel("L: L: ret;"), "label 'L' is already defined");
}

TEST(Parser, VectorRegistersAndRegisterRangesAreParsed) {
  const Result r = read(kernel(
      ".reg .v4 .u32 %v; .reg .v2 .f32 %w<3>;\n"
      "mov.v4.u32 %v, %ntid; mov.u32 %v.y, %v.a; mov.f32 %w2.x, %w2.y; mov.f32 %w1.x, %w2.g;\n"));
  ASSERT_TRUE(r.parsed.module) << r.log;
  const Function& f = r.parsed.module->functions.at(0);
  ASSERT_EQ(f.registers.size(), 8u);
  EXPECT_EQ(f.registers[3].component, 3);
  EXPECT_EQ(f.registers[4].number, 2);
  EXPECT_EQ(f.registers[7].component, 1);
  const auto& mov = std::get<Instruction>(f.body[6]);
  ASSERT_EQ(mov.operands[0].kind, Operand::Kind::vector);
  EXPECT_EQ(mov.operands[0].parts.size(), 4u);
  EXPECT_EQ(mov.operands[1].parts.size(), 4u);
  expect_good(r.parsed.module->text);
  expect_error(kernel(".reg .v4 .u32 %v<2>; mov.u32 %r1, %v2.x;"), "'%v2' is not declared");
  expect_error(kernel(".reg .v2 .u32 %v; mov.u32 %r1, %v.z;"), "'%v' has no component '.z'");
  expect_error(kernel(".reg .v4 .b64 %v;"), "up to 128 bits");
  expect_error(kernel(".reg .v2 .pred %v;"), "none are predicates");
}

TEST(Parser, ConditionalConstantExpressionsAreEvaluated) {
  const auto value = [](std::string_view expression) {
    const Result r = read(cat(kHead, ".global .s64 x = ", expression, ";"));
    std::uint64_t bits = 0;
    if (!r.parsed.module)
      ADD_FAILURE() << expression << ": " << r.log;
    else
      std::memcpy(&bits, r.parsed.module->variables[0].data.data(), 8);
    return static_cast<std::int64_t>(bits);
  };
  EXPECT_EQ(value("1 > 2 ? 3 : 4 + 5"), 9);
  EXPECT_EQ(value("0 ? 2 : 1 ? 4 : 5"), 4);
  EXPECT_EQ(value("1 ? 0 ? 6 : 7 : 3"), 7);
  EXPECT_EQ(value("(1 ? -1 : 2U) >> 63"), -1);
  EXPECT_EQ(value("2 * (1 ? 10 : 20) + 1"), 21);
  expect_error(kernel("mov.u32 %r1, 1 ? 2;"), "expected ':' in a conditional expression");
  expect_error(kernel("mov.u32 %r1, 1.5 ? 2 : 3;"), "the operands of '?' must be integers");
  std::string deep;
  for (int k = 0; k < 100000; ++k) deep += "1 ? ";
  expect_error(kernel(cat("mov.u32 %r1, ", deep, "1;")), "nested too deeply");
}

TEST(Parser, AddressSumsAndVectorElementsAreOperands) {
  const Result r = read(
      cat(kHead,
          ".global .align 8 .b32 g[4][8];\n.visible .entry k() { .reg .b32 %r<9>; .reg .b64 %d;\n"
          "mov.u64 %d, g+4*2; mov.u64 %d, g[3]; ld.global.u32 %r1, g[1]; add.u32 %r1, %r2+1, 5;"
          " ld.global.u32 %r1, [%d+8-4]; ld.global.u32 %r1, [%d-8]; ret; }"));
  ASSERT_TRUE(r.parsed.module) << r.log;
  const Function& f = r.parsed.module->functions.at(0);
  const auto operand = [&](std::size_t statement, std::size_t k) -> const Operand& {
    return std::get<Instruction>(f.body[statement]).operands[k];
  };
  EXPECT_EQ(operand(2, 1).value, 8u);
  EXPECT_EQ(operand(3, 1).value, 12u);
  EXPECT_EQ(operand(4, 1).kind, Operand::Kind::address);
  EXPECT_EQ(operand(4, 1).value, 4u);
  EXPECT_EQ(operand(5, 1).kind, Operand::Kind::reg);
  EXPECT_EQ(operand(5, 1).value, 1u);
  EXPECT_EQ(operand(6, 1).value, 4u);
  EXPECT_EQ(operand(7, 1).value, 0 - std::uint64_t{8});
  expect_good(r.parsed.module->text);
  expect_error(kernel("mov.u32 %r1+1, %r2;"), "cannot be used here");
  expect_error(kernel("mov.b64 %rd1, {%r1+1, %r2};"), "cannot be used here");
  expect_error(kernel("mov.u64 %rd1, p[1];"), "'p' is not an array");
  expect_error(kernel("ld.global.u32 %r1, [%rd1+1.0];"), "expected an integer");
}

// The printer writes each declaration in its scope.
TEST(Parser, FunctionVariablesStayInTheirScope) {
  const Result good = read(cat(kHead,
                               ".global .b32 x = 1;\n.func f() { .shared .b32 x; .const .b32 c = "
                               "3; st.shared.b32 [x], 2; ret; }\n"
                               ".visible .entry k() { .shared .b32 s; .global .b32 x[2] = {1, 2};\n"
                               "{ .global .u64 y = x; st.global.b64 [y], 1; } st.global.b32 [x], "
                               "2; st.shared.b32 [s], 1; ret; }"));
  ASSERT_TRUE(good.parsed.module) << good.log;
  const Module& m = *good.parsed.module;
  ASSERT_EQ(m.variables.size(), 5u);
  EXPECT_FALSE(m.variables[0].scoped);
  EXPECT_TRUE(m.variables[1].scoped);
  EXPECT_EQ(m.variables[4].relocations.at(0).symbol, 3u);
  EXPECT_EQ(m.functions.at(1).variables.size(), 1u);
  expect_good(m.text);
  expect_good(kernel(".local .b32 x<3>; .shared .b32 y<2>, z; ld.local.b32 %r1, [x2];"));
  expect_good(cat(kHead, ".global .b32 x<3>, y; .const .b32 c<2>;"));
  expect_error(kernel(".local .b32 x<3>; ld.local.b32 %r1, [x3];"), "'x3' is not declared");
  expect_error(kernel(".local .b32 x<100000>;"), "at most 10000");
  expect_error(kernel(".shared .b32 s = 4;"), "'s' cannot have an initial value");
  expect_error(kernel(".shared .b32 s[];"), "'s' needs a size");
  expect_error(kernel(".global .texref t;"), "must be declared at module level");
  expect_error(kernel(".align 4 .reg .b32 x;"), "must begin with .reg");
}

TEST(Parser, InitializersAreParsed) {
  const Result r =
      read(cat(kHead,
               ".global .align 4 .f32 f[3] = {0f3F800000, 2.5, 0d4008000000000000};\n"
               ".global .b8 text[] = {72, 105, 0};\n"
               ".global .u64 where[2] = {generic(text)+1, f};\n"
               ".global .u8 low = 0xff(text);\n"
               ".global .s32 grid[2][2] = {{1, 2}, {3}};\n"
               ".const .v2 .u16 pair = {7, 1 << 4 | 3};\n"
               ".extern .shared .align 16 .b8 dynamic[];\n"
               ".global .attribute(.managed) .u32 shared_with_host = WARP_SZ * 2 + (3 > 2);\n"));
  ASSERT_TRUE(r.parsed.module) << r.log;
  const Module& m = *r.parsed.module;
  EXPECT_EQ(m.variables[0].data,
            (std::vector<std::uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0x40, 0, 0, 0x40, 0x40}));
  EXPECT_EQ(m.variables[1].size, 3u);
  ASSERT_EQ(m.variables[2].relocations.size(), 2u);
  EXPECT_EQ(m.variables[2].relocations[0].addend, 1);
  EXPECT_EQ(m.variables[3].relocations[0].shift, 0);
  EXPECT_EQ(m.variables[4].data[8], 3);
  EXPECT_EQ(m.variables[4].data.size(), 16u);
  EXPECT_EQ(m.variables[5].data[2], 19);
  EXPECT_TRUE(m.variables[6].unsized);
  EXPECT_TRUE(m.variables[7].managed);
  EXPECT_EQ(m.variables[7].data[0], 65);
  expect_good(r.parsed.module->text);
}

TEST(Parser, CallsPrototypesAndBranchTargetsAreParsed) {
  expect_good(cat(
      kHead,
      ".func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 s[16]);\n"
      ".visible .entry k() { .reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
      "{ .param .b64 a; .param .align 8 .b8 s[16]; .param .b32 r; st.param.b64 [a], %rd1; "
      "st.param.b64 [s+8], %rd2;\n"
      "call.uni (r), f, (a, s); ld.param.b32 %r1, [r]; }\n"
      "P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);\n"
      "{ .param .b64 a; .param .align 8 .b8 s[16]; .param .b32 r; call (r), %rd3, (a, s), P; }\n"
      "T: .branchtargets A, B;\nbrx.idx %r2, T;\nA: ret;\nB: exit;\n}\n"
      ".func (.param .b32 r) f(.param .b64 a, .param .align 8 .b8 s[16]) { ret; }\n"));
}

TEST(Parser, DebugDirectivesAreParsed) {
  const Result r = read(cat(
      ".version 9.4\n.target sm_90, debug\n.address_size 64\n.file 1 \"a.cu\", 1700000000, 42\n"
      ".visible .entry k() { .loc 1 3 7\n ret; .loc 1 4 1, function_name $s, inlined_at 1 9 2\n }\n"
      ".section .debug_abbrev { .b8 1, 17\n.b64 label+4\n.b8 0 }\n.section .debug_str { $s: .b8 "
      "107, 0 }\n"));
  ASSERT_TRUE(r.parsed.module) << r.log;
  EXPECT_EQ(r.parsed.module->files.at(0).name, "a.cu");
}

TEST(Parser, DebugSectionsAreBytesWithReferences) {
  const Result r = read(
      ".version 9.4\n.target sm_90, debug\n.address_size 64\n.visible .entry k() { $L__a: ret; }\n"
      ".section .debug_info { .b32 513\n.b8 1, -1\n.b64 $L__a\n.b32 .debug_loc+131\n"
      ".b16 $L__b-$L__a\n.b64 variable-8, 2 }\n.section .debug_str { .b8 65\n$L__s: .b8 66, 0 }\n");
  ASSERT_TRUE(r.parsed.module) << r.log;
  ASSERT_EQ(r.parsed.module->debug_sections.size(), 2U);
  const DebugSection& info = r.parsed.module->debug_sections[0];
  EXPECT_EQ(info.name, "debug_info");
  EXPECT_EQ(info.bytes.size(), 4U + 2 + 8 + 4 + 2 + 8 + 8);
  EXPECT_EQ(info.bytes.substr(0, 6), std::string("\x01\x02\0\0\x01\xff", 6));
  EXPECT_EQ(info.bytes[28], 2);
  ASSERT_EQ(info.references.size(), 4U);
  EXPECT_EQ(info.references[0].symbol, "$L__a");
  EXPECT_EQ(info.references[0].offset, 6U);
  EXPECT_EQ(info.references[0].width, 8);
  EXPECT_TRUE(info.references[1].section);
  EXPECT_EQ(info.references[1].symbol, "debug_loc");
  EXPECT_EQ(info.references[1].addend, 131);
  EXPECT_EQ(info.references[2].symbol, "$L__b");
  EXPECT_EQ(info.references[2].minus, "$L__a");
  EXPECT_EQ(info.references[3].addend, -8);
  const DebugSection& names = r.parsed.module->debug_sections[1];
  ASSERT_EQ(names.labels.size(), 1U);
  EXPECT_EQ(names.labels[0].label, "$L__s");
  EXPECT_EQ(names.labels[0].offset, 1U);
}

TEST(Parser, TextAfterNulIsIgnored) {
  std::string text = kernel("");
  text.push_back('\0');
  text += "garbage";
  EXPECT_TRUE(read(text).parsed.module);
}

TEST(Parser, SyntaxErrorNamesExpectedTokenAndPosition) {
  expect_error(kernel("add.s32 %r1, %r2"),
               "test.ptx:8:1: error: expected ',' or ';' after an operand of 'add', found 'ret'");
  expect_error(kernel("frob.s32 %r1, %r2;"), "test.ptx:7:1: error: unknown instruction 'frob'");
  expect_error(kernel("add.q32 %r1, %r2, %r3;"),
               "test.ptx:7:4: error: 'add' does not take '.q32' here");
  expect_error(kernel("shf.l.b32 %r1, %r2, %r3, %r4;"), "'shf' needs one of .clamp .wrap");
  expect_error(kernel("add.s32 %r1, %r2;"), "'add' needs more operands: d a b");
  expect_error(kernel("add.s32 %r1, %r2, %r3, %r4;"), "'add' takes fewer operands");
  expect_error(kernel("mov.u32 %r100, 1;"), "register '%r100' is not declared");
  expect_error(kernel("mov.u32 5, %r1;"), "operand 1 of 'mov' must be a register");
  expect_error(kernel("ld.global.u32 %r1, %rd1;"),
               "operand 2 of 'ld' must be an address in brackets");
  expect_error(kernel("@%r1 bra L; L:"), "'%r1' is not a predicate register");
  expect_error(kernel("bra nowhere;"), "label 'nowhere' is not defined");
  expect_error(kernel("call missing, ();"), "'missing' is not declared");
  expect_error(kernel("mov.u64 %rd1, 0x1ffffffffffffffff;"),
               "expected a constant, found '0x1ffffffffffffffff'");
  expect_error(cat(kHead, ".global .b32 x[2] = {1, 2, 3};"), "too many initial values for 'x'");
  expect_error(cat(kHead, ".global .b32 x; .global .b32 x;"), "'x' is already declared");
  expect_error(cat(kHead, ".entry k() { ret;"), "expected '}'");
  expect_error(cat(kHead, "hello"),
               "expected a directive such as .visible or .global, found 'hello'");
  expect_error(kernel("cvt.rn.bf16x2.ue8m0x2 %r1, %h1; .reg .b32 9;"),
               "expected the name of a register, found '9'");
}

TEST(Parser, SeveralErrorsAreReportedTogether) {
  const Result r = read(kernel("frob %r1;\nadd.s32 %r1, %r2, %zz;\nwibble;\n"));
  EXPECT_NE(r.log.find(":7:"), std::string::npos);
  EXPECT_NE(r.log.find(":8:"), std::string::npos);
  EXPECT_NE(r.log.find(":9:"), std::string::npos);
}

TEST(Parser, UnsupportedVersionAndSyntaxErrorHaveDifferentCodes) {
  const std::string newest =
      std::to_string(kNewestVersion / 10) + "." + std::to_string(kNewestVersion % 10);
  const std::string newer =
      std::to_string((kNewestVersion + 1) / 10) + "." + std::to_string((kNewestVersion + 1) % 10);
  expect_good(cat(".version ", newest, "\n.target sm_90\n"));
  expect_error(cat(".version ", newer, "\n.target sm_90\n"), cat("newer than ", newest), 222);
  expect_error(".version 12.0\n.target sm_90\n", cat("newer than ", newest), 222);
  expect_error(".version x\n.target sm_90\n", "expected a version such as 8.5", 218);
  expect_error("", "the text is empty", 218);
  expect_error(".target sm_90\n", "expected .version", 218);
  expect_error(".version 9.0\n.target turbo_9\n", "unknown target 'turbo_9'", 218);
}

// promise: Excessively nested or repeated PTX is refused before it exhausts the process
TEST(Parser, DeepNestingIsAnError) {
  const std::string deep(100000, '(');
  expect_error(kernel(cat("mov.u32 %r1, ", deep, "1;")), "nested too deeply");
  expect_error(kernel(cat("mov.u32 %r1, ", std::string(100000, '-'), "1;")), "nested too deeply");
  expect_error(kernel(cat("mov.u32 %r1, ", std::string(100000, '{'), ";")), "nested too deeply");
  expect_error(kernel(cat("ld.u32 %r1, ", std::string(100000, '['), ";")), "nested too deeply");
  expect_error(cat(kHead, ".global .b32 x[1] = ", std::string(100000, '{')),
               "nested more deeply than the array");
  expect_good(kernel(cat(std::string(100000, '{'), std::string(100000, '}'))));
  expect_error(kernel(std::string(100000, '{')), "expected '}'");
}

TEST(Parser, ImpossibleSizesAreErrors) {
  expect_error(cat(kHead, ".global .b64 x[0xffffffffffffffff];"), "is too large");
  expect_error(cat(kHead, ".global .b64 x[0x100000000][0x100000000];"), "is too large");
  expect_error(cat(kHead, ".global .align 3 .b64 x;"), "power of two");
  expect_error(kernel("mov.u32 %r1, 1 / 0;"), "have no such result");
}

TEST(Parser, TruncatedTextNeverCrashes) {
  const std::string text = kernel(
      "L: { .reg .f32 t; ld.global.v2.f32 {t, _}, [%rd1+8]; @!%p1 bra L; } .pragma \"nounroll\";\n"
      "shfl.sync.down.b32 %r1|%p2, %r2, 1, 31, -1; T: .branchtargets L; brx.idx %r1, T;\n");
  ASSERT_TRUE(read(text).parsed.module) << read(text).log;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const Result r = read(text.substr(0, n));
    EXPECT_TRUE(r.parsed.module || r.parsed.code == 218 || r.parsed.code == 222) << n;
    EXPECT_EQ(r.parsed.module == nullptr, !r.log.empty());
  }
}

TEST(Parser, RandomlyChangedTextNeverCrashes) {
  const std::string text = kernel(
      "{ .param .b32 a; st.param.b32 [a], %r1; }\n.loc 1 2 3\nmad.wide.s32 %rd1, %r1, %r2, %rd2;\n"
      "mov.b32 {%h1, %h2}, %r1; tex.1d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5}];\n"
      ".reg .v4 .u32 %v<2>; .global .align 4 .b32 g[4] = {1, 2 ? 3 : 4}; mov.v4.u32 %v1, %tid;\n"
      "{ .shared .b32 g[2]; add.u32 %r1, %v1.x, %r2+4; ld.shared.u32 %r2, g[1]; }\n");
  std::mt19937 random{7};
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int k = 0; k < 4; ++k) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 8);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 12));
          break;
      }
    }
    const Result r = read(damaged);
    EXPECT_EQ(r.parsed.module == nullptr, !r.log.empty());
  }
}

TEST(Parser, OldPtxVersionIsParsed) {
  expect_good(".version 1.0\n.target sm_10\n.global .u32 x;\n");
  expect_good(".version 6.3\n.target sm_30\n.entry k { ret; }\n");
}

}  // namespace
}  // namespace cucpu::ptx
