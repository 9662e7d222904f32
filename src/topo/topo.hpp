// The processors of this machine as the kernel describes them, and how to spread helpers over them.
#pragma once

#include <bitset>
#include <vector>

namespace tutti {

/// CPUs by number.
using CpuSet = std::bitset<1024>;

struct Cpu {
  int number = 0;
  int package = 0;  // socket
  int core = 0;     // the lowest CPU number among its hardware threads; unique in the machine
};

/// The online CPUs in ascending order. `root`: where the kernel describes them. A CPU that is not
/// described is a core of its own in package 0. Thread-safe; reads files.
std::vector<Cpu> read_cpus(const char* root = "/sys/devices/system/cpu");

/// At most `count` CPUs of `allowed`, one to a core: cores of which every hardware thread is
/// allowed before the others, and in equal shares from each package, as far as that has any: first
/// those of the first package, since neighbouring ranks are usually bound to one package. The last
/// cores of a package are taken first, because launchers bind ranks from the first on. The same
/// result wherever the arguments are the same. Pure.
std::vector<int> spread_over_packages(const std::vector<Cpu>& cpus, const CpuSet& allowed,
                                      int count);

}  // namespace tutti
