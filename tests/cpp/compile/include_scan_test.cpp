// SPDX-License-Identifier: Apache-2.0
// The scan for files that a source asks for: what hides one would make a cache answer with stale
// code.
#include "core/include_scan.hpp"

#include <gtest/gtest.h>

namespace cucore::detail {
namespace {

std::vector<std::string> uses(std::string_view source) {
  std::vector<std::string> texts;
  for (const FileUse& use : uses_of_files(source)) texts.push_back(use.text);
  return texts;
}
using Texts = std::vector<std::string>;

TEST(IncludeScan, QuotedNamesAreFoundInEverySpelling) {
  const Texts one{"#include \"x.h\""};
  for (const char* source : {
           "#include \"x.h\"",
           "  #\tinclude\"x.h\"\n",
           "#include/**/\"x.h\"",
           "/* a */ # /* b */ include /* c */ \"x.h\" // d",
           "#inc\\\nlude \"x.h\"",
           "#include \\\r\n \"x.h\"",
           "%:include \"x.h\"",
           "\?\?=include \"x.h\"",
           "int a;\n#include \"x.h\"\nint b;",
           "#if 0\n#include \"x.h\"\n#endif",
       })
    EXPECT_EQ(uses(source), one) << source;
  EXPECT_EQ(uses("#include_next \"x.h\""), Texts{"#include_next \"x.h\""});
  EXPECT_EQ(uses_of_files("#include \"a/x.h\"").front().file, "a/x.h");
}

TEST(IncludeScan, NamesThatAMacroGivesAreFound) {
  EXPECT_EQ(uses("#define H \"x.h\"\n#include H\n"), Texts{"#include H"});
  EXPECT_EQ(uses("#include/**/H"), Texts{"#include H"});
  EXPECT_EQ(uses("#include STR(x.h)"), Texts{"#include STR"});
  EXPECT_TRUE(uses_of_files("#include H").front().file.empty());
}

TEST(IncludeScan, QuestionsAboutFilesAreFound) {
  EXPECT_EQ(uses("#if __has_include(\"x.h\")\n#endif"), Texts{"__has_include \"x.h\""});
  EXPECT_EQ(uses("#if defined(A) && __has_include ( H )"), Texts{"__has_include H"});
  EXPECT_EQ(uses("#ifdef __has_include\n#endif"), Texts{});
}

TEST(IncludeScan, NamesInBracketsAreAmongAllUses) {
  const auto all =
      all_uses_of_files("#include <a/x.h>\n#include \"y.h\"\n#if __has_include(<z>)\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].text, "#include <a/x.h>");
  EXPECT_EQ(all[0].file, "a/x.h");
  EXPECT_TRUE(all[0].in_brackets);
  EXPECT_FALSE(all[1].in_brackets);
  EXPECT_EQ(all[2].file, "z");
  EXPECT_EQ(all_uses_of_files("#embed <data>").front().file, "data");
  EXPECT_TRUE(all_uses_of_files("#include <x.h").empty());
}

TEST(IncludeScan, CommentsAndLiteralsAreNoDirectives) {
  for (const char* source : {
           "// #include \"x.h\"",
           "// a \\\n#include \"x.h\"",
           "/*\n#include \"x.h\"\n*/",
           "const char* a = \"\\\n#include \\\"x.h\\\"\";",
           "const char* a = R\"(\n#include \"x.h\"\n)\";",
           "const char* a = u8R\"end(\n)\"\n#include \"x.h\"\n)end\";",
           "#include <x.h>",
           "#include/**/<x.h>",
           "#define TEXT(a) #a \"include\"",
           "int a = b # include \"x.h\"",
           "",
       })
    EXPECT_EQ(uses(source), Texts{}) << source;
}

TEST(IncludeScan, LiteralsHideNoDirectives) {
  const Texts one{"#include \"x.h\""};
  for (const char* source : {
           "const char* a = \"/*\";\n#include \"x.h\"\n// */",
           "char a = '\"'; /* \" */\n#include \"x.h\"",
           "char a = '\\''; char b = '\"';\n#include \"x.h\"",
           "const char* a = \"\\\\\"; // \"\n#include \"x.h\"",
           "int a = 1'000'000; char b = '\"';\n#include \"x.h\"",
           "int a = 0x1'f; // it's\n#include \"x.h\"",
           "auto a = R\"x( )\" /* )x\";\n#include \"x.h\"\n// */",
           "#error it's a \"mistake\n#include \"x.h\"",
           "int R; const char* a = \"(\";\n#include \"x.h\"",
       })
    EXPECT_EQ(uses(source), one) << source;
}

TEST(IncludeScan, MacrosThatStandForHasIncludeAreKnownAfterwards) {
  for (const char* definition :
       {"#define HAS(X) __has_include(X)", "#define HAS( Y, X ) \\\n (__has_include( X ) && Y)",
        "#define HAS(...) __has_include(__VA_ARGS__)", "#define HAS __has_include",
        "#define FIRST(X) __has_include(X)\n#define HAS(X) FIRST(X)"}) {
    HasIncludeMacros known;
    EXPECT_TRUE(all_uses_of_files(definition, known).empty()) << definition;
    EXPECT_TRUE(known.contains("HAS")) << definition;
    const auto uses = all_uses_of_files("#if HAS(<a/x.h>)\n", known);
    ASSERT_EQ(uses.size(), 1U) << definition;
    EXPECT_EQ(uses.front().file, "a/x.h");
    EXPECT_TRUE(all_uses_of_files("#if HAS(NAME)\n", known).front().file.empty());
    EXPECT_TRUE(all_uses_of_files(definition).front().file.empty()) << definition;
  }
}

TEST(IncludeScan, QuestionsForHasIncludeItselfAreNoUse) {
  for (const char* source : {"#ifdef __has_include\n#endif", "#if defined(__has_include)\n#endif",
                             "#define HAS_IT defined(__has_include)"}) {
    HasIncludeMacros known;
    EXPECT_TRUE(all_uses_of_files(source, known).empty()) << source;
    EXPECT_TRUE(known.empty()) << source;
    EXPECT_TRUE(all_uses_of_files(source).empty()) << source;
  }
}

TEST(IncludeScan, HasIncludeOfAMacroThatIsNoParameterIsReported) {
  HasIncludeMacros known;
  EXPECT_TRUE(all_uses_of_files("#define HAS(X) __has_include(FILE)", known).front().file.empty());
  EXPECT_TRUE(
      all_uses_of_files("#define HAS(X) X\n#if __has_include(X)", known).front().file.empty());
  EXPECT_TRUE(known.empty());
}

TEST(IncludeScan, UnfinishedSourcesEnd) {
  for (const char* source :
       {"#include \"x", "#include", "/*", "\"", "R\"(", "'", "#", "//", "\\", "__has_include(",
        "R\"abcdefghijklmnopqrstuvwxyz(", "#define", "#define HAS(", "#define HAS(X"})
    EXPECT_EQ(uses(source), Texts{}) << source;
}

}  // namespace
}  // namespace cucore::detail
