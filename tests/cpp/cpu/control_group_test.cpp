// SPDX-License-Identifier: Apache-2.0
// The limits of control groups, read from files in the kernel's format.
#include "cpu/base/control_group.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "../temporary_folder.hpp"

namespace {

using cucpu::driver::control_group_cpus;
using cucpu::driver::control_group_memory;

constexpr std::size_t kMega = std::size_t{1} << 20;

class ControlGroup : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text << "\n";
  }
  void write(const std::string& path, std::size_t bytes) { write(path, std::to_string(bytes)); }
  /// The name of the process's group.
  void in(const std::string& line) { write("proc/self/cgroup", line); }
  std::optional<std::size_t> limit() const { return control_group_memory(root_); }

  const cucore::test::TemporaryFolder folder_;
  const std::filesystem::path& root_ = folder_.path();
};

TEST_F(ControlGroup, MissingFilesMeanNoLimit) { EXPECT_EQ(std::nullopt, limit()); }

TEST_F(ControlGroup, ContainerLimitIsReadFromTheRoot) {
  write("sys/fs/cgroup/memory.max", 300 * kMega);
  EXPECT_EQ(300 * kMega, limit());
  in("0::/");
  EXPECT_EQ(300 * kMega, limit());
}

TEST_F(ControlGroup, ServiceLimitIsReadFromItsGroup) {
  in("0::/system.slice/job.service");
  write("sys/fs/cgroup/system.slice/job.service/memory.max", 200 * kMega);
  write("sys/fs/cgroup/system.slice/memory.max", "max");
  EXPECT_EQ(200 * kMega, limit());
}

TEST_F(ControlGroup, SmallestLimitOfParentsWins) {
  in("0::/user.slice/user-1000.slice/job.scope");
  write("sys/fs/cgroup/user.slice/user-1000.slice/job.scope/memory.max", 900 * kMega);
  write("sys/fs/cgroup/user.slice/memory.max", 400 * kMega);
  EXPECT_EQ(400 * kMega, limit());
}

TEST_F(ControlGroup, MaxMeansNoLimit) {
  in("0::/job");
  write("sys/fs/cgroup/job/memory.max", "max");
  EXPECT_EQ(std::nullopt, limit());
}

TEST_F(ControlGroup, VersionOneReadsTheMemoryHierarchy) {
  in("9:name=systemd:/\n4:cpu,memory:/jobs/17\n1:cpu:/other\n0::/");
  write("sys/fs/cgroup/memory/jobs/17/memory.limit_in_bytes", 128 * kMega);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(128 * kMega, limit());
}

TEST_F(ControlGroup, VersionTwoIsReadNextToVersionOne) {
  in("4:cpu:/\n0::/jobs");
  write("sys/fs/cgroup/unified/jobs/memory.max", 64 * kMega);
  EXPECT_EQ(64 * kMega, limit());
}

TEST_F(ControlGroup, PathOutsideTheContainerIsSkipped) {
  in("4:memory:/docker/0123456789ab");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", 77 * kMega);
  EXPECT_EQ(77 * kMega, limit());
}

TEST_F(ControlGroup, PathAboveTheRootIsNotFollowed) {
  in("0::/../../elsewhere");
  write("elsewhere/memory.max", kMega);
  write("sys/elsewhere/memory.max", kMega);
  write("sys/fs/cgroup/memory.max", 50 * kMega);
  EXPECT_EQ(50 * kMega, limit());
}

TEST_F(ControlGroup, UnreadableFileMeansNoLimit) {
  in("nonsense\n:\n::\n0:memory\n4:memory:");
  write("sys/fs/cgroup/memory.max", "none");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "");
  EXPECT_EQ(std::nullopt, limit());
}

TEST_F(ControlGroup, MissingQuotaMeansNoLimitOfCpus) {
  EXPECT_EQ(std::nullopt, control_group_cpus(root_));
  write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(std::nullopt, control_group_cpus(root_));
}

TEST_F(ControlGroup, QuotaOfCpusIsRoundedUp) {
  write("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(2u, control_group_cpus(root_));
  write("sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(1u, control_group_cpus(root_));
}

TEST_F(ControlGroup, SmallestQuotaOfTheParentsCounts) {
  in("0::/system.slice/job.service");
  write("sys/fs/cgroup/system.slice/job.service/cpu.max", "800000 100000");
  write("sys/fs/cgroup/system.slice/cpu.max", "300000 100000");
  EXPECT_EQ(3u, control_group_cpus(root_));
}

TEST_F(ControlGroup, QuotaOfVersion1IsRead) {
  in("3:cpu,cpuacct:/job");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(4u, control_group_cpus(root_));
}

}  // namespace
