// Where helpers are put: one to a core, in equal shares over the packages, whole cores first.
#include "topo/topo.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// Packages of `cores` cores with `threads` hardware threads; second threads are numbered after all
/// first ones, as Linux does.
std::vector<Cpu> machine(int packages, int cores, int threads) {
  std::vector<Cpu> cpus;
  for (int thread = 0; thread < threads; ++thread) {
    for (int core = 0; core < packages * cores; ++core)
      cpus.push_back({thread * packages * cores + core, core / cores, core});
  }
  return cpus;
}

CpuSet all_of(const std::vector<Cpu>& cpus) {
  CpuSet set;
  for (const Cpu& cpu : cpus) set.set(static_cast<std::size_t>(cpu.number));
  return set;
}

using Numbers = std::vector<int>;

TEST(Spread, SharesThePackages) {
  const auto cpus = machine(2, 4, 1);
  EXPECT_EQ(spread_over_packages(cpus, all_of(cpus), 1), Numbers({3}));
  EXPECT_EQ(spread_over_packages(cpus, all_of(cpus), 2), Numbers({3, 7}));
  EXPECT_EQ(spread_over_packages(cpus, all_of(cpus), 3), Numbers({3, 2, 7}));
  EXPECT_EQ(spread_over_packages(cpus, all_of(cpus), 4), Numbers({3, 2, 7, 6}));
}

TEST(Spread, GivesNoMoreThanThereIs) {
  const auto cpus = machine(2, 2, 2);
  EXPECT_EQ(spread_over_packages(cpus, all_of(cpus), 9).size(), 4u);  // one to a core
  EXPECT_TRUE(spread_over_packages(cpus, CpuSet(), 1).empty());
  EXPECT_TRUE(spread_over_packages({}, all_of(cpus), 1).empty());
  EXPECT_TRUE(spread_over_packages(cpus, all_of(cpus), 0).empty());
}

TEST(Spread, TakesWholeCoresFirst) {
  const auto cpus = machine(1, 4, 2);
  CpuSet allowed = all_of(cpus);
  allowed.reset(3);  // a thread of the last core is somebody's
  EXPECT_EQ(spread_over_packages(cpus, allowed, 1), Numbers({2}));
  EXPECT_EQ(spread_over_packages(cpus, allowed, 4), Numbers({2, 1, 0, 7}));
}

TEST(Spread, LetsAFullPackageHelpAnEmptyOne) {
  const auto cpus = machine(2, 4, 1);
  CpuSet allowed;
  for (const std::size_t cpu : {0u, 4u, 5u, 6u, 7u}) allowed.set(cpu);
  EXPECT_EQ(spread_over_packages(cpus, allowed, 4), Numbers({0, 7, 6, 5}));
}

TEST(ReadCpus, FindsThoseOfThisProcess) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  std::set<int> numbers;
  for (const Cpu& cpu : read_cpus()) {
    EXPECT_GE(cpu.package, 0);
    EXPECT_LE(cpu.core, cpu.number);
    EXPECT_TRUE(numbers.insert(cpu.number).second);
  }
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &mine)) continue;
    EXPECT_EQ(numbers.count(cpu), 1u) << cpu;
  }
}

class Described : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tutti-topo-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(Described, PackagesAndThreads) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string topology = "cpu" + std::to_string(cpu) + "/topology/";
    write(topology + "physical_package_id", std::to_string(cpu % 2) + "\n");
    write(topology + "thread_siblings_list",
          std::to_string(cpu % 2) + "," + std::to_string(cpu % 2 + 2) + "\n");
  }
  write("cpu3/online", "0\n");
  write("cpufreq/boost", "1\n");
  write("cpu10/topology/physical_package_id", "-1\n");  // as virtual machines say
  const std::vector<Cpu> cpus = read_cpus(root_.c_str());
  ASSERT_EQ(cpus.size(), 4u);
  EXPECT_EQ(cpus[1].package, 1);
  EXPECT_EQ(cpus[2].number, 2);
  EXPECT_EQ(cpus[2].core, 0);
  EXPECT_EQ(cpus[3].number, 10);
  EXPECT_EQ(cpus[3].package, 0);
  EXPECT_EQ(cpus[3].core, 10);
}

TEST_F(Described, NowhereIsEmpty) { EXPECT_TRUE(read_cpus((root_ / "none").c_str()).empty()); }

}  // namespace
}  // namespace tutti
