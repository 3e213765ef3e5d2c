// SPDX-License-Identifier: Apache-2.0
// Programs and linkers, as C++ programs use them.
#include "cucore/program.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cucore/error.hpp"
#include "cucore/linker.hpp"
#include "cucore/pathfinder.hpp"
#include "cucore/program_cache.hpp"

namespace cucore {
namespace {

class Compile : public testing::Test {
 protected:
  void SetUp() override {
    try {
      pathfinder::load_nvidia_dynamic_lib("nvrtc");
    } catch (const pathfinder::NotFoundError&) {
      GTEST_SKIP() << "NVRTC is not installed";
    }
    options_.arch = "sm_90";
  }
  ProgramOptions options_;
};

TEST_F(Compile, TemplatesGetTheirSymbols) {
  Program program{"template <class T> __global__ void k(T*) {}", SourceType::cxx, options_};
  const std::array<std::string, 2> names{"k<int>", "k<float>"};
  const ObjectCode code = program.compile(CodeType::ptx, names);
  EXPECT_EQ(code.symbol_mapping().at("k<int>"), "_Z1kIiEvPT_");
  EXPECT_NE(code.code().find(".entry _Z1kIfEvPT_"), std::string::npos);
}

TEST_F(Compile, ErrorsCarryTheLogAndTheCode) {
  options_.name = "mine.cu";
  Program program{"__global__ void k() { bad; }", SourceType::cxx, options_};
  try {
    static_cast<void>(program.compile(CodeType::cubin));
    FAIL();
  } catch (const NVRTCError& error) {
    EXPECT_EQ(error.name(), "NVRTC_ERROR_COMPILATION");
    EXPECT_NE(std::string{error.what()}.find("mine.cu(1): error: identifier \"bad\" is undefined"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Compile, TheLogIsHandedOutAfterSuccess) {
  std::string log;
  Program program{"__global__ void k() { int unused; }", SourceType::cxx, options_};
  static_cast<void>(program.compile(CodeType::ptx, {}, &log));
  EXPECT_NE(log.find("unused"), std::string::npos);
}

TEST_F(Compile, AClosedProgramSaysSo) {
  Program program{"", SourceType::cxx, options_};
  program.close();
  program.close();
  EXPECT_TRUE(program.is_closed());
  EXPECT_THROW(static_cast<void>(program.compile(CodeType::ptx)), InvalidStateError);
}

TEST_F(Compile, ThroughACacheTheSecondTimeIsTheSame) {
  InMemoryProgramCache cache;
  const std::string source = "template <class T> __global__ void k(T*) {}";
  const std::array<std::string, 1> names{"k<int>"};
  const std::string key =
      make_program_cache_key(source, SourceType::cxx, options_, CodeType::ptx, names);
  Program program{source, SourceType::cxx, options_};
  const ObjectCode first = compile_cached(cache, program, key, CodeType::ptx, names);
  program.close();  // so that only the cache can answer
  const ObjectCode second = compile_cached(cache, program, key, CodeType::ptx, names);
  EXPECT_EQ(first.code(), second.code());
  EXPECT_EQ(first.symbol_mapping(), second.symbol_mapping());
}

TEST_F(Compile, ACacheThatFailsIsToldInTheLogAndDoesNotPreventTheResult) {
  struct Failing final : ProgramCache {
    std::optional<std::string> get(std::string_view) override { fail("no way in"); }
    void put(std::string_view, std::string_view) override { fail("no way out"); }
    bool erase(std::string_view) override { return false; }
    void clear() override {}
    std::size_t size() const override { return 0; }
    [[noreturn]] static void fail(const char* what) {
      throw std::system_error{std::make_error_code(std::errc::io_error), what};
    }
  } cache;
  Program program{"extern \"C\" __global__ void k() {}", SourceType::cxx, options_};
  std::string log;
  const ObjectCode code = compile_cached(cache, program, "key", CodeType::ptx, {}, &log);
  EXPECT_NE(code.code().find(".entry k"), std::string::npos);
  EXPECT_NE(log.find("could not be read: no way in"), std::string::npos) << log;
  EXPECT_NE(log.find("could not be cached: no way out"), std::string::npos) << log;
}

TEST_F(Compile, ACacheMayKeepMoreOfAResultThanItsCode) {
  struct Keeping final : ProgramCache {
    std::optional<std::string> get(std::string_view) override { return std::nullopt; }
    void put(std::string_view key, std::string_view) override { others.emplace_back(key); }
    void put_object(std::string_view, const ObjectCode& object) override {
      names.push_back(object.name());
    }
    bool erase(std::string_view) override { return false; }
    void clear() override {}
    std::size_t size() const override { return names.size(); }
    std::vector<std::string> names, others;
  } cache;
  options_.name = "mine.cu";
  Program program{"template <class T> __global__ void k(T*) {}", SourceType::cxx, options_};
  const std::array<std::string, 1> names{"k<int>"};
  (void)compile_cached(cache, program, "key", CodeType::ptx, names);
  EXPECT_EQ(cache.names, std::vector<std::string>{"mine.cu"});
  EXPECT_EQ(cache.others, std::vector<std::string>{"key/symbols"});
}

TEST_F(Compile, LinkTimeCodeBecomesPtx) {
  if (Linker::which_backend() != CompilerBackend::nvjitlink)
    GTEST_SKIP() << "nvJitLink is not installed";
  options_.relocatable_device_code = true;
  Program a{"__device__ int f(int x) { return x + 41; }", SourceType::cxx, options_};
  Program b{"__device__ int f(int); extern \"C\" __global__ void k(int* p) { *p = f(1); }",
            SourceType::cxx, options_};
  LinkerOptions options;
  options.arch = "sm_90";
  options.link_time_optimization = true;
  Linker linker{{a.compile(CodeType::ltoir), b.compile(CodeType::ltoir)}, options};
  const ObjectCode code = linker.link(CodeType::ptx);
  EXPECT_NE(code.code().find("42"), std::string::npos) << "the call was not inlined";
  EXPECT_THROW(static_cast<void>(linker.link(CodeType::ptx)), InvalidStateError);
}

TEST(Options, ThatMeanNothingToTheSourceAreRefused) {
  ProgramOptions with_sources;
  with_sources.extra_sources = {{"a", ""}};
  EXPECT_THROW((Program{".version 8.0", SourceType::ptx, with_sources}), std::invalid_argument);
  EXPECT_THROW((Program{"; ModuleID = 'x'", SourceType::nvvm, with_sources}),
               std::invalid_argument);  // an empty module
  ProgramOptions with_library;
  with_library.use_libdevice = true;
  EXPECT_THROW((Program{"", SourceType::cxx, with_library}), std::invalid_argument);
  EXPECT_THROW((Program{".version 8.0", SourceType::ptx, with_library}), std::invalid_argument);
}

TEST(Names, GoBothWays) {
  for (const CodeType type : {CodeType::ptx, CodeType::cubin, CodeType::ltoir, CodeType::fatbin,
                              CodeType::object, CodeType::library}) {
    EXPECT_EQ(code_type_of(code_type_name(type)), type);
  }
  EXPECT_THROW(static_cast<void>(code_type_of("exe")), std::invalid_argument);
  EXPECT_EQ(source_type_of("C++"), SourceType::cxx);
  EXPECT_THROW(static_cast<void>(source_type_of("ada")), std::invalid_argument);
}

}  // namespace
}  // namespace cucore
