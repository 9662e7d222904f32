// What members of a team put to those behind them: to the next one around the ring, and along
// chords to those 2, 4, 8, ... places further (MCAST-2007, stage 2).
//
// The area lies in every member's inbox. Each of its words and slots has one writer for ever: the
// member that is 2^k places before (or behind) the owner. Puts to one peer take effect in order, so
// what comes late, because its receiver had the data already and did not wait, cannot overtake or
// undo anything. Slots are used again when all members have finished the epoch, as blocks of the
// inbox are. In a team that ends it is Inbox::say_farewell() that waits for what is late: it goes
// to all members that anything here is put to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

class Team;
struct Ticket;

class ReliableRing {
 public:
  static constexpr int kFragments = 4;             // of a message that goes through slots
  static constexpr std::size_t kSlotBytes = 2048;  // largest of them
  static constexpr int kMostRun = 255;             // that is counted

  explicit ReliableRing(Team& team) noexcept : team_(team) {}

  /// Chords of a ring of `size` members, the ring itself included: the smallest n with 2^n >= size.
  static int chords(int size) noexcept;
  /// Shared bytes of an area; without the slots where the payload is elided.
  static std::size_t bytes(int size, bool elided) noexcept;

  // ---- small messages: fragments through slots

  /// Puts a fragment into the slot of the member that is 2^chord places behind. `run`: members in a
  /// row, this one the last of them, that have it by such puts. `data` may be reused when
  /// `completion` has counted.
  Status put(const Ticket& ticket, int chord, int fragment, int run, const void* data,
             std::size_t bytes, Completion* completion) noexcept;
  bool arrived(const Ticket& ticket, int chord, int fragment) noexcept;
  /// Of one that has arrived, for the receiver: counted with this member, at most kMostRun.
  int run(const Ticket& ticket, int chord, int fragment) noexcept;
  const std::byte* data(const Ticket& ticket, int chord, int fragment) noexcept;

  /// The first of the words that grow with each fragment that arrives for this epoch, their number
  /// and distance; and their sum now.
  const Word* first(const Ticket& ticket) noexcept { return &tail(ticket, 0, 0); }
  std::uint32_t span() const noexcept;
  std::uint32_t stride() const noexcept;
  std::uint64_t sum(const Ticket& ticket) noexcept;

  /// Tells the member before which fragments this one has, so that it need not put them.
  Status acknowledge(const Ticket& ticket, std::uint64_t fragments) noexcept;
  /// What the member behind has told of this epoch.
  std::uint64_t acknowledged(const Ticket& ticket) noexcept;

  // ---- large messages: what neighbours tell each other of groups of fragments, one word for each
  // group that is under way. Groups are counted over all large messages of the team, and a group's
  // number is in its word, above a bit for each of its fragments.

  static constexpr int kGroup = 24;   // fragments
  static constexpr int kGroups = 16;  // under way between two neighbours

  /// What a word says of a group: of an earlier one than was asked for, of this one, of a later
  /// one.
  enum class GroupWord : std::uint8_t { nothing, bits, more };

  /// Tells the member before which fragments of a group are to be put to the own memory; `window`:
  /// its key, or nullptr if the member before has it already.
  Status ask(const Ticket& ticket, std::uint64_t group, std::uint32_t fragments,
             const Key* window) noexcept;
  /// What the member behind has asked for.
  GroupWord asked(std::uint64_t group, std::uint32_t* fragments) noexcept;
  const Key& window_of_behind(const Ticket& ticket) noexcept;
  /// Puts `bytes` to `offset` of the window of the member behind.
  Status repair(const Remote& window, std::size_t offset, const void* data, std::size_t bytes,
                std::uint64_t group, Completion* completion) noexcept;
  /// Tells the member behind that fragments of the group, and all before it, will come by puts
  /// only, and which of them have.
  Status grant(std::uint64_t group, std::uint32_t fragments) noexcept;
  GroupWord granted(std::uint64_t group, std::uint32_t* fragments) noexcept;
  /// Of all groups that the member before has granted, the last one's number, and one; 0: none.
  std::uint64_t granted_before() noexcept;

  /// Tells the member that is 2^chord places before a count that only grows.
  Status report(int chord, std::uint64_t count) noexcept;
  std::uint64_t reported(int chord) noexcept;

  // ---- surveys (team/cast_watch.hpp): a round for each chord

  /// Tells the member that is 2^chord places behind.
  Status survey(int chord, std::uint64_t value) noexcept;
  /// What the member before has told; grows.
  const Word& surveyed(int chord) noexcept { return word(survey_place(chord)); }
  /// The member that is 2^chord places before.
  int before(int chord) const noexcept { return member(-(1 << chord)); }

  /// All words of groups and reports, as first(), span() and sum() above; stride() holds here too.
  const Word* first_notice() noexcept { return &word(group_place(false, 0)); }
  std::uint32_t notice_span() const noexcept;
  std::uint64_t notice_sum() noexcept;

 private:
  int member(int distance) const noexcept;
  int chords() const noexcept;
  std::size_t tail_place(const Ticket& ticket, int chord, int fragment) const noexcept;
  std::size_t group_place(bool granted, std::uint64_t group) const noexcept;
  std::size_t report_place(int chord) const noexcept;
  std::size_t survey_place(int chord) const noexcept;
  std::size_t key_place(const Ticket& ticket) const noexcept;
  std::size_t slot_place(const Ticket& ticket, int chord, int fragment) const noexcept;
  Word& tail(const Ticket& ticket, int chord, int fragment) noexcept;
  Word& word(std::size_t place) noexcept;
  std::byte* own(std::size_t place) noexcept;
  Status write(int member, std::size_t place, const void* data, std::size_t bytes,
               std::size_t word_place, std::uint64_t value, Completion* completion) noexcept;
  static GroupWord read(std::uint64_t word, std::uint64_t group, std::uint32_t* fragments) noexcept;
  std::uint64_t sum_of(const Word* words, std::uint32_t count) const noexcept;

  Team& team_;
};

}  // namespace tutti
