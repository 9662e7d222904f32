#include "bindings_sim.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "coll/parcels.hpp"
#include "core/measure.hpp"
#include "model/allgather2006.hpp"
#include "model/host.hpp"
#include "model/rendezvous2006.hpp"
#include "model/via2003.hpp"
#include "select/rules.hpp"
#include "sim/job.hpp"
#include "sim/messages.hpp"
#include "team/inbox.hpp"
#include "topo/topo.hpp"

namespace nb = nanobind;

void require(tutti::Status status, const std::string& message) {
  if (!status.ok()) throw std::invalid_argument(message);
}

tutti::sim::Network load_profile(const std::string& path) {
  tutti::sim::Network network;
  std::string message;
  require(load_network(path, &network, &message), message);
  return network;
}

tutti::Coll parse_collective(const std::string& op) {
  std::string names;
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    const char* known = tutti::name(static_cast<tutti::Coll>(coll));
    if (op == known) return static_cast<tutti::Coll>(coll);
    names += (coll == 0 ? "" : ", ") + std::string(known);
  }
  throw std::invalid_argument("no collective '" + op + "'; there are " + names);
}

tutti::sim::Time picoseconds(double us, const char* what) {
  if (!(us >= 0) || us > 1e9)
    throw std::invalid_argument(std::string(what) + " is a time of 0 to 1e9 microseconds");
  return static_cast<tutti::sim::Time>(us * tutti::sim::kMicrosecond + 0.5);
}

tutti::model::Rendezvous parse_protocol(const std::string& text) {
  if (text == "write") return tutti::model::Rendezvous::write;
  if (text == "read") return tutti::model::Rendezvous::read;
  if (text == "read_interrupt") return tutti::model::Rendezvous::read_interrupt;
  throw std::invalid_argument("protocols are write, read and read_interrupt, not '" + text + "'");
}

tutti::p2p::Protocol protocol_of(tutti::model::Rendezvous which) {
  using tutti::model::Rendezvous;
  return which == Rendezvous::write  ? tutti::p2p::Protocol::write
         : which == Rendezvous::read ? tutti::p2p::Protocol::read
                                     : tutti::p2p::Protocol::read_interrupt;
}

namespace {

using tutti::sim::Network;
using tutti::sim::SimJob;

tutti::Forced parse_forced(const std::string& algorithm) {
  tutti::Forced forced;
  std::string message;
  if (!tutti::Forced::parse(algorithm, &forced, &message).ok()) {
    constexpr const char* kPrefix = "TUTTI_ALG: ";
    throw std::invalid_argument(
        message.starts_with(kPrefix) ? message.substr(std::string(kPrefix).size()) : message);
  }
  return forced;
}

tutti::Choice parse_choice(const std::string& algorithm) {
  const tutti::Forced forced = parse_forced(algorithm);
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    if (const tutti::Choice* choice = forced.of(static_cast<tutti::Coll>(coll))) return *choice;
  }
  throw std::invalid_argument("no algorithm is named");
}

std::string text_of(const tutti::Choice& choice) {
  std::string text = choice.algorithm->name;
  for (int i = 0; i < tutti::Parameters::kMost; ++i) {
    const auto value = choice.parameters.value[i];
    // Of the lesser ones only those that differ from the default.
    const auto unsaid = i == 0 ? 0 : choice.algorithm->parameters[i].initial;
    if (choice.algorithm->parameters[i].name == nullptr || value == unsaid) continue;
    text += std::string(":") + choice.algorithm->parameters[i].name + "=" + std::to_string(value);
  }
  return text;
}

std::vector<tutti::Locality> places_of(const Network& network, int ranks, bool scattered) {
  const tutti::sim::Lines lines(network.node, ranks, scattered);
  std::vector<tutti::Locality> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(lines.locality_of(rank));
  return places;
}

/// Of a sum of 32-bit integers, or of bytes, in a real job. `profile`: the network's, or "" for one
/// of sockets.
tutti::Shape real_shape(const std::string& op, std::size_t bytes, int nodes, int ranks_per_node,
                        bool multicast, const std::string& profile, bool scattered = false) {
  tutti::Traits traits;
  constexpr std::size_t kDatagram = 1460;  // of a network with packets of 1500 bytes
  traits.datagram_bytes = multicast ? kDatagram : 0;
  traits.bypass = !profile.empty() && load_profile(profile).bypasses_kernel();
  traits.user_memory = true;
  tutti::Shape shape = tutti::Shape::of({nodes, ranks_per_node}, traits, tutti::Settings{}.block);
  shape.coll = parse_collective(op);
  shape.bytes = shape.longest_block = bytes;
  shape.element_bytes = 4;
  shape.hosted = true;
  if (nodes == 1 && !profile.empty()) {
    auto places = places_of(load_profile(profile), ranks_per_node, scattered);
    shape.add_levels({0, tutti::PlacedMembers::by_locality(std::move(places))});
  }
  return shape;
}

/// Why `algorithm` ("bcast=binomial:block=3072") cannot run there for want of layers, or because
/// the job has them; "" where that is not so.
std::string layer_restriction(const std::string& algorithm, std::size_t bytes, int nodes,
                              int ranks_per_node) {
  const tutti::Choice choice = parse_choice(algorithm);
  tutti::Shape shape =
      real_shape(tutti::name(choice.algorithm->coll), bytes, nodes, ranks_per_node, true, "");
  const char* why = choice.algorithm->restriction(shape, choice.parameters);
  shape.hierarchical = !shape.hierarchical;
  const bool otherwise = choice.algorithm->restriction(shape, choice.parameters) == nullptr;
  return why != nullptr && otherwise ? why : "";
}

/// (what selection takes, "" when nothing can run; why). `choices`: a file as TUTTI_CHOICES names,
/// or
/// "".
std::pair<std::string, std::string> chosen(const std::string& op, std::size_t bytes, int nodes,
                                           int ranks_per_node, bool multicast,
                                           const std::string& choices, const std::string& profile,
                                           bool scattered) {
  const tutti::Shape shape =
      real_shape(op, bytes, nodes, ranks_per_node, multicast, profile, scattered);
  tutti::Rules rules;
  std::string message;
  if (!choices.empty()) require(tutti::Rules::load(choices, &rules, &message), message);
  const tutti::Choice choice = tutti::choose(shape, tutti::Forced{}, &rules);
  const tutti::Rule* rule = rules.of(shape);
  const bool its_own = rule != nullptr;
  if (!its_own) rule = tutti::Rules::built_in().of(shape);
  if (rule == nullptr) return {};
  return {text_of(choice), "by line " + std::to_string(rule->line) + " of " +
                               (its_own ? choices : "the built-in choices") +
                               (rule->why.empty() ? "" : " (" + rule->why + ")")};
}

/// (name, first parameter or "", its default, source) of each algorithm of a collective.
std::vector<std::tuple<std::string, std::string, std::int64_t, std::string>> candidates(
    const std::string& op) {
  std::vector<std::tuple<std::string, std::string, std::int64_t, std::string>> lines;
  const tutti::Coll coll = parse_collective(op);
  for (const tutti::Algorithm* const one : tutti::algorithms()) {
    const tutti::Algorithm& a = *one;
    if (a.coll != coll) continue;
    lines.emplace_back(a.name, a.parameters[0].name == nullptr ? "" : a.parameters[0].name,
                       a.parameters[0].initial, a.source);
  }
  return lines;
}

tutti::model::Case parse_case(const std::string& text) {
  if (text == "best") return tutti::model::Case::best;
  if (text == "worst") return tutti::model::Case::worst;
  if (text == "uncontended") return tutti::model::Case::uncontended;
  throw std::invalid_argument("cases are best, worst and uncontended, not '" + text + "'");
}

tutti::sim::Progress parse_progress(const std::string& text) {
  if (text == "blocking") return tutti::sim::Progress::blocking;
  if (text == "host") return tutti::sim::Progress::host;
  if (text == "polled") return tutti::sim::Progress::polled;
  if (text == "interrupt") return tutti::sim::Progress::interrupt;
  throw std::invalid_argument("progress is blocking, host, polled or interrupt, not '" + text +
                              "'");
}

nb::list deliveries_of(SimJob& job) {
  nb::list rows;
  for (const tutti::sim::Delivery& d : job.world().deliveries()) {
    rows.append(nb::make_tuple(d.from, d.to, d.bytes,
                               static_cast<double>(d.posted) / tutti::sim::kMicrosecond,
                               static_cast<double>(d.visible) / tutti::sim::kMicrosecond));
  }
  return rows;
}

/// Memory that all ranks send from and receive into. Without payload only its address counts; with
/// it what arrives is overwritten by the next, which changes no time.
class Buffers {
 public:
  Buffers(const tutti::Call& call, int ranks, bool carried) {
    const std::size_t bytes = bytes_of(call, ranks);
    if (carried && !fit(call, ranks)) {
      throw std::invalid_argument("this algorithm cannot be simulated without its data, and " +
                                  std::to_string(ranks) + " ranks of " +
                                  std::to_string(call.bytes) + " bytes are more than 4 GiB");
    }
    send_.resize(carried ? std::max<std::size_t>(bytes, 1) : 1);
    recv_.resize(send_.size());
  }
  void* send() { return send_.data(); }
  void* recv() { return recv_.data(); }

  /// They may be carried.
  static bool fit(const tutti::Call& call, int ranks) {
    return bytes_of(call, ranks) <= std::size_t{1} << 32;
  }

 private:
  static std::size_t bytes_of(const tutti::Call& call, int ranks) {
    using tutti::Coll;
    static constexpr Coll kWhole[] = {Coll::bcast,         Coll::reduce, Coll::allreduce,
                                      Coll::allgatherv,    Coll::scan,   Coll::exscan,
                                      Coll::reduce_scatter};
    const bool whole =
        std::find(std::begin(kWhole), std::end(kWhole), call.coll) != std::end(kWhole);
    return call.bytes * static_cast<std::size_t>(whole ? 1 : ranks);
  }

  std::vector<std::byte> send_, recv_;
};

constexpr std::size_t kMostControl = 512;  // keys of memory are in smaller messages than this

/// With the payload that algorithms need to run at all: keys of memory, not data. nullptr where
/// there are too many ranks for it.
std::unique_ptr<SimJob> make_carrying_job(tutti::sim::JobSpec spec) {
  constexpr int kMostWithPayload = 1 << 14;
  if (spec.nodes * spec.ranks_per_node > kMostWithPayload) return nullptr;
  spec.elided = false;
  spec.most_carried = kMostControl;
  std::unique_ptr<SimJob> job;
  std::string message;
  return SimJob::create(spec, &job, &message).ok() ? std::move(job) : nullptr;
}

/// A job on which the algorithm can run: with layers where it needs them, and with small messages'
/// payload only where it cannot do without (it sends keys of memory).
std::unique_ptr<SimJob> make_job(tutti::sim::JobSpec spec, const tutti::Choice& choice,
                                 const tutti::Call& call) {
  spec.hierarchical = SimJob::needs_layers(choice, spec.nodes, spec.ranks_per_node);
  if (spec.hierarchical && Buffers::fit(call, spec.nodes * spec.ranks_per_node)) {
    // Without payload other algorithms would be taken in its layers than in reality.
    std::unique_ptr<SimJob> carrying = make_carrying_job(spec);
    if (carrying != nullptr && carrying->restriction(choice, call) == nullptr) return carrying;
  }
  std::unique_ptr<SimJob> job;
  std::string message;
  require(SimJob::create(spec, &job, &message), message);
  if (job->restriction(choice, call) == nullptr || spec.nodes == 1) return job;
  std::unique_ptr<SimJob> carrying = make_carrying_job(spec);
  if (carrying == nullptr || carrying->restriction(choice, call) != nullptr) return job;
  return carrying;
}

/// What each rank has for each other one: blocks of call.bytes.
std::vector<tutti::Parcels> make_parcels(const tutti::Call& call, int ranks) {
  constexpr int kMost = 4096;  // each has a list of all
  if (ranks > kMost)
    throw std::invalid_argument(std::string(tutti::name(call.coll)) + " is simulated for up to " +
                                std::to_string(kMost) + " ranks");
  std::vector<tutti::Parcels> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(
        tutti::Parcels::even(call.coll, call.root, rank, ranks, call.send, call.recv, call.bytes));
  return all;
}

/// One run of `repeat` collectives, all ranks in the same buffers, which are allocated for it.
tutti::Status run_shared(SimJob& job, const tutti::Choice& choice, tutti::Call& call, int repeat,
                         const tutti::sim::Program& program, std::string* message) {
  Buffers buffers(call, job.size(), !job.team(0).elided());
  call.send = buffers.send();
  call.recv = buffers.recv();
  nb::gil_scoped_release unlocked;
  std::vector<tutti::Parcels> parcels;
  if (has_parcels(call.coll)) parcels = make_parcels(call, job.size());
  const auto call_of = [&](int rank) {
    tutti::Call mine = call;
    if (!parcels.empty()) mine.parcels = &parcels[static_cast<std::size_t>(rank)];
    return mine;
  };
  return job.run(choice, call_of, repeat, program, message);
}

/// What all ranks call; without buffers. Keeps what the call points to.
struct ManyCalls {
  ManyCalls(const tutti::Choice& choice, std::size_t bytes, int ranks, int root) {
    static std::byte nothing;
    tutti::find_reduction(tutti::Op::sum, tutti::Type::i32, &reduction);
    call.coll = choice.algorithm->coll;
    call.bytes = call.coll == tutti::Coll::barrier ? 0 : bytes;
    call.root = root;
    call.send = call.recv = &nothing;
    call.reduction = &reduction;
    const bool folds = call.coll == tutti::Coll::reduce_scatter;
    if (call.coll != tutti::Coll::allgatherv && !folds) return;
    const std::size_t element = folds ? reduction.element_bytes : 1;
    const std::size_t block = bytes / element / static_cast<std::size_t>(ranks) * element;
    call.bytes = block * static_cast<std::size_t>(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      counts.push_back(block);
      displs.push_back(static_cast<std::size_t>(rank) * block);
    }
    call.counts = counts.data();
    call.displs = displs.data();
  }
  ManyCalls(const ManyCalls&) = delete;
  ManyCalls& operator=(const ManyCalls&) = delete;

  tutti::Reduction reduction;
  std::vector<std::size_t> counts, displs;
  tutti::Call call;
};

/// 1 where the numbers are bad: SimJob::create says what is wrong with them.
int ranks_of(int nodes, int ranks_per_node) {
  return nodes > 0 && ranks_per_node > 0 && nodes <= (1 << 30) / ranks_per_node
             ? nodes * ranks_per_node
             : 1;
}

/// Why `algorithm` cannot run there, "" when it can. Nothing is simulated.
std::string restriction(const std::string& algorithm, const std::string& profile, int nodes,
                        int ranks_per_node, std::size_t bytes) {
  const tutti::Choice choice = parse_choice(algorithm);
  const ManyCalls calls(choice, bytes, ranks_of(nodes, ranks_per_node), 0);
  const auto job =
      make_job({nodes, ranks_per_node, load_profile(profile), true}, choice, calls.call);
  const char* why = job->restriction(choice, calls.call);
  return why == nullptr ? "" : why;
}

/// An MPI runs whole calls only.
void refuse_host(const tutti::Forced& in_layers) {
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    const tutti::Choice* const choice = in_layers.of(static_cast<tutti::Coll>(coll));
    if (choice == nullptr || !choice->algorithm->left_to_host()) continue;
    throw std::invalid_argument(std::string(tutti::name(choice->algorithm->coll)) + "=" +
                                choice->algorithm->name +
                                ": an MPI runs whole calls, and nothing within a layer");
  }
}

/// Runs `algorithm` ("bcast=binomial:block=3072"), without payload if possible; `in_layers` ("" or
/// as TUTTI_ALG) is taken in the layers of a hierarchical one. `warm`: collectives before it, after
/// which all ranks begin at one time. A dict: us (completion of the last rank, divided by
/// `repeat`), events of all; with `per_rank` also per_rank_us, with `trace` the puts between nodes.
nb::dict simulate(const std::string& algorithm, const std::string& profile, int nodes,
                  int ranks_per_node, std::size_t bytes, int root, int repeat, bool per_rank,
                  bool trace, double compute, const std::string& progress, double noise_period,
                  double noise, double skew, std::uint64_t seed, const std::string& in_layers,
                  bool scattered, double poll_every, double poll, int warm) {
  const tutti::Choice choice = parse_choice(algorithm);
  if (repeat < 1) throw std::invalid_argument("repeat must be 1 or more");
  if (warm < 0) throw std::invalid_argument("warm must be 0 or more");
  const tutti::sim::Program program{parse_progress(progress), picoseconds(compute, "compute"),
                                    picoseconds(poll_every, "the time between polls"),
                                    picoseconds(poll, "a poll")};
  if (program.progress == tutti::sim::Progress::polled && program.poll_every == 0)
    throw std::invalid_argument("progress polled: the time between polls must be above 0");
  tutti::sim::JobSpec spec{nodes, ranks_per_node, load_profile(profile), true};
  spec.noise = {picoseconds(noise_period, "the period of noise"), picoseconds(noise, "noise"),
                picoseconds(skew, "skew"), seed};
  spec.trace = trace;
  spec.scattered = scattered;
  spec.policy.forced = parse_forced(in_layers);
  refuse_host(spec.policy.forced);
  ManyCalls calls(choice, bytes, ranks_of(nodes, ranks_per_node), root);
  tutti::Call& call = calls.call;
  std::unique_ptr<SimJob> job = make_job(spec, choice, call);
  if (root < 0 || root >= job->size())
    throw std::invalid_argument("the root must be a rank, from 0 to " +
                                std::to_string(job->size() - 1));
  std::string message;
  if (warm != 0) {
    require(run_shared(*job, choice, call, warm, program, &message), message);
    job->align();
  }
  const tutti::Status status = run_shared(*job, choice, call, repeat, program, &message);
  require(status, message);
  nb::dict result;
  result["us"] = static_cast<double>(job->duration()) / tutti::sim::kMicrosecond / repeat;
  result["events"] = job->world().events();
  std::uint64_t interrupts = 0;
  for (int rank = 0; rank < job->size(); ++rank)
    interrupts += job->world().fabric(rank).interrupts();
  result["interrupts"] = interrupts;
  if (trace) result["messages"] = deliveries_of(*job);
  if (per_rank) {
    std::vector<double> times;
    for (int rank = 0; rank < job->size(); ++rank) {
      times.push_back(static_cast<double>(job->finished(rank)) / tutti::sim::kMicrosecond);
    }
    result["per_rank_us"] = times;
    std::vector<std::uint64_t> taken;
    for (int rank = 0; rank < job->size(); ++rank)
      taken.push_back(job->world().fabric(rank).interrupts());
    result["per_rank_interrupts"] = taken;
  }
  return result;
}

/// One message by rendezvous between two nodes. A dict: sender_us and receiver_us (until their
/// waits are over), the same of the model, and the interrupts of the receiver.
nb::dict exchange(const std::string& protocol, const std::string& profile, std::size_t bytes,
                  double sender_computes, double receiver_computes) {
  const tutti::model::Rendezvous which = parse_protocol(protocol);
  if (bytes < 1) throw std::invalid_argument("a message by rendezvous has 1 byte or more");
  const Network network = load_profile(profile);
  tutti::sim::ExchangeTimes times;
  std::string message;
  require(run_exchange(
              network,
              {bytes, protocol_of(which), picoseconds(sender_computes, "the sender's computation"),
               picoseconds(receiver_computes, "the receiver's computation")},
              &times, &message),
          message);
  const auto model =
      tutti::model::rendezvous(network, which, bytes, sender_computes, receiver_computes);
  nb::dict result;
  result["sender_us"] = static_cast<double>(times.sender) / tutti::sim::kMicrosecond;
  result["receiver_us"] = static_cast<double>(times.receiver) / tutti::sim::kMicrosecond;
  result["model_sender_us"] = model.sender;
  result["model_receiver_us"] = model.receiver;
  result["interrupts"] = times.receiver_interrupts;
  return result;
}

/// Into which parts of the profile's node its ranks are divided: "2 packages, 16 last-level
/// caches".
std::string divisions_of(const std::string& profile, int ranks, bool scattered) {
  return tutti::divisions(places_of(load_profile(profile), ranks, scattered));
}

nb::dict measure_host() {
  tutti::model::HostCosts costs;
  std::string message;
  {
    nb::gil_scoped_release unlocked;
    require(tutti::model::measure_host(&costs, &message), message);
  }
  nb::dict terms;
  terms["line"] = costs.line;
  terms["Tc_per_byte"] = costs.copy_per_byte;
  terms["To"] = costs.reduce;
  terms["To_per_byte"] = costs.reduce_per_byte;
  terms["call"] = costs.call;
  return terms;
}

}  // namespace

void bind_simulation(nb::module_& module) {
  using namespace nb::literals;
  module.def("simulate", &simulate, "algorithm"_a, "profile"_a, "nodes"_a, "ranks_per_node"_a = 1,
             "bytes"_a = 4, "root"_a = 0, "repeat"_a = 1, "per_rank"_a = false, "trace"_a = false,
             "compute"_a = 0.0, "progress"_a = "blocking", "noise_period"_a = 0.0, "noise"_a = 0.0,
             "skew"_a = 0.0, "seed"_a = 1, "in_layers"_a = "", "scattered"_a = false,
             "poll_every"_a = 0.0, "poll"_a = 0.0, "warm"_a = 0);
  module.def("divisions", &divisions_of, "profile"_a, "ranks"_a, "scattered"_a = false);
  module.def("restriction", &restriction, "algorithm"_a, "profile"_a, "nodes"_a, "ranks_per_node"_a,
             "bytes"_a);
  module.def("exchange", &exchange, "protocol"_a, "profile"_a, "bytes"_a, "sender_computes"_a = 0.0,
             "receiver_computes"_a = 0.0);
  module.def("model_rendezvous", [](const std::string& path, const std::string& protocol,
                                    std::size_t m, double sender, double receiver) {
    const auto times =
        tutti::model::rendezvous(load_profile(path), parse_protocol(protocol), m, sender, receiver);
    return std::pair<double, double>(times.sender, times.receiver);
  });
  module.def("model_overlap", &tutti::model::overlap, "alone"_a, "computation"_a, "together"_a);
  module.def("model_allgather_send_receive", [](const std::string& path, int nodes, int ppn,
                                                std::size_t m, std::size_t packet) {
    if (packet == 0) throw std::invalid_argument("the packet must be 1 byte or more");
    return tutti::model::allgather_send_receive(load_profile(path), nodes, ppn, m, packet);
  });
  module.def("model_allgather_shared_buffer", [](const std::string& path, int nodes, int ppn,
                                                 std::size_t m, bool overlap) {
    return tutti::model::allgather_shared_buffer(load_profile(path), nodes, ppn, m, overlap);
  });
  module.def("chosen", &chosen, "op"_a, "bytes"_a, "nodes"_a, "ranks_per_node"_a,
             "multicast"_a = false, "choices"_a = "", "profile"_a = "", "scattered"_a = false);
  module.def("layer_restriction", &layer_restriction, "algorithm"_a, "bytes"_a, "nodes"_a,
             "ranks_per_node"_a);
  module.def("candidates", &candidates, "op"_a);
  module.def("measure_host", &measure_host);
  module.def(
      "measure_collective",
      [](const std::string& algorithm, std::size_t bytes, int ranks, int calls) {
        if (ranks < 2 || calls < 1) throw std::invalid_argument("2 ranks and 1 call at least");
        double us = 0;
        std::string message;
        tutti::Status status;
        {
          nb::gil_scoped_release unlocked;
          status = tutti::measure_collective(algorithm, bytes, ranks, calls, &us, &message);
        }
        require(status, message);
        return us;
      },
      "algorithm"_a, "bytes"_a, "ranks"_a, "calls"_a);
  module.def("network_terms", [](const std::string& path) {
    const Network n = load_profile(path);
    nb::dict terms;
    const auto us = [](tutti::sim::Time time) {
      return static_cast<double>(time) / tutti::sim::kMicrosecond;
    };
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
    terms["Ti"] = us(n.Ti);
    terms["To"] = us(n.To);
    terms["Tt_per_byte"] = n.Tt.microseconds();
    terms["Tc_per_byte"] = n.Tc.microseconds();
    terms["To_per_byte"] = n.To_byte.microseconds();
    return terms;
  });
  module.def("model_broadcast",
             [](const std::string& path, int nodes, std::size_t bytes, std::size_t block) {
               if (block == 0) throw std::invalid_argument("the block must be 1 byte or more");
               return tutti::model::broadcast(load_profile(path), nodes, bytes, block);
             });
  module.def("model_send_receive",
             [](const std::string& path, std::size_t bytes, std::size_t packet) {
               if (packet == 0) throw std::invalid_argument("the packet must be 1 byte or more");
               return tutti::model::send_receive(load_profile(path), bytes, packet);
             });
  module.def("model_allreduce", [](const std::string& path, int nodes, std::size_t bytes,
                                   int degree, const std::string& which) {
    if (degree < 1) throw std::invalid_argument("the degree must be 1 or more");
    return tutti::model::allreduce(load_profile(path), nodes, bytes, degree, parse_case(which));
  });
  module.def("model_recursive_doubling", &tutti::model::recursive_doubling, "ts"_a, "tw"_a, "m"_a,
             "p"_a);
}
