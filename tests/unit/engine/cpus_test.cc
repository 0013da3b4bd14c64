// CPUs that control groups leave, from folders as the kernel makes them.
#include "transport/engine/cpus.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weir {
namespace {

class UsableCpus : public testing::Test {
 protected:
  UsableCpus()
      : root_(std::filesystem::path(testing::TempDir()) / ("cpus." + std::to_string(getpid()))) {}
  ~UsableCpus() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  int cpus() const { return usable_cpus(root_.string()); }

  std::filesystem::path root_;
  const int all_ = get_nprocs();
};

TEST_F(UsableCpus, AllOfThemWithoutGroups) { EXPECT_EQ(cpus(), all_); }

TEST_F(UsableCpus, AllOfThemWithoutLimits) {
  put("proc/self/cgroup", "0::/user.slice");
  put("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  put("sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-1023");
  EXPECT_EQ(cpus(), all_);
}

TEST_F(UsableCpus, ABandwidthIsRoundedUp) {
  put("proc/self/cgroup", "0::/");
  put("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(cpus(), 1);
  put("sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(cpus(), std::min(all_, 2));
}

TEST_F(UsableCpus, AGroupAboveLimitsToo) {
  put("proc/self/cgroup", "0::/a/b");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000");
  put("sys/fs/cgroup/a/cpu.max", "100000 100000");
  EXPECT_EQ(cpus(), 1);
}

TEST_F(UsableCpus, ASetOfCpus) {
  put("proc/self/cgroup", "0::/a");
  put("sys/fs/cgroup/a/cpuset.cpus.effective", "7");
  EXPECT_EQ(cpus(), 1);
  put("sys/fs/cgroup/a/cpuset.cpus.effective", "0,4-5");
  EXPECT_EQ(cpus(), std::min(all_, 3));
}

// Its path is the host's, but what is mounted is its own group.
TEST_F(UsableCpus, AContainerOfVersionOne) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/docker/1f\n3:cpuset:/docker/1f");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cpus(), all_);
  put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000");
  EXPECT_EQ(cpus(), 1);
}

TEST_F(UsableCpus, WhatCannotBeReadLimitsNothing) {
  put("proc/self/cgroup", "nonsense\n0:no\n0::relative\n0::/a");
  put("sys/fs/cgroup/a/cpu.max", "100000 0");
  put("sys/fs/cgroup/a/cpuset.cpus.effective", "3-1");
  put("sys/fs/cgroup/cpuset.cpus.effective", "x");
  EXPECT_EQ(cpus(), all_);
}

}  // namespace
}  // namespace weir
