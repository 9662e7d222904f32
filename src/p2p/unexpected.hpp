// Messages that have come before their receives: kept until one takes them, or nobody will.
#pragma once

#include <cstddef>

#include "engine/engine.hpp"
#include "p2p/context.hpp"
#include "p2p/options.hpp"
#include "p2p/outbox.hpp"
#include "p2p/transfers.hpp"

namespace tutti::p2p {

class Unexpected {
 public:
  Unexpected(Engine& engine, Transfers& transfers, Outbox& outbox, Counts& counts) noexcept
      : engine_(engine), transfers_(transfers), outbox_(outbox), counts_(counts) {}
  Unexpected(const Unexpected&) = delete;
  Unexpected& operator=(const Unexpected&) = delete;

  /// Keeps a message, with its data unless `payload` is nullptr; more of it may follow. nullptr: no
  /// memory.
  Arrival* keep(Context& context, Peer& peer, const Header& header, const void* payload) noexcept;
  /// Its sender cancels it: possible until it is matched.
  void withdraw(Context& context, Peer& peer, const Header& header) noexcept;
  /// Forgets a message that nobody will receive any more; it is out of the matching already.
  void drop(Arrival* arrival) noexcept;
  void drop_all(Context& context) noexcept;

 private:
  Engine& engine_;
  Transfers& transfers_;
  Outbox& outbox_;
  Counts& counts_;
};

}  // namespace tutti::p2p
