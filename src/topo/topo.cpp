#include "topo/topo.hpp"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
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

/// The CPUs of a file of the kernel's: "0-7,16-23". None where it cannot be read.
CpuSet cpu_list(const std::string& path) {
  CpuSet cpus;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return cpus;
  int first = 0;
  while (std::fscanf(file, "%d", &first) == 1) {
    int last = first;
    int after = std::fgetc(file);
    if (after == '-') {
      if (std::fscanf(file, "%d", &last) != 1) break;
      after = std::fgetc(file);
    }
    for (int cpu = std::max(0, first); cpu <= last && cpu < static_cast<int>(cpus.size()); ++cpu)
      cpus.set(static_cast<std::size_t>(cpu));
    if (after != ',') break;
  }
  std::fclose(file);
  return cpus;
}

int lowest(const CpuSet& cpus) noexcept {
  for (std::size_t cpu = 0; cpu < cpus.size(); ++cpu) {
    if (cpus[cpu]) return static_cast<int>(cpu);
  }
  return -1;
}

/// The number in "cpu12" or "node3", or -1 (cpufreq, cpuidle).
int number_of(const char* name, const char* prefix) {
  const std::size_t length = std::strlen(prefix);
  if (std::strncmp(name, prefix, length) != 0 || name[length] == '\0') return -1;
  char* end = nullptr;
  const long number = std::strtol(name + length, &end, 10);
  return *end == '\0' && number >= 0 && number < 1024 ? static_cast<int>(number) : -1;
}

/// The highest number of the entries of `folder` that begin with `prefix`, or -1.
int last_number(const std::string& folder, const char* prefix) {
  int found = -1;
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return found;
  while (const dirent* entry = readdir(entries))
    found = std::max(found, number_of(entry->d_name, prefix));
  closedir(entries);
  return found;
}

std::string cpu_folder(const char* root, int cpu) {
  return std::string(root) + "/cpu/cpu" + std::to_string(cpu);
}

/// The NUMA domain of a CPU, which is the only one that its folder leads to, or -1.
int numa_of(const char* root, int cpu) { return last_number(cpu_folder(root, cpu), "node"); }

/// Those that share the last-level cache of a CPU. None where nothing is said of caches.
CpuSet sharers_of_cache(const char* root, int cpu) {
  const std::string caches = cpu_folder(root, cpu) + "/cache";
  int highest = 0;
  CpuSet sharers;
  for (int index = last_number(caches, "index"); index >= 0; --index) {
    const std::string cache = caches + "/index" + std::to_string(index);
    const int level = first_number(cache + "/level", 0);
    if (level <= highest) continue;
    highest = level;
    sharers = cpu_list(cache + "/shared_cpu_list");
  }
  return sharers;
}

struct Core {
  int cpu = 0;          // the first of its threads that is allowed
  bool whole = true;    // all of them are
  bool usable = false;  // any of them is
};

bool holds(const CpuSet& part, const CpuSet& allowed) { return (allowed & ~part).none(); }

}  // namespace

CpuSet set_of(const cpu_set_t& cpus) {
  CpuSet set;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) set[cpu] = CPU_ISSET(cpu, &cpus);
  return set;
}

std::vector<Cpu> read_cpus(const char* root) {
  std::vector<Cpu> cpus;
  DIR* folder = opendir((std::string(root) + "/cpu").c_str());
  if (folder == nullptr) return cpus;
  while (const dirent* entry = readdir(folder)) {
    const int number = number_of(entry->d_name, "cpu");
    const std::string cpu = cpu_folder(root, number);
    // The first CPU cannot be switched off everywhere, and then says nothing.
    if (number < 0 || first_number(cpu + "/online", 1) == 0) continue;
    const int cache = lowest(sharers_of_cache(root, number));
    cpus.push_back({number, std::max(0, first_number(cpu + "/topology/physical_package_id", 0)),
                    first_number(cpu + "/topology/thread_siblings_list", number),
                    std::max(0, numa_of(root, number)), cache >= 0 ? cache : number});
  }
  closedir(folder);
  std::sort(cpus.begin(), cpus.end(),
            [](const Cpu& a, const Cpu& b) { return a.number < b.number; });
  return cpus;
}

Locality read_locality(const CpuSet& allowed, const char* root) {
  Locality place;
  const int cpu = lowest(allowed);
  if (cpu < 0) return place;
  const std::string topology = cpu_folder(root, cpu) + "/topology/";
  CpuSet package = cpu_list(topology + "package_cpus_list");
  if (package.none()) package = cpu_list(topology + "core_siblings_list");  // before Linux 5.3
  if (holds(package, allowed))
    place.package =
        static_cast<std::int16_t>(std::max(0, first_number(topology + "physical_package_id", 0)));
  const int numa = numa_of(root, cpu);
  if (numa >= 0 &&
      holds(cpu_list(std::string(root) + "/node/node" + std::to_string(numa) + "/cpulist"),
            allowed))
    place.numa = static_cast<std::int16_t>(numa);
  const CpuSet cache = sharers_of_cache(root, cpu);
  if (holds(cache, allowed)) place.cache = static_cast<std::int16_t>(lowest(cache));
  return place;
}

std::size_t core_cache_bytes(const CpuSet& allowed, const char* root) {
  const int cpu = lowest(allowed);
  if (cpu < 0) return 0;
  const CpuSet threads = cpu_list(cpu_folder(root, cpu) + "/topology/thread_siblings_list");
  const std::string caches = cpu_folder(root, cpu) + "/cache";
  int most = 0;
  for (int index = last_number(caches, "index"); index >= 0; --index) {
    const std::string cache = caches + "/index" + std::to_string(index);
    const CpuSet sharers = cpu_list(cache + "/shared_cpu_list");
    if (sharers.none() || !holds(threads, sharers)) continue;
    most = std::max(most, first_number(cache + "/size", 0));  // "1024K": always KiB
  }
  return static_cast<std::size_t>(most) << 10;
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

Status MadeUpMachine::parse(const std::string& text, MadeUpMachine* out) {
  constexpr const char* kRight =
      "TUTTI_TOPOLOGY is like \"package:2 numa:1 l3:4 core:8\", of 1 to 1024 each and 4096 cores "
      "together, and \"scattered\" if ranks are dealt out to the packages";
  MadeUpMachine machine;
  const std::array<std::pair<const char*, int*>, 4> levels = {{{"package:", &machine.packages},
                                                               {"numa:", &machine.domains},
                                                               {"l3:", &machine.caches},
                                                               {"core:", &machine.cores}}};
  std::size_t next = 0;  // levels come from the outermost in
  for (std::size_t at = text.find_first_not_of(' '); at != std::string::npos;
       at = text.find_first_not_of(' ', at)) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end;
    if (word == "scattered" && !machine.scattered) {
      machine.scattered = true;
      continue;
    }
    while (next < levels.size() && !word.starts_with(levels[next].first)) ++next;
    if (next == levels.size()) return Status::error(Code::invalid_argument, kRight);
    const char* const digits = word.c_str() + std::strlen(levels[next].first);
    char* last = nullptr;
    const long count = std::strtol(digits, &last, 10);
    if (last == digits || *last != '\0' || count < 1 || count > 1024)
      return Status::error(Code::invalid_argument, kRight);
    *levels[next++].second = static_cast<int>(count);
  }
  std::int64_t cores = 1;
  for (const auto& [word, count] : levels) cores *= *count;
  if (cores > 4096) return Status::error(Code::invalid_argument, kRight);
  *out = machine;
  return Status::success();
}

int MadeUpMachine::core_of(int local) const noexcept {
  const int each = domains * caches * cores, core = local % (packages * each);
  return scattered ? core % packages * each + core / packages : core;
}

Locality MadeUpMachine::locality_of(int local) const noexcept {
  const int core = core_of(local), cache = core / cores, numa = cache / caches;
  return {static_cast<std::int16_t>(numa / domains), static_cast<std::int16_t>(numa),
          static_cast<std::int16_t>(cache * cores)};
}

std::string divisions(const std::vector<Locality>& places) {
  std::set<std::int16_t> packages, domains, caches;
  for (const Locality& place : places) {
    packages.insert(place.package);
    domains.insert(place.numa);
    caches.insert(place.cache);
  }
  std::string text;
  const auto add = [&text](std::size_t count, const char* what) {
    if (count > 1) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(packages.size(), "packages");
  if (domains.size() != packages.size()) add(domains.size(), "NUMA domains");
  if (caches.size() < places.size()) add(caches.size(), "last-level caches");
  return text;
}

}  // namespace tutti
