#include "mpi/plugin/node_list.hpp"

#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/log.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {
namespace {

int held = -1;  // written by the threads of MPI_Init and MPI_Finalize

std::vector<std::string> machines_of(const std::vector<Introduced>& ranks) {
  std::vector<std::string> machines;
  for (const Introduced& rank : ranks) {
    // Consecutive ranks mostly share one.
    if (!machines.empty() && machines.back() == rank.machine) continue;
    if (std::ranges::find(machines, rank.machine) == machines.end())
      machines.emplace_back(rank.machine);
  }
  return machines;
}

}  // namespace

Introduced introduce_record(const Listener& listener) noexcept {
  Introduced own{};
  own.listener = listener;
  if (state.rank == 0 && !draw_secret(&own.secret).ok()) own.secret = {};
  if (getrandom(&own.number, sizeof own.number, GRND_NONBLOCK) != sizeof own.number)
    own.number = mix(static_cast<std::uint64_t>(getpid()) ^ roll::started_of(getpid()) << 32);
  gethostname(own.machine, sizeof own.machine - 1);
  return own;
}

void hold_node_list(std::uint64_t job, const std::vector<Introduced>& ranks) {
  const std::vector<std::string> machines = machines_of(ranks);
  if (machines.size() < 2) return;
  char name[32];
  std::snprintf(name, sizeof name, "%08llx\n", static_cast<unsigned long long>(job >> 32));
  std::string text = name;
  for (const std::string& machine : machines) text += machine + '\n';
  held = memfd_create("tutti-nodes", MFD_CLOEXEC);
  const bool written =
      held >= 0 && write(held, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) log(LogLevel::debug, "no list of the job's machines is kept for tutti where");
}

void drop_node_list() noexcept {
  if (held >= 0) close(held);
  held = -1;
}

}  // namespace tutti::mpi
