// What the kernel says of a machine, where a process runs on it, and where helpers are put: one to
// a core, in equal shares over the packages, whole cores first.
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
      cpus.push_back({thread * packages * cores + core, core / cores, core, 0, core});
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
    const std::string topology = "cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(topology + "physical_package_id", std::to_string(cpu % 2) + "\n");
    write(topology + "thread_siblings_list",
          std::to_string(cpu % 2) + "," + std::to_string(cpu % 2 + 2) + "\n");
  }
  write("cpu/cpu3/online", "0\n");
  write("cpu/cpufreq/boost", "1\n");
  write("cpu/cpu10/topology/physical_package_id", "-1\n");  // as virtual machines say
  const std::vector<Cpu> cpus = read_cpus(root_.c_str());
  ASSERT_EQ(cpus.size(), 4u);
  EXPECT_EQ(cpus[1].package, 1);
  EXPECT_EQ(cpus[2].number, 2);
  EXPECT_EQ(cpus[2].core, 0);
  EXPECT_EQ(cpus[2].cache, 2);  // nothing is said
  EXPECT_EQ(cpus[3].number, 10);
  EXPECT_EQ(cpus[3].package, 0);
  EXPECT_EQ(cpus[3].core, 10);
}

/// Two packages of two NUMA domains, in each two caches of two cores, each of two threads: core c
/// has the CPUs c and c + 16.
class TwoPackages : public Described {
 protected:
  void SetUp() override {
    Described::SetUp();
    for (int cpu = 0; cpu < 32; ++cpu) {
      const int core = cpu % 16;
      const std::string folder = "cpu/cpu" + std::to_string(cpu) + "/";
      write(folder + "topology/physical_package_id", std::to_string(core / 8) + "\n");
      write(folder + "topology/package_cpus_list", cores(core / 8 * 8, 8));
      write(folder + "topology/thread_siblings_list", cores(core, 1));
      for (int level = 1; level <= 3; ++level) {
        const std::string cache = folder + "cache/index" + std::to_string(level) + "/";
        write(cache + "level", std::to_string(level) + "\n");
        write(cache + "shared_cpu_list", level == 3 ? cores(core / 2 * 2, 2) : cores(core, 1));
        write(cache + "size", std::to_string(level == 1 ? 32 : 1024 << (level - 2)) + "K\n");
      }
      write(folder + "node" + std::to_string(core / 4) + "/cpulist", "");
      write("node/node" + std::to_string(core / 4) + "/cpulist", cores(core / 4 * 4, 4));
    }
  }
  /// Of `count` cores from `first` on, as the kernel writes it.
  static std::string cores(int first, int count) {
    const auto range = [count](int begin) {
      return std::to_string(begin) + (count > 1 ? "-" + std::to_string(begin + count - 1) : "");
    };
    return range(first) + "," + range(first + 16) + "\n";
  }
  Locality of(std::initializer_list<std::size_t> cpus) const {
    CpuSet allowed;
    for (const std::size_t cpu : cpus) allowed.set(cpu);
    return read_locality(allowed, root_.c_str());
  }
};

TEST_F(TwoPackages, AreReadByCpu) {
  const std::vector<Cpu> cpus = read_cpus(root_.c_str());
  ASSERT_EQ(cpus.size(), 32u);
  EXPECT_EQ(cpus[29].package, 1);
  EXPECT_EQ(cpus[29].numa, 3);
  EXPECT_EQ(cpus[29].cache, 12);
  EXPECT_EQ(cpus[29].core, 13);
}

TEST_F(TwoPackages, HoldWhatABindingAllows) {
  EXPECT_EQ(of({0}), (Locality{0, 0, 0}));
  EXPECT_EQ(of({13, 29}), (Locality{1, 3, 12}));  // both threads of a core
  EXPECT_EQ(of({12, 13}), (Locality{1, 3, 12}));
  EXPECT_EQ(of({13, 14}), (Locality{1, 3, -1}));
  EXPECT_EQ(of({8, 15}), (Locality{1, -1, -1}));
  EXPECT_EQ(of({0, 15}), (Locality{-1, -1, -1}));
  EXPECT_EQ(of({}), Locality{});
  EXPECT_EQ(of({40}), Locality{});  // of which nothing is said
}

TEST_F(TwoPackages, HaveACacheForEachCore) {
  const auto bytes = [&](std::size_t cpu) {
    return core_cache_bytes(CpuSet().set(cpu), root_.c_str());
  };
  EXPECT_EQ(bytes(0), std::size_t{1} << 20);  // the second level; two cores share the third
  EXPECT_EQ(bytes(29), std::size_t{1} << 20);
  EXPECT_EQ(bytes(40), 0u);  // of which nothing is said
  EXPECT_EQ(core_cache_bytes(CpuSet(), root_.c_str()), 0u);
  fs::remove_all(root_ / "cpu" / "cpu0" / "cache");
  EXPECT_EQ(bytes(0), 0u);
}

TEST_F(TwoPackages, OfBeforeLinux5_3) {
  for (int cpu = 0; cpu < 32; ++cpu) {
    const fs::path topology = root_ / "cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    fs::rename(topology / "package_cpus_list", topology / "core_siblings_list");
  }
  EXPECT_EQ(of({8, 15}), (Locality{1, -1, -1}));
}

TEST(ReadLocality, OfThisProcessLiesInTheMachine) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const Locality place = read_locality(set_of(mine));
  for (const Cpu& cpu : read_cpus()) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu.number), &mine)) continue;
    if (place.package >= 0) EXPECT_EQ(cpu.package, place.package);
    if (place.numa >= 0) EXPECT_EQ(cpu.numa, place.numa);
    if (place.cache >= 0) EXPECT_EQ(cpu.cache, place.cache);
  }
}

TEST(MadeUp, BindsRanksToCoresInTheirOrder) {
  MadeUpMachine machine;
  ASSERT_TRUE(MadeUpMachine::parse("package:2 numa:2 l3:2 core:4", &machine).ok());
  EXPECT_EQ(machine.locality_of(0), (Locality{0, 0, 0}));
  EXPECT_EQ(machine.locality_of(5), (Locality{0, 0, 4}));
  EXPECT_EQ(machine.locality_of(31), (Locality{1, 3, 28}));
  EXPECT_EQ(machine.locality_of(32), machine.locality_of(0));  // more ranks than cores
  ASSERT_TRUE(MadeUpMachine::parse(" scattered  package:2 core:4 ", &machine).ok());
  EXPECT_EQ(machine.locality_of(0), (Locality{0, 0, 0}));
  EXPECT_EQ(machine.locality_of(1), (Locality{1, 1, 4}));
  EXPECT_EQ(machine.core_of(7), 7);
  ASSERT_TRUE(MadeUpMachine::parse("", &machine).ok());
  EXPECT_EQ(machine.locality_of(3), machine.locality_of(0));
}

TEST(MadeUp, RefusesOtherTexts) {
  MadeUpMachine machine;
  for (const char* text :
       {"core", "core:", "core:0", "core:-1", "core:2000", "core:2x", "cores:2", "core:2 package:2",
        "core:2 core:2", "package:1024 core:1024", "scattered scattered"}) {
    const Status status = MadeUpMachine::parse(text, &machine);
    EXPECT_EQ(status.code, Code::invalid_argument) << text;
  }
}

TEST(Divisions, AreSaidWhereThereAreAny) {
  EXPECT_EQ(divisions({{0, 0, 0}, {1, 1, 8}, {0, 0, 0}}), "2 packages, 2 last-level caches");
  EXPECT_EQ(divisions({{0, 0, 0}, {0, 1, 2}, {0, 1, 3}, {0, 0, 0}}),
            "2 NUMA domains, 3 last-level caches");
  EXPECT_EQ(divisions({{0, 0, 0}, {0, 0, 0}}), "");
  EXPECT_EQ(divisions({{}, {}}), "");
}

TEST_F(Described, NowhereIsEmpty) { EXPECT_TRUE(read_cpus((root_ / "none").c_str()).empty()); }

}  // namespace
}  // namespace tutti
