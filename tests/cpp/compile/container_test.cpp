// SPDX-License-Identifier: Apache-2.0
// Containers: PTX is added and read back, the cubin is unchanged, and malformed input is an error.
#include "cucore/container.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace cucore {
namespace {

constexpr std::string_view kPtx = ".version 8.0\n.target sm_90\n.address_size 64\n";

TEST(Container, HoldsPtxAlone) {
  const std::string file = make_container({}, kPtx);
  const auto modules = ptx_of_container(file);
  ASSERT_EQ(modules.size(), 1u);
  EXPECT_EQ(modules[0], kPtx);
}

TEST(Container, KeepsEverySectionOfTheCubin) {
  const std::string cubin = make_container({}, "the first");
  const std::string file = make_container(cubin, "the second");
  EXPECT_EQ(std::string_view{file}.substr(sizeof(Elf64_Ehdr), cubin.size() - sizeof(Elf64_Ehdr)),
            std::string_view{cubin}.substr(sizeof(Elf64_Ehdr)));
  const auto modules = ptx_of_container(file);
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[0], "the first");
  EXPECT_EQ(modules[1], "the second");
}

TEST(Container, RefusesWhatIsNoCubin) {
  EXPECT_THROW(static_cast<void>(make_container("no ELF file", kPtx)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(make_container(std::string(64, '\0'), kPtx)),
               std::invalid_argument);
}

TEST(Container, FindsNothingInOtherBytes) {
  EXPECT_TRUE(ptx_of_container("").empty());
  EXPECT_TRUE(ptx_of_container("\x7f"
                               "ELF")
                  .empty());
  EXPECT_TRUE(ptx_of_container(std::string(1000, '\xff')).empty());
}

TEST(Container, SurvivesDamage) {
  const std::string file = make_container(make_container({}, kPtx), kPtx);
  for (std::size_t size = 0; size < file.size(); ++size)
    static_cast<void>(ptx_of_container(std::string_view{file}.substr(0, size)));
  std::mt19937 random{1};
  for (int turn = 0; turn < 20000; ++turn) {
    std::string damaged = file;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    static_cast<void>(ptx_of_container(damaged));
    try {
      static_cast<void>(make_container(damaged, kPtx));
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace
}  // namespace cucore
