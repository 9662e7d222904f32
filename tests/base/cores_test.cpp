// Quotas of control groups, as Linux, containers and batch systems lay them out.
#include "base/cores.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {
namespace {

class CgroupQuota : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "cgroups-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path(root_ + "/" + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }

  std::string root_;
};

TEST_F(CgroupQuota, ThereIsNone) {
  EXPECT_EQ(cgroup_quota("", root_), 0);
  EXPECT_EQ(cgroup_quota("0::/\n", root_), 0);
  EXPECT_EQ(cgroup_quota("nonsense\n1:cpu\n", root_), 0);
  write("cpu.max", "max 100000");
  EXPECT_EQ(cgroup_quota("0::/\n", root_), 0);
}

// In a container whose cgroup namespace begins there.
TEST_F(CgroupQuota, OfTheRoot) {
  write("cpu.max", "150000 100000");
  EXPECT_EQ(cgroup_quota("0::/\n", root_), 1.5);
}

// A batch system's step in its job in its slice: all of them bind.
TEST_F(CgroupQuota, TheLowestOfAllAboveCounts) {
  write("slice/job/step/cpu.max", "max 100000");
  write("slice/job/cpu.max", "400000 100000");
  write("slice/cpu.max", "800000 100000");
  write("slice/other/cpu.max", "100000 100000");
  EXPECT_EQ(cgroup_quota("0::/slice/job/step\n", root_), 4);
  EXPECT_EQ(cgroup_quota("0::/slice/other\n", root_), 1);
  EXPECT_EQ(cgroup_quota("0::/slice\n", root_), 8);
}

// Docker without a cgroup namespace: the path is the machine's, what is mounted the container's.
TEST_F(CgroupQuota, APathOfAnotherNamespaceLeadsToWhatIsMounted) {
  write("cpu.max", "200000 100000");
  EXPECT_EQ(cgroup_quota("0::/docker/0123/step\n", root_), 2);
}

TEST_F(CgroupQuota, OfVersionOne) {
  write("cpu/batch/cpu.cfs_quota_us", "300000");
  write("cpu/batch/cpu.cfs_period_us", "100000");
  write("cpu/cpu.cfs_quota_us", "-1");
  write("cpu/cpu.cfs_period_us", "100000");
  write("memory/batch/cpu.cfs_quota_us", "1");
  EXPECT_EQ(cgroup_quota("4:memory:/batch\n2:cpu,cpuacct:/batch\n0::/\n", root_), 3);
  EXPECT_EQ(cgroup_quota("4:memory:/batch\n2:cpuacct:/batch\n", root_), 0);
  EXPECT_EQ(cgroup_quota("2:cpu:/\n", root_), 0);
}

}  // namespace
}  // namespace tutti
