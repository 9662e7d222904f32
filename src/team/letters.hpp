// Letters between two members of a team on networks: messages that need no invitation, for
// collectives of which two members know only what they have for each other.
//
// A member keeps a box for each other one that sends it letters: a ring of bytes in its memory,
// where the sender puts one letter behind the other, the counter behind the data (VIA-2003, section
// 3.2). The first invitation between the two (section 3.3) tells the sender where the box is; it
// stays for as long as the team. The receiver tells what it has taken out each time that this is a
// quarter of the box, so nobody waits for anybody with whom it has nothing to do, however far they
// are apart in the team's order.
//
// What does not go in letters is put straight into the receiver's memory, to which it invites. An
// invitation is answered before the collective ends, so two members need one slot for them, and not
// one for each generation of the inbox. (Only that of a receiver that expects more than its sender
// has may stay without an answer.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

class Inbox;
class Team;
struct Ticket;

/// One end of them. One thread at a time (the engine's lock). Operations fail with no_memory, with
/// truncated where two members expect different messages of each other, and as those of the fabric.
class Letters {
 public:
  /// What lies in a box: two pieces where it goes past the end of the ring.
  struct Letter {
    std::uint32_t number = 0;  // among the messages of a collective between two members
    std::size_t bytes = 0;
    const std::byte* pieces[2] = {nullptr, nullptr};
    std::size_t piece_bytes[2] = {0, 0};
  };

  explicit Letters(Team& team) noexcept : team_(team) {}
  ~Letters() { close(); }
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  /// Bytes of the inbox that they need.
  static std::size_t bytes(int size) noexcept;

  /// What one member may send another in letters within one collective, headers included. Grows
  /// smaller with the team, so that the boxes of a large one stay small.
  std::size_t allowance() const noexcept { return ring_bytes() / 2; }
  /// What a letter takes of it.
  static constexpr std::size_t cost(std::size_t bytes) noexcept {
    return sizeof(Header) + (bytes + kUnit - 1) / kUnit * kUnit;
  }
  /// Whether letters go to `member`, and come from it, in this collective: since one before it. The
  /// two ends say the same.
  bool go_to(const Ticket& ticket, int member) const noexcept;
  bool come_from(const Ticket& ticket, int member) const noexcept;

  // ---- invitations: `step` grows within a collective, and each is answered

  /// A part of the memory that a key is of.
  struct Place {
    Key key;
    std::uint64_t offset = 0, bytes = 0;
  };
  /// Tells of a box, too, where no letters come from there yet.
  Status invite(const Ticket& ticket, int member, std::uint64_t step, const Place& to) noexcept;
  /// Of an invitation that has come.
  const Place& invitation(int from) const noexcept;
  /// Of the first one of a collective: letters go there from the next one on, where it offers that.
  Status accept(const Ticket& ticket, int from) noexcept;
  /// A step without a key. Seen no earlier than what this rank has put to that member before.
  Status say(const Ticket& ticket, int member, std::uint64_t step) noexcept;
  Engine::Reached said(const Ticket& ticket, int from, std::uint64_t step) noexcept;
  bool has_said(const Ticket& ticket, int from, std::uint64_t step) noexcept;

  // ---- letters

  /// Awaits room for a letter of `bytes`.
  Engine::Reached room(int member, std::size_t bytes) noexcept;
  /// Room must have been awaited. `memory`: of cost(bytes), the caller's, to compose it in; free
  /// when `sent` has counted.
  Status send(const Ticket& ticket, int member, std::uint32_t number, const void* data,
              std::size_t bytes, std::byte* memory, Completion* sent) noexcept;
  /// Awaits the next letter of a member.
  Engine::Reached arrival(int from) noexcept;
  /// That, or a step.
  Engine::Reached said_or_arrival(const Ticket& ticket, int from, std::uint64_t step) noexcept;
  /// The letter that has arrived; it stays until take_out(). `expected`: its number and the most
  /// that it may hold, and what it is where the payload is not carried (simulated programs tell both
  /// ends the same). Fails where it is another one or longer.
  Status look(const Ticket& ticket, int from, const Letter& expected, Letter* out) noexcept;
  Status take_out(int from, const Letter& letter) noexcept;

  // ---- for the inbox

  /// Makes the own lines, in memory that has been used before.
  void clear() noexcept;
  /// All that others tell of what they have taken has come: no collective awaits it.
  bool settled() noexcept;
  /// Gives the boxes back. Nobody sends any more.
  void close() noexcept;

 private:
  static constexpr std::size_t kUnit = 16;
  struct Header {
    std::uint64_t epoch;
    std::uint32_t number;
    std::uint32_t bytes;
  };
  static_assert(sizeof(Header) == kUnit);
  struct Line;
  struct Box;
  /// What an invitation brings.
  struct Invitation {
    Place to;
    Key boxes;              // of those that its sender keeps
    std::uint64_t box = 0;  // there the one for the receiver, from 1; 0: none
  };
  /// What this rank knows of its letters with another member.
  struct Pair {
    Remote remote;                // their box is there
    std::size_t place = 0;        // at that offset
    std::uint64_t go_since = kNever, come_since = kNever;  // the epoch that opened it
    std::uint64_t sent = 0, due = 0;                       // bytes; of those, will be told for certain
    Box* box = nullptr;                                    // for their letters
    std::uint64_t taken = 0, told = 0;
    Invitation invitation;  // stays until it is answered
  };
  /// Some boxes, exposed together.
  struct Shelf {
    Region region;
    std::size_t boxes = 0, used = 0;
    std::unique_ptr<Shelf> before;
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  std::size_t ring_bytes() const noexcept;
  std::size_t box_bytes() const noexcept;
  Pair* pair(int member) noexcept;
  Status no_pair() const noexcept;
  const Pair* known_pair(int member) const noexcept;
  bool wants_boxes() const noexcept;
  bool add_shelf() noexcept;
  Box* take_box(Key* key, std::uint64_t* place) noexcept;
  Line& line(int member) const noexcept;
  std::size_t place_at(int member) const noexcept;

  Team& team_;
  // By member; of those that have something for each other.
  std::unique_ptr<std::unique_ptr<Pair>[]> pairs_;
  std::unique_ptr<Shelf> shelves_;  // the last one first
  bool no_more_boxes_ = false;      // there is no memory for them
};

}  // namespace tutti
