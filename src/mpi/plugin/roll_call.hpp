// The stall report of a job on several machines: the watching thread of each node (stall.cpp)
// listens for the one that tells for all of them, and that one asks the others.
//
// Whoever asks proves that it belongs to the job (fabric/secret/secret.hpp): it answers a number
// that the asked node has drawn. Where no answer comes in time each node speaks for itself.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fabric/secret/secret.hpp"

namespace tutti::mpi {

/// Where a node's watching thread is reached. Family 0: nowhere.
struct Listener {
  sockaddr_in6 address{};  // or a sockaddr_in
};

class RollCall {
 public:
  RollCall() = default;
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  /// Listens at an address of this machine, on a port that the system chooses. `network`: the
  /// address of this rank's network; where it is none of IP's, nobody listens.
  void open(const std::vector<std::byte>& network) noexcept;
  const Listener& own() const noexcept { return own_; }
  /// Those of all nodes that listen, in the order of their ranks, and the job's secret; all zeros:
  /// there is none, and nobody may ask.
  void meet(std::vector<Listener> all, const Secret& secret);

  /// To be polled for input; -1: nobody listens.
  int descriptor() const noexcept { return listener_; }
  /// Whether this is the node that tells for all.
  bool is_first() const noexcept;
  /// Tells that node of a stall here: for so long a call has lasted. False where it does not hear.
  bool tell_first(std::uint64_t age_ns) noexcept;
  /// Takes one connection: `pack` makes the answer for who asks what the ranks here are doing.
  /// `*age_ns`: where a node tells of a stall, how old it is, else 0. False when none could be
  /// taken, as where the process has no descriptor left: there is input all the same.
  bool answer(const std::function<std::vector<std::byte>()>& pack, std::uint64_t* age_ns);
  /// Asks the other nodes, and gives what each has packed to `take` when it comes; nothing of those
  /// that do not answer within a second.
  void ask_others(const std::function<void(const std::vector<std::byte>&)>& take);

 private:
  enum class Wish : std::uint8_t { rolls = 1, told = 2 };
  struct Challenge;
  struct Request;

  Proof proof_of(const Challenge& challenge, Wish wish) const noexcept;
  std::vector<std::byte> ask(const Listener& other);
  int connect_to(const Listener& other) const noexcept;
  void close() noexcept;

  int listener_ = -1;
  Listener own_;
  std::vector<Listener> all_;
  Secret secret_;
};

}  // namespace tutti::mpi
