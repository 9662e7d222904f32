// The fault campaign: injects failures into small jobs until so many had to be reported, and says
// of each kind how many there were and what was seen. Others strike without harm, as a late start:
// then nothing may be seen, and they do not count. The seed is printed; with it and a number one
// case runs again.
//
//     test_faults [--count N] [--seed S] [--only KIND] [--case NUMBER] [--verbose]
#include <dirent.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>

#include "faults/case.hpp"

namespace {

using tutti::Code;
using tutti::faults::Case;
using tutti::faults::Report;

struct Options {
  std::uint64_t count = 40;
  std::uint64_t seed = std::random_device{}();
  std::string only;
  std::int64_t single = -1;
  bool verbose = false;
};

struct Tally {
  int run = 0, struck = 0, reported = 0, failed = 0;
  double slowest = 0;
  std::map<std::string, int> seen;
};

int files_of_tutti() {
  int count = 0;
  if (DIR* folder = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(folder))
      count += std::strstr(entry->d_name, "tutti") != nullptr ? 1 : 0;
    closedir(folder);
  }
  return count;
}

/// Waits for processes that a case has left behind; how many there were.
int stragglers() {
  int count = 0;
  for (int turn = 0; turn < 250; ++turn) {
    const pid_t child = waitpid(-1, nullptr, WNOHANG);
    if (child < 0) return count;
    if (child > 0) {
      ++count;
    } else {
      usleep(100'000);
    }
  }
  return count + 1;
}

std::string run(const Case& c, Report& report, bool* struck) {
  new (&report) Report{};
  const int files = files_of_tutti();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    tutti::faults::run_case(c, report);
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const bool cleanly = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const int left = cleanly ? stragglers() : (stragglers(), 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "it hangs";
  std::string wrong = tutti::faults::judge(c, report, struck);
  if (wrong.empty() && !cleanly) wrong = "it ended with the wait status " + std::to_string(status);
  if (wrong.empty() && left != 0) wrong = std::to_string(left) + " processes were left behind";
  // Others may run tests here too: theirs go at once.
  for (int turn = 0; turn < 20 && files_of_tutti() > files; ++turn) usleep(50'000);
  if (wrong.empty() && files_of_tutti() > files) wrong = "a file was left behind in /dev/shm";
  return wrong;
}

/// Adds the case; true when a rank has reported a failure.
bool count(const Case& c, const Report& report, bool struck, const std::string& wrong,
           Tally& tally) {
  ++tally.run;
  tally.struck += struck ? 1 : 0;
  tally.failed += wrong.empty() ? 0 : 1;
  std::string seen = "nothing";
  for (int rank = 0; rank < c.ranks; ++rank) {
    const auto& one = report.seen[static_cast<std::size_t>(rank)];
    if (one.code == 0) continue;
    if (one.seconds > tally.slowest) tally.slowest = one.seconds;
    seen = tutti::name(static_cast<Code>(one.code));
  }
  if (!struck) return false;
  ++tally.seen[seen];
  const bool reported = seen != "nothing";
  tally.reported += reported ? 1 : 0;
  return reported;
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--verbose") {
      options->verbose = true;
      continue;
    }
    if (value == nullptr) return false;
    ++i;
    if (word == "--count") {
      options->count = std::strtoull(value, nullptr, 10);
    } else if (word == "--seed") {
      options->seed = std::strtoull(value, nullptr, 10);
    } else if (word == "--only") {
      options->only = value;
    } else if (word == "--case") {
      options->single = std::strtoll(value, nullptr, 10);
    } else {
      return false;
    }
  }
  return true;
}

int summarise(const std::map<std::string, Tally>& tallies, double seconds) {
  int struck = 0, reported = 0, failed = 0;
  std::printf("%-22s %5s %7s %9s %6s  %9s  %s\n", "kind", "run", "struck", "reported", "wrong",
              "slowest", "seen");
  for (const auto& [kind, tally] : tallies) {
    std::string seen;
    for (const auto& [what, times] : tally.seen)
      seen += (seen.empty() ? "" : ", ") + what + " " + std::to_string(times);
    std::printf("%-22s %5d %7d %9d %6d  %7.2f s  %s\n", kind.c_str(), tally.run, tally.struck,
                tally.reported, tally.failed, tally.slowest, seen.c_str());
    struck += tally.struck;
    reported += tally.reported;
    failed += tally.failed;
  }
  std::printf(
      "%d faults struck, %d of them failures that were reported, %d not as they should be, in %.0f "
      "s\n",
      struck, reported, failed, seconds);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s [--count N] [--seed S] [--only KIND] [--case NUMBER] [--verbose]\n",
                 argv[0]);
    return 2;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  void* const shared =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto& report = *static_cast<Report*>(shared);
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  const auto begin = std::chrono::steady_clock::now();
  std::map<std::string, Tally> tallies;
  std::uint64_t reported = 0,
                number = options.single < 0 ? 0 : static_cast<std::uint64_t>(options.single);
  // Some faults never come to pass, where the algorithm does not do what would fail.
  for (; reported < options.count && number < 4 * options.count + 100; ++number) {
    const Case c = tutti::faults::make_case(options.seed, number, options.only);
    bool hit = false;
    const std::string wrong = run(c, report, &hit);
    if (count(c, report, hit, wrong, tallies[c.kind]) || !wrong.empty()) ++reported;
    if (!wrong.empty() || options.verbose)
      std::printf("%s case %llu: %s: %s\n", wrong.empty() ? "ok   " : "WRONG",
                  static_cast<unsigned long long>(number), tutti::faults::text_of(c).c_str(),
                  wrong.empty() ? (hit ? "struck" : "did not strike") : wrong.c_str());
    if (options.single >= 0) break;
  }
  return summarise(tallies,
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}
