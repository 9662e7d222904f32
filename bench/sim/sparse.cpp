// A sparse alltoallv between simulated nodes, beside the pairwise exchange of an MPI: one rank a
// node, of whose counts most are zero. By letters it costs by those that are not.
//
//   bench_sparse [NODES] [PERCENT] [SEED]
//
// The pairwise exchange is what MPICH and Open MPI do with counts that only one rank knows: a round
// for every other rank, in which each has a message for one and one from another, also where there
// is nothing to send. Here each round is a collective of one 8-byte letter for everybody, which
// waits for nothing but its own: what an MPI does besides (matching) is not counted.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "coll/parcels.hpp"
#include "select/select.hpp"
#include "sim/job.hpp"
#include "fabric/sim/network.hpp"

namespace {

using tutti::Call;
using tutti::Choice;
using tutti::Parcels;
using tutti::sim::SimJob;

/// What one collective exchanges: by rank.
struct Exchange {
  explicit Exchange(int ranks) : data(std::size_t{64} << 10) {
    for (int rank = 0; rank < ranks; ++rank)
      parcels.push_back(std::make_unique<Parcels>(rank, ranks));
  }
  void add(int from, int to, std::size_t bytes) {
    parcels[static_cast<std::size_t>(from)]->send(to, data.data(), bytes);
    parcels[static_cast<std::size_t>(to)]->receive(from, data.data(), bytes);
  }
  void arrange() {
    for (auto& one : parcels) one->arrange();
  }
  Call call_of(int rank) const {
    Call call;
    call.coll = tutti::Coll::alltoallv;
    call.parcels = parcels[static_cast<std::size_t>(rank)].get();
    return call;
  }
  std::vector<std::byte> data;
  std::vector<std::unique_ptr<Parcels>> parcels;
};

int fail(const std::string& message) {
  std::fprintf(stderr, "bench_sparse: %s\n", message.c_str());
  std::exit(1);
}

/// Microseconds of all of them, one behind the other, on a job whose ranks know each other.
double time_of(SimJob& job, const Choice& choice, const std::vector<Exchange>& exchanges) {
  std::string message;
  double us = 0;
  for (const bool warm : {false, true}) {
    job.align();
    const tutti::sim::Time begin = job.finished(0);
    for (const Exchange& exchange : exchanges) {
      const auto call_of = [&](int rank) { return exchange.call_of(rank); };
      if (!job.run(choice, call_of, 1, &message).ok()) fail(message);
    }
    tutti::sim::Time last = 0;
    for (int rank = 0; rank < job.size(); ++rank) last = std::max(last, job.finished(rank));
    if (warm) us = static_cast<double>(last - begin) * 1e-6;  // picoseconds
  }
  return us;
}

std::vector<Exchange> sparse(int ranks, double percent, std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution wanted(percent / 100);
  std::vector<Exchange> one;
  one.emplace_back(ranks);
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to)
      if (to != from && wanted(random)) one.back().add(from, to, bytes);
  }
  one.back().arrange();
  return one;
}

std::vector<Exchange> pairwise(int ranks) {
  std::vector<Exchange> rounds;
  for (int apart = 1; apart < ranks; ++apart) {
    rounds.emplace_back(ranks);
    for (int from = 0; from < ranks; ++from) rounds.back().add(from, (from + apart) % ranks, 8);
    rounds.back().arrange();
  }
  return rounds;
}

}  // namespace

int main(int count, char** arguments) {
  const int nodes = count > 1 ? std::atoi(arguments[1]) : 64;
  const double percent = count > 2 ? std::atof(arguments[2]) : 1;
  const unsigned seed = count > 3 ? static_cast<unsigned>(std::atoi(arguments[3])) : 1;
  if (nodes < 2 || nodes > 1024 || percent < 0 || percent > 100)
    fail("2 to 1024 nodes, and 0 to 100 percent");
  tutti::Forced forced;
  std::string message;
  if (!tutti::Forced::parse("alltoallv=direct", &forced, &message).ok()) fail(message);
  const Choice& choice = *forced.of(tutti::Coll::alltoallv);
  std::printf("alltoallv with %g %% of the counts, %d nodes, us, seed %u\n", percent, nodes, seed);
  std::printf("%-12s %8s %10s %10s %8s\n", "network", "bytes", "pairwise", "letters", "times");
  for (const char* const name : {"infiniband", "ethernet"}) {
    tutti::sim::JobSpec spec{nodes, 1, {}, false};
    const std::string path = std::string(TUTTI_PROFILES "/") + name + ".toml";
    if (!tutti::sim::load_network(path.c_str(), &spec.network, &message).ok()) fail(message);
    std::unique_ptr<SimJob> job;
    if (!SimJob::create(spec, &job, &message).ok()) fail(message);
    const double rounds = time_of(*job, choice, pairwise(nodes));
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 10, std::size_t{64} << 10}) {
      const double us = time_of(*job, choice, sparse(nodes, percent, bytes, seed));
      std::printf("%-12s %8zu %10.2f %10.2f %8.2f\n", name, bytes, rounds, us, rounds / us);
    }
  }
  return 0;
}
