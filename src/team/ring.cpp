#include "team/ring.hpp"

#include <new>

#include "team/team.hpp"

namespace tutti {

/// The word of a step: epoch and step in one, so that it grows over both.
struct alignas(kCacheLine) Ring::Slot {
  Word word;
  Key key;
};

namespace {

constexpr int kStepBits = 24;
constexpr int kToldBits = 8;
static_assert(Ring::kFragments <= kToldBits);

std::size_t to_lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// The area: what the member behind has told; tails by generation, chord and fragment; steps from
// those before and from those behind; slots.

std::size_t tails_bytes(int chords) noexcept {
  return to_lines(Inbox::kGenerations * static_cast<std::size_t>(chords) * Ring::kFragments *
                  sizeof(Word));
}

}  // namespace

int Ring::chords(int size) noexcept {
  int count = 0;
  while (std::int64_t{1} << count < size) ++count;
  return count;
}

std::size_t Ring::bytes(int size, bool elided) noexcept {
  const int count = chords(size);
  const std::size_t words = kCacheLine + tails_bytes(count);
  if (elided) return words;
  return words + 2 * static_cast<std::size_t>(count) * sizeof(Slot) +
         Inbox::kGenerations * static_cast<std::size_t>(count) * kFragments * kSlotBytes;
}

int Ring::chords() const noexcept { return chords(team_.size()); }

int Ring::member(int distance) const noexcept {
  const int size = team_.size();
  return ((team_.rank() + distance) % size + size) % size;
}

std::size_t Ring::tail_place(const Ticket& ticket, int chord, int fragment) const noexcept {
  const auto generation = static_cast<std::size_t>(ticket.epoch % Inbox::kGenerations);
  const std::size_t row =
      generation * static_cast<std::size_t>(chords()) + static_cast<std::size_t>(chord);
  return kCacheLine + (row * kFragments + static_cast<std::size_t>(fragment)) * sizeof(Word);
}

std::size_t Ring::step_place(int chord, bool from_before) const noexcept {
  const int row = from_before ? chord : chords() + chord;
  return kCacheLine + tails_bytes(chords()) + static_cast<std::size_t>(row) * sizeof(Slot);
}

std::size_t Ring::slot_place(const Ticket& ticket, int chord, int fragment) const noexcept {
  const std::size_t slots =
      step_place(0, true) + 2 * static_cast<std::size_t>(chords()) * sizeof(Slot);
  const auto generation = static_cast<std::size_t>(ticket.epoch % Inbox::kGenerations);
  const std::size_t row =
      generation * static_cast<std::size_t>(chords()) + static_cast<std::size_t>(chord);
  return slots + (row * kFragments + static_cast<std::size_t>(fragment)) * kSlotBytes;
}

std::byte* Ring::own(std::size_t place) noexcept {
  const Inbox& inbox = team_.inbox();
  return inbox.base_ + (inbox.ring_place() + place) * inbox.scale_;
}

Word& Ring::word(std::size_t place) noexcept { return *reinterpret_cast<Word*>(own(place)); }

Word& Ring::tail(const Ticket& ticket, int chord, int fragment) noexcept {
  return word(tail_place(ticket, chord, fragment));
}

void Inbox::clear_ring() noexcept {
  const std::size_t slots = Ring::kFragments * kGenerations *
                            static_cast<std::size_t>(Ring::chords(team_.size())) * Ring::kSlotBytes;
  const std::size_t words =
      Ring::bytes(team_.size(), capacity_ == 0) - (capacity_ == 0 ? 0 : slots);
  for (std::size_t place = 0; place < words; place += sizeof(Word))
    new (base_ + (ring_place() + place) * scale_) Word(0);
}

Status Ring::write(int to, std::size_t place, const void* data, std::size_t bytes,
                   std::size_t word_place, std::uint64_t value, Completion* completion) noexcept {
  Inbox& inbox = team_.inbox();
  Remote peer;
  TUTTI_TRY(inbox.remote(to, &peer));
  const std::size_t area = inbox.inbox_of(to) + inbox.ring_place();
  const Tail tail{area + word_place, value};
  return team_.fabric().put(peer, area + place, data, bytes, &tail, completion);
}

Status Ring::put(const Ticket& ticket, int chord, int fragment, const void* data, std::size_t bytes,
                 Completion* completion) noexcept {
  if (bytes > kSlotBytes) return Status::error(Code::truncated, "larger than a slot of the ring");
  const std::size_t tail = tail_place(ticket, chord, fragment);
  const std::size_t place = team_.elided() ? tail : slot_place(ticket, chord, fragment);
  return write(member(1 << chord), place, data, bytes, tail, ticket.epoch + 1, completion);
}

bool Ring::arrived(const Ticket& ticket, int chord, int fragment) noexcept {
  return tail(ticket, chord, fragment).load(std::memory_order_acquire) > ticket.epoch;
}

const std::byte* Ring::data(const Ticket& ticket, int chord, int fragment) noexcept {
  return team_.elided() ? own(0) : own(slot_place(ticket, chord, fragment));
}

std::uint32_t Ring::span() const noexcept {
  return static_cast<std::uint32_t>(chords() * kFragments);
}

std::uint32_t Ring::stride() const noexcept {
  return static_cast<std::uint32_t>(team_.inbox().scale_);
}

std::uint64_t Ring::sum(const Ticket& ticket) noexcept {
  const Word* words = first(ticket);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < span(); ++i)
    total += words[i * stride()].load(std::memory_order_acquire);
  return total;
}

Status Ring::tell(const Ticket& ticket, std::uint64_t fragments) noexcept {
  return write(member(-1), 0, nullptr, 0, 0, (ticket.epoch + 1) << kToldBits | fragments, nullptr);
}

std::uint64_t Ring::told(const Ticket& ticket) noexcept {
  const std::uint64_t value = word(0).load(std::memory_order_acquire);
  const std::uint64_t epoch = value >> kToldBits;
  if (epoch != ticket.epoch + 1) return epoch > ticket.epoch ? ~std::uint64_t{0} : 0;
  return value & ((1U << kToldBits) - 1);
}

std::uint64_t Ring::step_value(const Ticket& ticket, std::uint64_t step) noexcept {
  return (ticket.epoch + 1) << kStepBits | step;
}

Status Ring::step(int to, std::size_t place, const Ticket& ticket, std::uint64_t step,
                  const Key* key) noexcept {
  return write(to, place + offsetof(Slot, key), key, key == nullptr ? 0 : sizeof *key, place,
               step_value(ticket, step), nullptr);
}

Status Ring::step_behind(const Ticket& ticket, int chord, std::uint64_t number,
                         const Key* key) noexcept {
  return step(member(1 << chord), step_place(chord, true), ticket, number, key);
}

Status Ring::step_before(const Ticket& ticket, int chord, std::uint64_t number) noexcept {
  return step(member(-(1 << chord)), step_place(chord, false), ticket, number, nullptr);
}

const Word& Ring::word_of_before(int chord) noexcept { return word(step_place(chord, true)); }

Engine::Reached Ring::stepped_before(const Ticket& ticket, int chord,
                                     std::uint64_t number) noexcept {
  return team_.engine().reached(word_of_before(chord), step_value(ticket, number),
                                team_.membership(), team_.job_rank(member(-(1 << chord))));
}

Engine::Reached Ring::stepped_behind(const Ticket& ticket, int chord,
                                     std::uint64_t number) noexcept {
  return team_.engine().reached(word(step_place(chord, false)), step_value(ticket, number),
                                team_.membership(), team_.job_rank(member(1 << chord)));
}

const Key& Ring::key_of_before(int chord) noexcept {
  return reinterpret_cast<const Slot*>(own(step_place(chord, true)))->key;
}

}  // namespace tutti
