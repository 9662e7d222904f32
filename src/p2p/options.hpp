// What is chosen of messages, and what is counted of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "p2p/packet.hpp"

namespace tutti::p2p {

struct Options {
  /// Largest message that is sent at once; less where rings are small, and over networks that
  /// bypass the kernel kMostPayload (Eager::most()).
  std::size_t eager = kMostEager;
  std::uint64_t allowance = std::uint64_t{4}
                            << 20;  // cost of unexpected eager messages from one sender
  Protocol protocol = Protocol::read_interrupt;  // of larger ones
  bool tries = false;  // how those go back and forth on a node (Answers, SmallAnswers)
};

/// What has happened so far, for reports and tests.
struct Counts {
  std::uint64_t eager = 0;  // sent, by protocol
  std::uint64_t write = 0;
  std::uint64_t read = 0;  // with and without interrupt
  std::uint64_t heads = 0;  // of them, whose head has gone ahead
  std::uint64_t halved = 0;  // received, of which the sender was asked to write one half
  std::uint64_t pipelined = 0;
  std::uint64_t tried = 0;       // small answers whose stores a trial chose (SmallAnswers)
  std::uint64_t unexpected = 0;  // messages that came before their receives
  std::uint64_t deferred =
      0;  // eager ones that became rendezvous because the receiver had no room for them
  std::uint64_t queued = 0;    // packets that had to wait for their turn
  std::size_t held_bytes = 0;  // data of unexpected messages held at present
};

}  // namespace tutti::p2p
