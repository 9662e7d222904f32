// tutti-lab-net --control FD --nodes N --mtu BYTES --latency-ns N --bits-per-second N --loss P
// --duplicate P
//               --reorder P --seed N
//
// Makes the nodes of a lab and plays their network until the control connection ends. Started by
// `tutti lab`, which checks what users give; here a wrong option only ends the program.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "lab/message.hpp"
#include "lab/metronome.hpp"
#include "lab/switch.hpp"

namespace tutti::lab {
namespace {

class Options {
 public:
  Options(int argc, char** argv) {
    for (int at = 1; at + 1 < argc; at += 2) values_[argv[at]] = argv[at + 1];
  }
  double number(const char* name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw Problem(std::string("missing option ") + name);
    char* end = nullptr;
    const double value = std::strtod(found->second.c_str(), &end);
    if (*end != 0 || end == found->second.c_str()) throw Problem(std::string("bad option ") + name);
    return value;
  }
  int integer(const char* name) const { return static_cast<int>(number(name)); }

 private:
  std::map<std::string, std::string> values_;
};

void raise_descriptor_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int run(const Options& options) {
  Conditions conditions;
  conditions.latency = static_cast<Nanoseconds>(options.number("--latency-ns"));
  conditions.bits_per_second = options.number("--bits-per-second");
  conditions.loss = options.number("--loss");
  conditions.duplicate = options.number("--duplicate");
  conditions.reorder = options.number("--reorder");
  conditions.seed = static_cast<std::uint64_t>(options.number("--seed"));
  const int control = options.integer("--control");
  const Addresses addresses{options.integer("--nodes") + 1, options.integer("--mtu")};
  fcntl(control, F_SETFD, FD_CLOEXEC);
  std::vector<NodeHandle> nodes;
  try {
    for (int port = 0; port < addresses.ports; ++port) nodes.push_back(start_node(addresses, port));
    raise_descriptor_limit();
    const bool first = take_precedence();
    const Metronome metronome;
    const Wakefulness wakefulness;
    Switch its_switch(control, std::move(nodes), conditions);
    send_with(control, first ? "ready" : "ready, without precedence", {});
    its_switch.serve();
    return 0;
  } catch (const Problem& problem) {
    send_with(control, std::string("!") + problem.what(), {});
    return 1;
  }
}

}  // namespace
}  // namespace tutti::lab

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  try {
    return tutti::lab::run(tutti::lab::Options(argc, argv));
  } catch (const tutti::lab::Problem& problem) {
    std::fprintf(stderr, "tutti-lab-net: %s\n", problem.what());
    return 1;
  }
}
