// What members of a team put to those behind them: to the next one around the ring, and along
// chords to those 2, 4, 8, ... places further (MCAST-2007, stage 2).
//
// The area lies in every member's inbox. Each of its words and slots has one writer for ever: the
// member that is 2^k places before (or behind) the owner. Puts to one peer take effect in order, so
// what comes late, because its receiver had the data already and did not wait, cannot overtake or
// undo anything. Slots are used again when all members have finished the epoch, as blocks of the
// inbox are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

class Team;
struct Ticket;

class Ring {
 public:
  static constexpr int kFragments = 4;             // of a message that goes through slots
  static constexpr std::size_t kSlotBytes = 2048;  // largest of them

  explicit Ring(Team& team) noexcept : team_(team) {}

  /// Chords of a ring of `size` members, the ring itself included: the smallest n with 2^n >= size.
  static int chords(int size) noexcept;
  /// Shared bytes of an area; without the slots where the payload is elided.
  static std::size_t bytes(int size, bool elided) noexcept;

  // ---- small messages: fragments through slots

  /// Puts a fragment into the slot of the member that is 2^chord places behind. `data` may be
  /// reused when `completion` has counted.
  Status put(const Ticket& ticket, int chord, int fragment, const void* data, std::size_t bytes,
             Completion* completion) noexcept;
  bool arrived(const Ticket& ticket, int chord, int fragment) noexcept;
  const std::byte* data(const Ticket& ticket, int chord, int fragment) noexcept;

  /// The first of the words that grow with each fragment that arrives for this epoch, their number
  /// and distance; and their sum now.
  const Word* first(const Ticket& ticket) noexcept { return &tail(ticket, 0, 0); }
  std::uint32_t span() const noexcept;
  std::uint32_t stride() const noexcept;
  std::uint64_t sum(const Ticket& ticket) noexcept;

  /// Tells the member before which fragments this one has, so that it need not put them.
  Status tell(const Ticket& ticket, std::uint64_t fragments) noexcept;
  /// What the member behind has told of this epoch.
  std::uint64_t told(const Ticket& ticket) noexcept;

  // ---- large messages: words with a key

  struct Slot;
  /// Steps grow within an epoch. To the member 2^chord places behind, or before.
  Status step_behind(const Ticket& ticket, int chord, std::uint64_t step, const Key* key) noexcept;
  Status step_before(const Ticket& ticket, int chord, std::uint64_t step) noexcept;
  Engine::Reached stepped_before(const Ticket& ticket, int chord, std::uint64_t step) noexcept;
  Engine::Reached stepped_behind(const Ticket& ticket, int chord, std::uint64_t step) noexcept;
  const Word& word_of_before(int chord) noexcept;
  const Key& key_of_before(int chord) noexcept;
  static std::uint64_t step_value(const Ticket& ticket, std::uint64_t step) noexcept;

 private:
  int member(int distance) const noexcept;
  int chords() const noexcept;
  std::size_t tail_place(const Ticket& ticket, int chord, int fragment) const noexcept;
  std::size_t slot_place(const Ticket& ticket, int chord, int fragment) const noexcept;
  std::size_t step_place(int chord, bool from_before) const noexcept;
  Word& tail(const Ticket& ticket, int chord, int fragment) noexcept;
  Word& word(std::size_t place) noexcept;
  std::byte* own(std::size_t place) noexcept;
  Status write(int member, std::size_t place, const void* data, std::size_t bytes,
               std::size_t word_place, std::uint64_t value, Completion* completion) noexcept;
  Status step(int to, std::size_t place, const Ticket& ticket, std::uint64_t step,
              const Key* key) noexcept;

  Team& team_;
};

}  // namespace tutti
