#include "coll/pattern/cast_windows.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "coll/pattern/direct.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {
namespace {

/// Datagrams that are this many groups apart are taken to have kept their order.
constexpr std::uint64_t kOrdered = 2;

std::uint64_t groups_of_block(std::size_t bytes, std::size_t fragment) noexcept {
  return chunks(chunks(bytes, fragment), ReliableRing::kGroup);
}

std::uint64_t groups_of(std::size_t block, std::size_t total, std::size_t fragment) noexcept {
  return total / block * groups_of_block(block, fragment) +
         groups_of_block(total % block, fragment);
}

}  // namespace

std::uint64_t CastWindows::groups(std::size_t block_bytes, std::size_t total,
                                  std::size_t datagram_bytes) noexcept {
  const std::size_t fragment = Multicast::fragment_bytes(datagram_bytes);
  return fragment == 0 || block_bytes == 0 ? 0 : groups_of(block_bytes, total, fragment);
}

CastWindows::CastWindows(Collective& c, const CastBlocks& blocks, Pacing p) noexcept
    : c_(c),
      blocks_(blocks),
      multicast_(c.team.multicast()),
      ring_(c.team),
      fragment_(Multicast::fragment_bytes(c.team.fabric().traits().datagram_bytes)),
      block_fragments_(chunks(blocks.bytes, fragment_)),
      block_groups_(chunks(block_fragments_, ReliableRing::kGroup)),
      groups_(groups_of(blocks.bytes, blocks.total, fragment_)),
      own_begin_(std::min(
          groups_,
          block_groups_ * static_cast<Group>((c.rank() - blocks.root + c.size()) % c.size()))),
      own_end_(std::min(own_begin_ + block_groups_, groups_)),
      window_(static_cast<Group>(std::max<std::int64_t>(p.window / ReliableRing::kGroup, 1))),
      quarter_(std::max<Group>(window_ / 4, 1)),
      pace_(p.pace),
      patience_ns_(static_cast<std::uint64_t>(p.patience) * 1000),
      cast_(own_begin_),
      next_report_(1) {
  multicast_.deepen(static_cast<int>((window_ + quarter_) * ReliableRing::kGroup));
  const Group room = multicast_.room() / ReliableRing::kGroup;
  ahead_ = std::clamp<Group>(room, quarter_, window_ + quarter_ - 1) - (quarter_ - 1);
}

CastWindows::~CastWindows() {
  if (exposed_) c_.team.fabric().withdraw(region_);
}

// ---- what a message consists of

int CastWindows::root_of(Group g) const noexcept {
  return static_cast<int>((static_cast<Group>(blocks_.root) + g / block_groups_) %
                          static_cast<Group>(c_.size()));
}

std::size_t CastWindows::end_of_block(std::uint64_t block) const noexcept {
  return std::min((block + 1) * blocks_.bytes, blocks_.total);
}

std::uint64_t CastWindows::fragments_of(Group g) const noexcept {
  return std::min<std::uint64_t>(ReliableRing::kGroup,
                                 chunks(end_of_block(g / block_groups_) - offset(g, 0), fragment_));
}

/// Fragments are counted over all blocks.
std::uint64_t CastWindows::first_fragment(Group g) const noexcept {
  return g / block_groups_ * block_fragments_ + g % block_groups_ * ReliableRing::kGroup;
}

/// In the blocks.
std::size_t CastWindows::offset(Group g, int fragment) const noexcept {
  const std::uint64_t in_block =
      g % block_groups_ * ReliableRing::kGroup + static_cast<std::uint64_t>(fragment);
  return g / block_groups_ * blocks_.bytes + in_block * fragment_;
}

/// Of `count` fragments from `fragment` on: all whole, but for the last one of a block.
std::size_t CastWindows::bytes(Group g, int fragment, int count) const noexcept {
  return std::min(static_cast<std::size_t>(count) * fragment_,
                  end_of_block(g / block_groups_) - offset(g, fragment));
}

CastWindows::Bits CastWindows::had(Group g) const noexcept {
  if (g < complete_ || own(g)) return all_of(g);
  return g < complete_ + kGroups ? had_[g % kGroups] : 0;
}

/// What is complete up to here.
void CastWindows::advance() noexcept {
  while (complete_ < groups_ && had(complete_) == all_of(complete_)) {
    had_[complete_ % kGroups] = wanted_[complete_ % kGroups] = 0;
    ++complete_;
    ++moves_;
  }
}

// ---- stage 1: datagrams

Status CastWindows::cast_group(Group g) noexcept {
  const std::uint64_t begin_ns = pace_ != 0 ? c_.team.fabric().now_ns() : 0;
  const auto count = static_cast<int>(fragments_of(g));
  const std::uint64_t first = first_fragment(g);
  for (int i = 0; i < count; ++i) {
    TUTTI_TRY(multicast_.cast(c_.ticket(),
                              static_cast<std::uint32_t>(first + static_cast<unsigned>(i)),
                              blocks_.base + offset(g, i), bytes(g, i, 1)));
  }
  if (pace_ != 0) {
    const std::uint64_t took = bytes(g, 0, count) * 1000 / static_cast<std::uint64_t>(pace_);
    next_cast_ns_ = std::max(next_cast_ns_, begin_ns) + took;
  }
  return Status::success();
}

/// The next own group, if it is its turn.
Status CastWindows::cast() noexcept {
  stalled_ = false;
  deadline_ns_ = 0;
  if (cast_ == own_end_ || settled_ < own_begin_) return Status::success();
  if (pace_ != 0 && c_.team.fabric().now_ns() < next_cast_ns_) {
    deadline_ns_ = next_cast_ns_;
    return Status::success();
  }
  if (!may_cast(cast_)) {
    stalled_ = true;
    deadline_ns_ = missed_ns_ + patience_ns_;
    return Status::success();
  }
  TUTTI_TRY(cast_group(cast_));
  ++cast_;
  ++moves_;
  return Status::success();
}

void CastWindows::accept(const MulticastPacket& packet) noexcept {
  // Packets have the low half of a fragment's number.
  const std::uint64_t near = first_fragment(complete_);
  const std::uint64_t number =
      near + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                 static_cast<std::int32_t>(packet.sequence - static_cast<std::uint32_t>(near))));
  const std::uint64_t block = number / block_fragments_;
  const std::uint64_t in_block = number % block_fragments_;
  const Group begin = block * block_groups_, g = begin + in_block / ReliableRing::kGroup;
  const auto fragment = static_cast<int>(in_block % ReliableRing::kGroup);
  if (g >= groups_ || static_cast<unsigned>(fragment) >= fragments_of(g) ||
      packet.bytes != bytes(g, fragment, 1) ||
      packet.sender != static_cast<std::uint32_t>(root_of(g))) {
    ++multicast_.counts().damaged;  // whoever sent it means another message
    return;
  }
  const bool last = offset(g, fragment) + packet.bytes == end_of_block(block);
  const Group over = last ? g + 1 : std::max(begin, g + 1 - std::min(g + 1, kOrdered));
  if (over > seen_) {
    seen_ = over;
    ++moves_;
  }
  const Bits bit = Bits{1} << fragment;
  if (g < asked_ || (had(g) & bit) != 0) return;  // twice, or it will come by a put
  if (g >= complete_ + kGroups) {
    ++multicast_.counts().lost;
    return;
  }
  c_.place(blocks_.base + offset(g, fragment), packet.data, packet.bytes);
  ++multicast_.counts().taken;
  had_[g % kGroups] |= bit;
  advance();
}

/// Once all is settled, whatever comes is of later messages.
void CastWindows::take_casts() noexcept {
  while (settled_ != groups_) {
    const MulticastPacket* const packet = multicast_.next(c_.ticket());
    if (packet == nullptr) return;
    accept(*packet);
  }
}

/// `granted`: what the one before had said before the datagrams were taken.
void CastWindows::settle(std::uint64_t granted) noexcept {
  const Group said = granted > c_.ticket().first_item ? granted - c_.ticket().first_item : 0;
  const Group most = cast_ == own_end_ ? groups_ : cast_;
  const Group now = std::min(std::max({seen_, complete_, said}), most);
  if (now <= settled_) return;
  settled_ = now;
  ++moves_;
}

// ---- stage 2: the ring

Status CastWindows::ask() noexcept {
  // The word of a group is used again when the one that had it before is complete: so the member
  // before, if it comes late, knows that nothing was missing there.
  while (asked_ < settled_ && asked_ < complete_ + kGroups) {
    const Group g = asked_++;
    ++moves_;
    if (own(g)) continue;
    const Bits missing = all_of(g) & ~had(g);
    const Key* key = nullptr;
    if (missing != 0) {
      wanted_[g % kGroups] = missing;
      if (!exposed_) {
        TUTTI_TRY(c_.team.fabric().expose(blocks_.base, blocks_.total, &region_));
        exposed_ = true;
        key = &region_.key;
      }
    }
    TUTTI_TRY(ring_.ask(c_.ticket(), number(g), missing, key));
  }
  return Status::success();
}

void CastWindows::take_puts() noexcept {
  const Group end = std::min(asked_, complete_ + kGroups);
  for (Group g = complete_; g < end; ++g) {
    const Bits wanted = wanted_[g % kGroups] & ~had_[g % kGroups];
    if (wanted == 0) continue;
    Bits put = 0;
    const ReliableRing::GroupWord told = ring_.granted(number(g), &put);
    if (told == ReliableRing::GroupWord::nothing) continue;
    if (told == ReliableRing::GroupWord::more)
      put = wanted;  // its word is used again when all has been put
    had_[g % kGroups] |= wanted & put;
    multicast_.counts().repaired += static_cast<unsigned>(std::popcount(wanted & put));
  }
  advance();
}

Status CastWindows::put(Group g, Bits fragments) noexcept {
  if (!attached_ && !c_.team.elided()) {
    TUTTI_TRY(c_.team.fabric().attach(c_.team.job_rank((c_.rank() + 1) % c_.size()),
                                      ring_.window_of_behind(c_.ticket()), &window_behind_));
    attached_ = true;
  }
  for (int first = 0; fragments >> first != 0;) {
    first += std::countr_zero(fragments >> first);
    const int run = std::countr_one(fragments >> first);
    const std::size_t begin = offset(g, first);
    TUTTI_TRY(ring_.repair(window_behind_, begin, blocks_.base + begin, bytes(g, first, run),
                           number(g), &sent_));
    first += run;
  }
  given_[g % kGroups] |= fragments;
  ++moves_;
  return ring_.grant(number(g), given_[g % kGroups]);
}

/// `*served`: the one behind has all of the group, or has been put what it lacked.
Status CastWindows::serve_group(Group g, bool* served) noexcept {
  const int behind = (c_.rank() + 1) % c_.size();
  *served = root_of(g) == behind;
  if (*served) {
    if (g == told_) ++told_;
    return Status::success();
  }
  Bits asked = 0;
  const ReliableRing::GroupWord told = ring_.asked(number(g), &asked);
  if (told == ReliableRing::GroupWord::nothing) {
    // A root lets its datagrams arrive before it says that they should have.
    const bool arriving = own(g) && g + 1 == cast_ && cast_ != own_end_ && !stalled_;
    if (g != told_ || g >= settled_ || arriving) return Status::success();
    ++told_;
    ++moves_;
    return ring_.grant(number(g), 0);
  }
  if (g == told_) ++told_;
  if (told == ReliableRing::GroupWord::bits) {
    const Bits now = asked & ~given_[g % kGroups] & had(g);
    if (now != 0) TUTTI_TRY(put(g, now));
  }
  *served = told == ReliableRing::GroupWord::more || (asked & ~given_[g % kGroups]) == 0;
  return Status::success();
}

Status CastWindows::serve() noexcept {
  // The word of a group is used again when the one that had it before is served: so the member
  // behind knows that it has been put all that it wanted of that.
  for (Group g = served_; g < std::min(groups_, served_ + kGroups); ++g) {
    bool served = false;
    TUTTI_TRY(serve_group(g, &served));
    if (!served || g != served_) continue;
    given_[g % kGroups] = 0;
    ++served_;
    ++moves_;
  }
  told_ = std::max(told_, served_);
  return Status::success();
}

// ---- reports

/// Who wants to know that all groups below `settled` are: the root of what may be cast then.
int CastWindows::reader_of(Group settled) const noexcept {
  return root_of(std::min(groups_ - 1, settled + window_ - 1));
}

/// `place`: of this rank in the tree. True also where those that have not reported are given up.
bool CastWindows::children_have_settled(int place, Group settled) noexcept {
  const std::uint64_t wanted = number(settled);
  const int branches =
      place == 0 ? ReliableRing::chords(c_.size()) : std::countr_zero(unsigned(place));
  const auto missing = [&](int chord) {
    const std::uint64_t count = ring_.reported(chord);
    return count < wanted && given_up_[chord] != count + 1;
  };
  int chord = 0;
  const int end =
      std::min(branches, static_cast<int>(std::bit_width(unsigned(c_.size() - 1 - place))));
  while (chord < end && !missing(chord)) ++chord;
  if (chord != end) {
    const std::uint64_t now = c_.team.fabric().now_ns();
    if (missed_ns_ == 0) missed_ns_ = now;
    if (now - missed_ns_ < patience_ns_) return false;
    for (; chord < end; ++chord)
      if (missing(chord)) given_up_[chord] = ring_.reported(chord) + 1;
  }
  missed_ns_ = 0;
  return true;
}

bool CastWindows::may_cast(Group g) noexcept {
  const Group settled = g < ahead_ ? 0 : (g - ahead_ + 1) / quarter_ * quarter_;
  if (settled == 0 || reader_of(settled) != c_.rank()) return true;
  return children_have_settled(0, settled);
}

Status CastWindows::report() noexcept {
  for (;;) {
    const Group boundary = next_report_ * quarter_;
    if (boundary >= groups_ || settled_ < boundary || settled_ == groups_) return Status::success();
    const int place = (c_.rank() - reader_of(boundary) + c_.size()) % c_.size();
    if (place != 0) {
      if (!children_have_settled(place, boundary)) return Status::success();
      TUTTI_TRY(ring_.report(std::countr_zero(unsigned(place)), number(boundary)));
    }
    ++next_report_;
    ++moves_;
  }
}

// ---- all of it

Status CastWindows::step() noexcept {
  const std::uint64_t granted = ring_.granted_before();
  take_casts();
  settle(granted);
  TUTTI_TRY(ask());
  take_puts();
  TUTTI_TRY(cast());
  TUTTI_TRY(serve());
  return report();
}

/// Awaits words of the neighbours, and datagrams or the time for the next ones.
Engine::Reached CastWindows::news(std::uint64_t told, std::uint64_t arrivals) noexcept {
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  Engine& engine = c_.team.engine();
  const bool timed = deadline_ns_ != 0;
  const Word& other = timed ? engine.clock() : multicast_.arrivals();
  const std::uint64_t value = timed ? deadline_ns_ : settled_ == groups_ ? kNever : arrivals + 1;
  return engine.reached_either(ring_.first_notice(), ring_.notice_span(), ring_.stride(), told + 1,
                               other, value, c_.team.membership());
}

Task CastWindows::run() noexcept {
  advance();
  while (!over()) {
    // Read before looking: what comes after the look makes them grow.
    const std::uint64_t arrivals = multicast_.arrivals().load(std::memory_order_acquire);
    const std::uint64_t told = ring_.notice_sum(), moves = moves_;
    co_await step();
    if (moves_ == moves && !over()) co_await news(told, arrivals);
  }
  co_await c_.completed(sent_);
  co_return Status::success();
}

}  // namespace tutti
