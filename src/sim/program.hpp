// Programs of point-to-point messages and computation in virtual time: one list of actions a rank,
// over the protocols of src/p2p, unchanged. Where a message stands still while its process computes
// and what that costs in MPI_Wait is what RNDV-2006 measures on applications.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/sim/network.hpp"
#include "p2p/messages.hpp"

namespace tutti::sim {

/// What a rank does next. As in MPI, messages move while their process is in a call, and by
/// themselves only as far as the protocol can without it.
struct Action {
  enum class Kind : std::uint8_t {
    compute,  // for `duration`
    send,     // MPI_Isend to `peer`, as request `request`
    receive,  // MPI_Irecv from `peer`
    wait,     // MPI_Waitall on `requests`; counted in ProgramTimes::waited
    block,    // the same within MPI_Send or MPI_Recv: counted in `blocked`
    mark,     // nothing: the time is ProgramTimes::marked, of the last one
  };
  static constexpr int kRequests = 32;  // requests of a rank that may be active

  Kind kind = Kind::compute;
  std::int32_t peer = 0;
  std::int32_t tag = 0;
  std::int32_t request = 0;    // 0 to kRequests - 1
  std::uint32_t requests = 0;  // a bit for each
  std::size_t bytes = 0;
  Time duration = 0;
};

struct ProgramSpec {
  Network network;
  int nodes = 2;
  int ranks_per_node = 1;
  p2p::Protocol protocol = p2p::Protocol::read;
  std::size_t eager = 8192;  // larger messages go by rendezvous
};

struct ProgramTimes {
  std::vector<Time> waited, blocked, marked, finished;  // by rank
  std::uint64_t interrupts = 0;
  std::uint64_t rendezvous = 0;  // messages that went by it
  std::uint64_t events = 0;
};

/// Runs one list a rank to its end. With read_interrupt a request to send interrupts a receiver
/// that computes (Network::Ti), and nothing else does. Large messages are timed and
/// not carried. `*message` says in one line why it could not be run, or who waits for whom for
/// ever.
Status run_program(const ProgramSpec& spec, const std::vector<std::vector<Action>>& actions,
                   ProgramTimes* out, std::string* message);

}  // namespace tutti::sim
