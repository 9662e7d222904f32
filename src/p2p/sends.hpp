// How sends begin: which way a message goes, and what becomes of one that is taken back.
#pragma once

#include <cstddef>
#include <optional>

#include "base/store_choice.hpp"
#include "engine/engine.hpp"
#include "p2p/eager.hpp"
#include "p2p/options.hpp"
#include "p2p/outbox.hpp"
#include "p2p/peers.hpp"
#include "p2p/rendezvous.hpp"
#include "p2p/transfers.hpp"
#include "p2p/unexpected.hpp"

namespace tutti::p2p {

class Sends {
 public:
  Sends(Fabric& fabric, const Options& options, Peers& peers, Transfers& transfers, Outbox& outbox,
        Unexpected& unexpected, Eager& eager, Rendezvous& rendezvous, Counts& counts) noexcept
      : fabric_(fabric),
        options_(options),
        peers_(peers),
        transfers_(transfers),
        outbox_(outbox),
        unexpected_(unexpected),
        eager_(eager),
        rendezvous_(rendezvous),
        counts_(counts) {}
  Sends(const Sends&) = delete;
  Sends& operator=(const Sends&) = delete;

  /// How a blocking send goes, where that is tried.
  struct Way {
    bool chosen = false;           // by what was measured of answers
    bool by_kernel = false;        // the kernel copies (Answers); the sender waits inside
    std::optional<Stores> stores;  // by which it is written
  };
  /// Of an answer to `asked` bytes of `asked_by`, which this rank has received last. `small`: also
  /// of a small one.
  Way way_of_answer(Peer& asked_by, std::size_t asked, const Group& group, std::size_t bytes,
                    int destination, bool small) noexcept;
  /// Whether a send leaves while others come in, so that the kernel may copy it (Crossings).
  bool may_cross(const Group& group, std::size_t bytes, int destination) const noexcept {
    return crosses(bytes) && destination >= 0 && destination < group.size() &&
           may_read(peers_.known(group.job_rank(destination)));
  }
  /// `watched`: nobody waits in here for it, so that the progress thread may have to. `may_cross`:
  /// the kernel may copy it because others come in meanwhile.
  void begin(Transfer& send, bool watched, bool may_cross) noexcept;
  /// Possible until the message is matched. It ends soon, in one way or the other.
  void cancel(Transfer& send) noexcept;

 private:
  bool crosses(std::size_t bytes) const noexcept {
    return Episodes::suits(bytes) && transfers_.episodes().receiving();
  }
  bool may_read(const Peer* peer) const noexcept;
  void send_copy(Transfer& send, bool watched) noexcept;
  void send_to_self(Transfer& send, Peer& self, bool watched) noexcept;
  void cancel_to_self(Transfer& send) noexcept;

  Fabric& fabric_;
  const Options& options_;
  Peers& peers_;
  Transfers& transfers_;
  Outbox& outbox_;
  Unexpected& unexpected_;
  Eager& eager_;
  Rendezvous& rendezvous_;
  Counts& counts_;
};

}  // namespace tutti::p2p
