// How ranks part: what has been sent arrives where a receive waits for it, whoever asked for it and
// whether anybody still does; what will never be matched is ended.
//
// MPI 4.1, section 11.2.2: a program may call MPI_Finalize with sends and receives whose requests
// it has freed, and with buffered messages that nobody has received yet. Who is there first has to
// stay.
#pragma once

#include "engine/engine.hpp"
#include "p2p/backlog.hpp"
#include "p2p/contexts.hpp"
#include "p2p/outbox.hpp"
#include "p2p/peers.hpp"
#include "p2p/transfers.hpp"
#include "p2p/unexpected.hpp"

namespace tutti::p2p {

/// Where all ranks come together outside of tutti.
class Meeting {
 public:
  /// Returns when all ranks have called it, progressing this job meanwhile; false when it cannot:
  /// then nobody is waited for.
  virtual bool meet() noexcept = 0;

 protected:
  ~Meeting() = default;
};

class Parting {
 public:
  Parting(Engine& engine, Backlog& backlog, Contexts& contexts, Peers& peers, Transfers& transfers,
          Outbox& outbox, Unexpected& unexpected) noexcept
      : engine_(engine),
        backlog_(backlog),
        contexts_(contexts),
        peers_(peers),
        transfers_(transfers),
        outbox_(outbox),
        unexpected_(unexpected) {}
  Parting(const Parting&) = delete;
  Parting& operator=(const Parting&) = delete;

  /// As Messages::conclude().
  void conclude(Meeting& meeting) noexcept;
  /// True when what this rank has sent without waiting for it has left; `group`: only that.
  bool has_sent(const Group* group) const noexcept;
  /// As Messages::forget().
  void forget(Group& group) noexcept;

 private:
  void say_last() noexcept;
  void hear_last() noexcept;
  void end_unmatched() noexcept;

  Engine& engine_;
  Backlog& backlog_;
  Contexts& contexts_;
  Peers& peers_;
  Transfers& transfers_;
  Outbox& outbox_;
  Unexpected& unexpected_;
};

}  // namespace tutti::p2p
