// The processors of this machine as the kernel describes them: where a process runs, and how to
// spread helpers over them.
#pragma once

#include <sched.h>

#include <bitset>
#include <cstddef>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "topo/locality.hpp"

namespace tutti {

/// CPUs by number.
using CpuSet = std::bitset<1024>;
CpuSet set_of(const cpu_set_t& cpus);

struct Cpu {
  int number = 0;
  int package = 0;  // socket
  int core = 0;     // the lowest CPU number among its hardware threads; unique in the machine
  int numa = 0;     // NUMA domain
  int cache = 0;    // the lowest CPU number among those that share the last-level cache
};

/// Where the kernel describes processors and NUMA domains.
inline constexpr const char* kSystem = "/sys/devices/system";

/// The online CPUs in ascending order. `root`: as kSystem. A CPU that is not described is a core of
/// its own, with a cache of its own, in package 0. Thread-safe; reads files.
std::vector<Cpu> read_cpus(const char* root = kSystem);

/// Where somebody runs who may use the CPUs of `allowed`. Reads a few files of one of them.
/// Thread-safe.
Locality read_locality(const CpuSet& allowed, const char* root = kSystem);

/// Bytes of the largest cache that a core of `allowed` shares with no other: its L2, mostly. 0
/// where nothing is said of caches. Reads a few files of one of them. Thread-safe.
std::size_t core_cache_bytes(const CpuSet& allowed, const char* root = kSystem);

/// At most `count` CPUs of `allowed`, one to a core: cores of which every hardware thread is
/// allowed before the others, and in equal shares from each package, as far as that has any: first
/// those of the first package, since neighbouring ranks are usually bound to one package. The last
/// cores of a package are taken first, because launchers bind ranks from the first on. The same
/// result wherever the arguments are the same. Pure.
std::vector<int> spread_over_packages(const std::vector<Cpu>& cpus, const CpuSet& allowed,
                                      int count);

/// A made-up machine, for tests and simulations: so many packages, NUMA domains in each, last-level
/// caches in each of those, and cores that share one. Rank i of a node is bound to core i, from the
/// start again where there are fewer cores; `scattered`: dealt out to the packages in turn.
struct MadeUpMachine {
  int packages = 1, domains = 1, caches = 1, cores = 1;
  bool scattered = false;

  /// Parses "package:2 numa:1 l3:4 core:8" (the words of hwloc's synthetic descriptions; each may
  /// be left out), and "scattered". On failure nothing is set.
  static Status parse(const std::string& text, MadeUpMachine* out);
  /// The core that rank `local` of a node is bound to.
  int core_of(int local) const noexcept;
  Locality locality_of(int local) const noexcept;
};

/// What the members of a team, of which these are the places, are divided into, in words: "2
/// packages, 16 last-level caches". Empty where they are not divided.
std::string divisions(const std::vector<Locality>& places);

}  // namespace tutti
