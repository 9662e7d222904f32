// Looking for a message without a receive, and taking it out of the matching for one later on.
#pragma once

#include "engine/engine.hpp"
#include "p2p/contexts.hpp"
#include "p2p/delivery.hpp"
#include "p2p/receives.hpp"
#include "p2p/transfers.hpp"

namespace tutti::p2p {

class Probes {
 public:
  Probes(Engine& engine, Contexts& contexts, Transfers& transfers, Receives& receives,
         Delivery& delivery) noexcept
      : engine_(engine),
        contexts_(contexts),
        transfers_(transfers),
        receives_(receives),
        delivery_(delivery) {}
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;

  /// As Messages::take_now() and take(), of a probe with valid arguments.
  bool take_now(Group& group, int source, int tag, Receipt* out, Arrival** message) noexcept;
  Receipt take(Group& group, int source, int tag, Arrival** message, Engine::Guard& guard) noexcept;

 private:
  bool in_vain(Group& group, int source, Receipt* out) noexcept;

  Engine& engine_;
  Contexts& contexts_;
  Transfers& transfers_;
  Receives& receives_;
  Delivery& delivery_;
};

}  // namespace tutti::p2p
