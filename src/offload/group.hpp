// What a DCP knows of its APPs and of a communicator that it serves. Private to the server.
#pragma once

#include <deque>

#include "offload/server.hpp"

namespace tutti::offload {

struct Server::App {
  std::int32_t rank = -1;
  Remote arena;
  std::byte* ring = nullptr;  // here
  std::uint64_t next = 0;     // number of the next request
  std::uint64_t taken = 0;    // as reported
  std::size_t taken_offset = 0;
  Membership self;  // this APP alone
  Task listener;
  struct Place {
    Group* group = nullptr;
    int local = 0;  // which of the group's members here
  };
  std::vector<Place> groups;  // by the APP's number
};

/// One member's part in a collective.
struct Server::Arrival {
  App* app = nullptr;
  Request request;
  std::byte data[kCellBytes];         // small: what it sends; else its Buffers
  std::byte body[kReplyBody];         // of the answer, which networks read later
  Remote send, recv;                  // large
  const std::byte* result = nullptr;  // small: what it receives
};

/// A collective of a group.
struct Server::Round {
  std::uint64_t epoch = 0;
  int arrived = 0;
  bool small = true;
  std::uint64_t first_ns = 0, last_ns = 0;
  std::vector<Arrival> arrivals;  // by local member
  std::vector<std::byte> in, out, packed, received;
  Task task;
};

struct Server::Group {
  std::uint64_t id[2] = {0, 0};
  int size = 0;
  int open = 0;                          // members here that have not closed it
  std::vector<int> locals;               // members that this DCP serves, ascending
  std::vector<std::uint64_t> epochs;     // of each of them: collectives that it has started
  std::vector<std::int32_t> processors;  // DCPs of the group, ascending
  int mine = 0;                          // which of them this is
  std::vector<int> processor_of;         // by member: index into `processors`
  std::vector<std::vector<int>> served;  // by processor: its members, ascending
  std::size_t most_served = 0;
  Team* teams[2] = {nullptr, nullptr};        // of the DCPs, for large and for small collectives
  std::deque<std::unique_ptr<Round>> rounds;  // begun to arrive or not over, by epoch
  std::vector<std::unique_ptr<Round>> spare;
  std::deque<Round*> large;  // complete, in order; the first is being served
};

/// A collective that is being served.
struct Server::Job {
  Group& group;
  Round& round;
  Call call;  // of the group
  Reduction reduction;
  Team* team = nullptr;  // of the DCPs; nullptr where this is the only one

  std::size_t locals() const noexcept { return group.locals.size(); }
  int member(std::size_t local) const noexcept { return group.locals[local]; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(group.size); }
  Arrival& arrival(std::size_t local) noexcept { return round.arrivals[local]; }
};

}  // namespace tutti::offload
