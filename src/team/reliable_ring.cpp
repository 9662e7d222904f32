#include "team/reliable_ring.hpp"

#include <algorithm>
#include <new>

#include "team/team.hpp"

namespace tutti {

namespace {

constexpr int kFragmentBits = 8;
constexpr int kRunBits = 8;  // of a tail, below the epoch
static_assert(ReliableRing::kMostRun < 1 << kRunBits);
static_assert(ReliableRing::kFragments <= kFragmentBits);

std::size_t to_lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// The area: what the member behind has told; tails by generation, chord and fragment; words of
// groups, from behind and from before, reports and surveys by chord; keys by generation; slots.

std::size_t tails_bytes(int chords) noexcept {
  return to_lines(Inbox::kGenerations * static_cast<std::size_t>(chords) *
                  ReliableRing::kFragments * sizeof(Word));
}
/// Of groups, reports and surveys.
std::size_t words_bytes(int chords) noexcept {
  return to_lines((2 * ReliableRing::kGroups + 2 * static_cast<std::size_t>(chords)) *
                  sizeof(Word));
}
constexpr std::size_t kKeysBytes = Inbox::kGenerations * sizeof(Key);
static_assert(kKeysBytes % kCacheLine == 0);

}  // namespace

int ReliableRing::chords(int size) noexcept {
  int count = 0;
  while (std::int64_t{1} << count < size) ++count;
  return count;
}

std::size_t ReliableRing::bytes(int size, bool elided) noexcept {
  const int count = chords(size);
  const std::size_t words = kCacheLine + tails_bytes(count) + words_bytes(count) + kKeysBytes;
  if (elided) return words;
  return words + Inbox::kGenerations * static_cast<std::size_t>(count) * kFragments * kSlotBytes;
}

int ReliableRing::chords() const noexcept { return chords(team_.size()); }

int ReliableRing::member(int distance) const noexcept {
  const int size = team_.size();
  return ((team_.rank() + distance) % size + size) % size;
}

std::size_t ReliableRing::tail_place(const Ticket& ticket, int chord, int fragment) const noexcept {
  const auto generation = static_cast<std::size_t>(ticket.epoch % Inbox::kGenerations);
  const std::size_t row =
      generation * static_cast<std::size_t>(chords()) + static_cast<std::size_t>(chord);
  return kCacheLine + (row * kFragments + static_cast<std::size_t>(fragment)) * sizeof(Word);
}

std::size_t ReliableRing::group_place(bool granted, std::uint64_t group) const noexcept {
  const auto row = static_cast<std::size_t>(group % kGroups) + (granted ? kGroups : 0);
  return kCacheLine + tails_bytes(chords()) + row * sizeof(Word);
}

std::size_t ReliableRing::report_place(int chord) const noexcept {
  return group_place(false, 0) + (2 * kGroups + static_cast<std::size_t>(chord)) * sizeof(Word);
}

std::size_t ReliableRing::survey_place(int chord) const noexcept {
  return report_place(chords() + chord);
}

std::size_t ReliableRing::key_place(const Ticket& ticket) const noexcept {
  return group_place(false, 0) + words_bytes(chords()) +
         static_cast<std::size_t>(ticket.epoch % Inbox::kGenerations) * sizeof(Key);
}

std::size_t ReliableRing::slot_place(const Ticket& ticket, int chord, int fragment) const noexcept {
  const std::size_t slots = group_place(false, 0) + words_bytes(chords()) + kKeysBytes;
  const auto generation = static_cast<std::size_t>(ticket.epoch % Inbox::kGenerations);
  const std::size_t row =
      generation * static_cast<std::size_t>(chords()) + static_cast<std::size_t>(chord);
  return slots + (row * kFragments + static_cast<std::size_t>(fragment)) * kSlotBytes;
}

std::byte* ReliableRing::own(std::size_t place) noexcept {
  const Inbox& inbox = team_.inbox();
  return inbox.base_ + (inbox.ring_place() + place) * inbox.scale_;
}

Word& ReliableRing::word(std::size_t place) noexcept {
  return *reinterpret_cast<Word*>(own(place));
}

Word& ReliableRing::tail(const Ticket& ticket, int chord, int fragment) noexcept {
  return word(tail_place(ticket, chord, fragment));
}

void Inbox::clear_ring() noexcept {
  const std::size_t slots = ReliableRing::kFragments * kGenerations *
                            static_cast<std::size_t>(ReliableRing::chords(team_.size())) *
                            ReliableRing::kSlotBytes;
  const std::size_t words =
      ReliableRing::bytes(team_.size(), capacity_ == 0) - (capacity_ == 0 ? 0 : slots);
  for (std::size_t place = 0; place < words; place += sizeof(Word))
    new (base_ + (ring_place() + place) * scale_) Word(0);
}

Status ReliableRing::write(int to, std::size_t place, const void* data, std::size_t bytes,
                           std::size_t word_place, std::uint64_t value,
                           Completion* completion) noexcept {
  Inbox& inbox = team_.inbox();
  Remote peer;
  TUTTI_TRY(inbox.remote(to, &peer));
  const std::size_t area = inbox.inbox_of(to) + inbox.ring_place();
  const Tail tail{area + word_place, value};
  return team_.fabric().put(peer, area + place, data, bytes, &tail, completion);
}

Status ReliableRing::put(const Ticket& ticket, int chord, int fragment, int run, const void* data,
                         std::size_t bytes, Completion* completion) noexcept {
  if (bytes > kSlotBytes) return Status::error(Code::truncated, "larger than a slot of the ring");
  const std::size_t tail = tail_place(ticket, chord, fragment);
  const std::size_t place = team_.elided() ? tail : slot_place(ticket, chord, fragment);
  const std::uint64_t value = (ticket.epoch + 1) << kRunBits | static_cast<std::uint64_t>(run);
  return write(member(1 << chord), place, data, bytes, tail, value, completion);
}

bool ReliableRing::arrived(const Ticket& ticket, int chord, int fragment) noexcept {
  return tail(ticket, chord, fragment).load(std::memory_order_acquire) >> kRunBits > ticket.epoch;
}

int ReliableRing::run(const Ticket& ticket, int chord, int fragment) noexcept {
  constexpr std::uint64_t kMask = (1U << kRunBits) - 1;
  const std::uint64_t value = tail(ticket, chord, fragment).load(std::memory_order_relaxed);
  return std::min(kMostRun, static_cast<int>(value & kMask) + 1);
}

const std::byte* ReliableRing::data(const Ticket& ticket, int chord, int fragment) noexcept {
  return team_.elided() ? own(0) : own(slot_place(ticket, chord, fragment));
}

std::uint32_t ReliableRing::span() const noexcept {
  return static_cast<std::uint32_t>(chords() * kFragments);
}

std::uint32_t ReliableRing::stride() const noexcept {
  return static_cast<std::uint32_t>(team_.inbox().scale_);
}

std::uint64_t ReliableRing::sum(const Ticket& ticket) noexcept {
  return sum_of(first(ticket), span());
}

std::uint64_t ReliableRing::sum_of(const Word* words, std::uint32_t count) const noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i)
    total += words[i * stride()].load(std::memory_order_acquire);
  return total;
}

Status ReliableRing::acknowledge(const Ticket& ticket, std::uint64_t fragments) noexcept {
  return write(member(-1), 0, nullptr, 0, 0, (ticket.epoch + 1) << kFragmentBits | fragments,
               nullptr);
}

std::uint64_t ReliableRing::acknowledged(const Ticket& ticket) noexcept {
  const std::uint64_t value = word(0).load(std::memory_order_acquire);
  const std::uint64_t epoch = value >> kFragmentBits;
  if (epoch != ticket.epoch + 1) return epoch > ticket.epoch ? ~std::uint64_t{0} : 0;
  return value & ((1U << kFragmentBits) - 1);
}

// ---- groups

Status ReliableRing::ask(const Ticket& ticket, std::uint64_t group, std::uint32_t fragments,
                         const Key* window) noexcept {
  return write(member(-1), key_place(ticket), window, window == nullptr ? 0 : sizeof *window,
               group_place(false, group), (group + 1) << kGroup | fragments, nullptr);
}

Status ReliableRing::grant(std::uint64_t group, std::uint32_t fragments) noexcept {
  return write(member(1), 0, nullptr, 0, group_place(true, group),
               (group + 1) << kGroup | fragments, nullptr);
}

ReliableRing::GroupWord ReliableRing::read(std::uint64_t word, std::uint64_t group,
                                           std::uint32_t* fragments) noexcept {
  const std::uint64_t number = word >> kGroup;
  *fragments = static_cast<std::uint32_t>(word & ((std::uint64_t{1} << kGroup) - 1));
  if (number == group + 1) return GroupWord::bits;
  return number > group ? GroupWord::more : GroupWord::nothing;
}

ReliableRing::GroupWord ReliableRing::asked(std::uint64_t group,
                                            std::uint32_t* fragments) noexcept {
  return read(word(group_place(false, group)).load(std::memory_order_acquire), group, fragments);
}

ReliableRing::GroupWord ReliableRing::granted(std::uint64_t group,
                                              std::uint32_t* fragments) noexcept {
  return read(word(group_place(true, group)).load(std::memory_order_acquire), group, fragments);
}

std::uint64_t ReliableRing::granted_before() noexcept {
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < kGroups; ++i)
    last = std::max(last, word(group_place(true, i)).load(std::memory_order_acquire) >> kGroup);
  return last;
}

const Key& ReliableRing::window_of_behind(const Ticket& ticket) noexcept {
  return *reinterpret_cast<const Key*>(own(key_place(ticket)));
}

Status ReliableRing::repair(const Remote& window, std::size_t offset, const void* data,
                            std::size_t bytes, std::uint64_t group,
                            Completion* completion) noexcept {
  if (!team_.elided()) return team_.fabric().put(window, offset, data, bytes, nullptr, completion);
  // Without payload there are no keys: what counts is how many bytes travel.
  Inbox& inbox = team_.inbox();
  Remote peer;
  TUTTI_TRY(inbox.remote(member(1), &peer));
  const std::size_t place =
      inbox.inbox_of(member(1)) + inbox.ring_place() + group_place(true, group);
  return team_.fabric().put(peer, place, data, bytes, nullptr, completion);
}

Status ReliableRing::report(int chord, std::uint64_t count) noexcept {
  return write(member(-(1 << chord)), 0, nullptr, 0, report_place(chord), count, nullptr);
}

std::uint64_t ReliableRing::reported(int chord) noexcept {
  return word(report_place(chord)).load(std::memory_order_acquire);
}

Status ReliableRing::survey(int chord, std::uint64_t value) noexcept {
  return write(member(1 << chord), 0, nullptr, 0, survey_place(chord), value, nullptr);
}

std::uint32_t ReliableRing::notice_span() const noexcept {
  return static_cast<std::uint32_t>(2 * kGroups + chords());
}

std::uint64_t ReliableRing::notice_sum() noexcept { return sum_of(first_notice(), notice_span()); }

}  // namespace tutti
