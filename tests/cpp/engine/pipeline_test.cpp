// SPDX-License-Identifier: Apache-2.0
// tests/cpp/engine/pipeline_test.cpp: the tables of passes, and what can be seen between two
// passes.
#include "cpu/engine/pipeline.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../temporary_folder.hpp"
#include "cpu/engine/settings.hpp"
#include "ptx_fixture.hpp"

namespace cucpu::test {
namespace {

const char* const kKernel = R"(.visible .entry k(.param .u64 out) {
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r1;
ret;
})";

/// The tables as docs/design/pipeline.md shows them.
std::string rendered() {
  std::ostringstream text;
  std::string_view stage;
  for (const pipeline::Row& row : pipeline::rows()) {
    if (row.stage != stage) {
      stage = row.stage;
      text << "\n### Stage `" << stage << "`\n\n| pass | of LLVM | when |\n|---|---|---|\n";
    }
    text << "| `" << row.pass << "` | " << (row.of_llvm ? "yes" : "") << " | "
         << (row.when.empty() ? "always" : row.when) << " |\n";
  }
  return text.str();
}

TEST(Pipeline, TheDesignDocumentShowsTheTables) {
  std::ifstream file{CUCORE_SOURCE_FOLDER "/docs/design/pipeline.md"};
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::string begin =
      "<!-- begin: rendered by Pipeline.TheDesignDocumentShowsTheTables -->\n";
  const std::size_t from = page.find(begin), to = page.find("<!-- end -->");
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::size_t start = from + begin.size();
  EXPECT_EQ(page.substr(start, to - start), rendered() + "\n")
      << "copy the tables of this message into docs/design/pipeline.md";
}

/// Compiles the kernel with CUCORE_CPU_DUMP=`what`; the names of the files.
std::set<std::string> dumped(const std::string& what, const char* width = "8") {
  const cucore::test::TemporaryFolder folder;
  TestMemory memory;
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const Environment list{"CUCORE_CPU_DUMP", what};
  const Environment where{"CUCORE_CPU_DUMP_DIR", folder.path().string()};
  const Environment lanes{"CUCORE_CPU_W", width};
  const auto module = load(kKernel, memory);
  std::vector<std::uint32_t> out(32);
  EXPECT_EQ(launch(*module, "k", shape_of({1}, {32}), out.data()).code, 0);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator{folder.path()})
    names.insert(entry.path().filename().string());
  return names;
}

bool has(const std::set<std::string>& names, const std::string& end) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.ends_with(end); });
}

TEST(Pipeline, CodeIsDumpedAfterEveryRunOfThePassesThatAreNamed) {
  const auto names = dumped("after:instcombine,after:vectorize,after:promote-registers");
  EXPECT_TRUE(has(names, ".vectorize.ll"));
  EXPECT_TRUE(has(names, ".promote_registers.ll"));
  EXPECT_GE(
      std::count_if(names.begin(), names.end(),
                    [](const std::string& name) { return name.ends_with(".instcombine.ll"); }),
      3);
  EXPECT_FALSE(has(names, ".gvn.ll"));
}

TEST(Pipeline, PassesOfOtherPathsAreNotDumped) {
  EXPECT_EQ(dumped("after:lower-to-thread-loop").size(), 0U);
  EXPECT_EQ(dumped("after:vectorize", "1").size(), 0U);
  EXPECT_EQ(dumped("after:lower-to-thread-loop", "1").size(), 1U);
}

TEST(Pipeline, AnUnknownPassIsAnErrorThatListsTheNames) {
  const Environment list{"CUCORE_CPU_DUMP", "after:magic"};
  try {
    Settings::from_environment();
    FAIL() << "accepted";
  } catch (const LoadError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("CUCORE_CPU_DUMP=after:magic: expected "), 0U) << text;
    for (const char* name : {"extract-kernel", "gvn", "vectorize", "fix-f64-nans", "codegen"})
      EXPECT_NE(text.find(name), std::string::npos) << name << ": " << text;
  }
}

TEST(Pipeline, TheTimeOfEveryPassIsReported) {
  TestMemory memory;
  const Environment cache{"CUCORE_CPU_CACHE", "0"};
  const Environment times{"CUCORE_CPU_TIMES", "1"};
  testing::internal::CaptureStderr();
  const auto module = load(kKernel, memory);
  std::vector<std::uint32_t> out(32);
  const int code = launch(*module, "k", shape_of({1}, {32}), out.data()).code;
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 0);
  for (const char* pass : {"thread/canonicalize-nans", "kernel/always-inline", "vector/instcombine",
                           "block/gvn", "codegen/codegen"})
    EXPECT_NE(text.find(pass), std::string::npos) << pass << ": " << text;
}

}  // namespace
}  // namespace cucpu::test
