#include "bindings_sim.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/via2003.hpp"
#include "sim/job.hpp"

namespace {

namespace nb = nanobind;
using tutti::sim::Network;
using tutti::sim::SimJob;

/// Errors become ValueError with the one line that the core has for them.
void check(tutti::Status status, const std::string& message) {
  if (!status.ok()) throw std::invalid_argument(message);
}

Network load(const std::string& path) {
  Network network;
  std::string message;
  check(load_network(path, &network, &message), message);
  return network;
}

tutti::Choice parse_choice(const std::string& algorithm) {
  tutti::Forced forced;
  std::string message;
  if (!tutti::Forced::parse(algorithm, &forced, &message).ok()) {
    constexpr const char* kPrefix = "TUTTI_ALG: ";
    throw std::invalid_argument(message.starts_with(kPrefix) ? message.substr(std::string(kPrefix).size()) : message);
  }
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    if (const tutti::Choice* choice = forced.of(static_cast<tutti::Coll>(coll))) return *choice;
  }
  throw std::invalid_argument("no algorithm is named");
}

/// Runs `algorithm` ("bcast=binomial:block=3072") without payload. A dict: us (completion of the last rank),
/// per_rank_us, events, seconds is the caller's to measure.
nb::dict simulate(const std::string& algorithm, const std::string& profile, int nodes, int ranks_per_node,
                  std::size_t bytes, int root, int repeat, bool per_rank) {
  const tutti::Choice choice = parse_choice(algorithm);
  if (repeat < 1) throw std::invalid_argument("repeat must be 1 or more");
  std::unique_ptr<SimJob> job;
  std::string message;
  check(SimJob::create({nodes, ranks_per_node, load(profile), true}, &job, &message), message);
  if (root < 0 || root >= job->size()) throw std::invalid_argument("the root must be a rank, from 0 to " + std::to_string(job->size() - 1));
  tutti::Reduction reduction;
  tutti::find_reduction(tutti::Op::sum, tutti::Type::i32, &reduction);
  static std::byte send, recv;  // addresses only: nothing is read or written
  std::vector<std::size_t> counts;
  tutti::Call call;
  call.coll = choice.algorithm->coll;
  call.bytes = call.coll == tutti::Coll::barrier ? 0 : bytes;
  call.root = root;
  call.send = &send;
  call.recv = &recv;
  call.reduction = &reduction;
  if (call.coll == tutti::Coll::allgatherv) {
    counts.assign(static_cast<std::size_t>(job->size()), bytes / static_cast<std::size_t>(job->size()));
    call.counts = counts.data();
    call.displs = counts.data();  // not looked at without payload
  }
  {
    nb::gil_scoped_release unlocked;
    check(job->run(choice, [&](int) { return call; }, repeat, &message), message);
  }
  nb::dict result;
  result["us"] = static_cast<double>(job->duration()) / tutti::sim::kMicrosecond / repeat;
  result["events"] = job->world().events();
  if (per_rank) {
    std::vector<double> times;
    for (int rank = 0; rank < job->size(); ++rank) {
      times.push_back(static_cast<double>(job->finished(rank)) / tutti::sim::kMicrosecond);
    }
    result["per_rank_us"] = times;
  }
  return result;
}

}  // namespace

void bind_simulation(nb::module_& module) {
  using namespace nb::literals;
  module.def("simulate", &simulate, "algorithm"_a, "profile"_a, "nodes"_a, "ranks_per_node"_a = 1, "bytes"_a = 4,
             "root"_a = 0, "repeat"_a = 1, "per_rank"_a = false);
  module.def("network_terms", [](const std::string& path) {
    const Network n = load(path);
    nb::dict terms;
    const auto us = [](tutti::sim::Time time) { return static_cast<double>(time) / tutti::sim::kMicrosecond; };
    terms["name"] = n.name;
    terms["source"] = n.source;
    terms["Tm"] = us(n.Tm);
    terms["Td"] = us(n.Td);
    terms["Ts"] = us(n.Ts);
    terms["Tn"] = us(n.Tn);
    terms["Ta"] = us(n.Ta);
    terms["Tl"] = us(n.Tl);
    terms["Tg"] = us(n.Tg);
    terms["Tr"] = us(n.Tr);
    terms["To"] = us(n.To);
    terms["Tt_per_byte"] = n.Tt.microseconds();
    terms["Tc_per_byte"] = n.Tc.microseconds();
    terms["To_per_byte"] = n.To_byte.microseconds();
    return terms;
  });
  module.def("model_broadcast", [](const std::string& path, int nodes, std::size_t bytes, std::size_t block) {
    if (block == 0) throw std::invalid_argument("the block must be 1 byte or more");
    return tutti::model::broadcast(load(path), nodes, bytes, block);
  });
  module.def("model_send_receive", [](const std::string& path, std::size_t bytes, std::size_t packet) {
    if (packet == 0) throw std::invalid_argument("the packet must be 1 byte or more");
    return tutti::model::send_receive(load(path), bytes, packet);
  });
  module.def("model_allreduce", [](const std::string& path, int nodes, std::size_t bytes, int degree, bool worst) {
    if (degree < 1) throw std::invalid_argument("the degree must be 1 or more");
    return tutti::model::allreduce(load(path), nodes, bytes, degree,
                                   worst ? tutti::model::Case::worst : tutti::model::Case::best);
  });
  module.def("model_recursive_doubling", &tutti::model::recursive_doubling, "ts"_a, "tw"_a, "m"_a, "p"_a);
}
