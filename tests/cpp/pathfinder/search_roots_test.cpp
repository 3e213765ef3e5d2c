// SPDX-License-Identifier: Apache-2.0
// search_roots_test.cpp: toolkit roots derived from library paths.
#include "pathfinder/search_roots.hpp"

#include <gtest/gtest.h>

namespace cucore::pathfinder {
namespace {

TEST(SearchRoots, ToolkitRootIsDerivedFromRuntimeLibraryPath) {
  EXPECT_EQ(toolkit_root_of("/usr/local/cuda/lib64/libcudart.so.13"), "/usr/local/cuda");
  EXPECT_EQ(toolkit_root_of("/opt/x/lib/libcudart.so.12"), "/opt/x");
  EXPECT_EQ(toolkit_root_of("/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13"),
            "/usr/local/cuda-13.0");
  EXPECT_EQ(toolkit_root_of("/usr/lib/x86_64-linux-gnu/libcudart.so.12"), "");
  EXPECT_EQ(toolkit_root_of("libcudart.so.12"), "");
}

}  // namespace
}  // namespace cucore::pathfinder
