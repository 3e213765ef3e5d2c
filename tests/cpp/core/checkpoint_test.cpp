// SPDX-License-Identifier: Apache-2.0
// checkpoint_test.cpp: the CUDA side of a process, stopped and going on.
#include "cucore/checkpoint.hpp"

#include <unistd.h>

#include "support.hpp"

namespace cucore::checkpoint {
namespace {

class CheckpointTest : public cucore::testing::WithDevice {};

TEST_F(CheckpointTest, ANumberThatIsNotPositiveIsRefused) {
  EXPECT_THROW(Process{0}, std::invalid_argument);
  EXPECT_THROW(Process{-3}, std::invalid_argument);
}

TEST_F(CheckpointTest, AProcessIsRunningOrTheDriverSaysThatItCannotTell) {
  const Process process{getpid()};
  EXPECT_EQ(process.pid(), getpid());
  try {
    EXPECT_EQ(process.state(), CU_PROCESS_STATE_RUNNING);
  } catch (const CUDAError& error) {
    EXPECT_NE(error.code(), 0);
  }
}

}  // namespace
}  // namespace cucore::checkpoint
