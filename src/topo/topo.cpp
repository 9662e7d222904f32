#include "topo/topo.hpp"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace tutti {
namespace {

/// The first number of a file of the kernel's, or `otherwise`.
int first_number(const std::string& path, int otherwise) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return otherwise;
  int number = otherwise;
  if (std::fscanf(file, "%d", &number) != 1) number = otherwise;
  std::fclose(file);
  return number;
}

/// The number in "cpu12", or -1 (cpufreq, cpuidle).
int number_of(const char* name) {
  if (std::string(name).rfind("cpu", 0) != 0 || name[3] == '\0') return -1;
  char* end = nullptr;
  const long number = std::strtol(name + 3, &end, 10);
  return *end == '\0' && number >= 0 && number < 1024 ? static_cast<int>(number) : -1;
}

struct Core {
  int cpu = 0;          // the first of its threads that is allowed
  bool whole = true;    // all of them are
  bool usable = false;  // any of them is
};

}  // namespace

std::vector<Cpu> read_cpus(const char* root) {
  std::vector<Cpu> cpus;
  DIR* folder = opendir(root);
  if (folder == nullptr) return cpus;
  while (const dirent* entry = readdir(folder)) {
    const int number = number_of(entry->d_name);
    const std::string cpu = std::string(root) + "/" + entry->d_name;
    // The first CPU cannot be switched off everywhere, and then says nothing.
    if (number < 0 || first_number(cpu + "/online", 1) == 0) continue;
    cpus.push_back({number, std::max(0, first_number(cpu + "/topology/physical_package_id", 0)),
                    first_number(cpu + "/topology/thread_siblings_list", number)});
  }
  closedir(folder);
  std::sort(cpus.begin(), cpus.end(),
            [](const Cpu& a, const Cpu& b) { return a.number < b.number; });
  return cpus;
}

std::vector<int> spread_over_packages(const std::vector<Cpu>& cpus, const CpuSet& allowed,
                                      int count) {
  std::map<int, std::map<int, Core>> packages;
  for (const Cpu& cpu : cpus) {
    Core& core = packages[cpu.package][cpu.core];
    if (!allowed[static_cast<std::size_t>(cpu.number)]) {
      core.whole = false;
    } else if (!core.usable) {
      core.usable = true;
      core.cpu = cpu.number;
    }
  }
  std::vector<std::vector<int>> free;  // by package, the best last
  for (const auto& [package, cores] : packages) {
    std::vector<int> whole, part;
    for (const auto& [number, core] : cores) {
      if (core.usable) (core.whole ? whole : part).push_back(core.cpu);
    }
    part.insert(part.end(), whole.begin(), whole.end());
    free.push_back(std::move(part));
  }
  // Shares: one to each package in turn while it has cores.
  std::vector<std::size_t> shares(free.size(), 0);
  for (bool given = true; given && count > 0;) {
    given = false;
    for (std::size_t p = 0; p < free.size() && count > 0; ++p) {
      if (shares[p] == free[p].size()) continue;
      ++shares[p];
      --count;
      given = true;
    }
  }
  std::vector<int> chosen;
  for (std::size_t p = 0; p < free.size(); ++p) {
    chosen.insert(chosen.end(), free[p].rbegin(),
                  free[p].rbegin() + static_cast<std::ptrdiff_t>(shares[p]));
  }
  return chosen;
}

}  // namespace tutti
