#include "team/letters.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "team/inbox.hpp"
#include "team/team.hpp"

namespace tutti {
namespace {

/// Bytes of the rings of all members together, as far as each is within its bounds.
constexpr std::size_t kAllRings = std::size_t{4} << 20;
constexpr std::size_t kLeastRing = std::size_t{1} << 10;
/// For two letters of 64 KiB; where the network costs no more than copies, for two of 8 KiB
/// (docs/decisions/0078).
constexpr std::size_t kMostRing = std::size_t{160} << 10, kMostWhereCopiesCost = std::size_t{20} << 10;
constexpr std::size_t kBoxesOfShelf = 8;
static_assert(kAllRings / Inbox::kMostMail >= kLeastRing);
/// Simulated ranks share one memory: in larger teams all goes by invitation there.
constexpr int kMostSimulated = 1024;

}  // namespace

/// What a member writes here for this rank.
struct Letters::Line {
  Word said;  // epoch and step in one, so that it grows over both
  Invitation invitation;
  Word taken;  // bytes of its box for this rank that it has taken out
};

/// At its end, a ring of bytes.
struct alignas(kCacheLine) Letters::Box {
  Word filled;  // bytes, by the sender
  std::byte* ring() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

std::size_t Letters::bytes(int size) noexcept {
  return static_cast<std::size_t>(size) * sizeof(Line);
}

/// The same on all members.
std::size_t Letters::ring_bytes() const noexcept {
  const auto members = static_cast<std::size_t>(team_.size());
  const std::size_t most = team_.fabric().traits().bypass ? kMostWhereCopiesCost : kMostRing;
  return std::clamp(kAllRings / members / kCacheLine * kCacheLine, kLeastRing, most);
}
std::size_t Letters::box_bytes() const noexcept { return sizeof(Box) + ring_bytes(); }

// ---- what is kept

/// Of the line there that this rank writes.
std::size_t Letters::place_at(int member) const noexcept {
  const Inbox& inbox = team_.inbox();
  return inbox.inbox_of(member) + inbox.letters_place() +
         static_cast<std::size_t>(team_.rank()) * sizeof(Line);
}

Letters::Line& Letters::line(int member) const noexcept {
  const Inbox& inbox = team_.inbox();
  std::byte* const first = inbox.base_ + inbox.letters_place();
  return *reinterpret_cast<Line*>(first + static_cast<std::size_t>(member) * sizeof(Line));
}

void Letters::clear() noexcept {
  for (int member = 0; member < team_.size(); ++member) new (&line(member)) Line{};
}

/// nullptr: no memory.
Letters::Pair* Letters::pair(int member) noexcept {
  if (!pairs_)
    pairs_.reset(new (std::nothrow) std::unique_ptr<Pair>[static_cast<std::size_t>(team_.size())]);
  if (!pairs_) return nullptr;
  std::unique_ptr<Pair>& known = pairs_[static_cast<std::size_t>(member)];
  if (!known) known.reset(new (std::nothrow) Pair);
  return known.get();
}

const Letters::Pair* Letters::known_pair(int member) const noexcept {
  return pairs_ ? pairs_[static_cast<std::size_t>(member)].get() : nullptr;
}

Status Letters::no_pair() const noexcept { return Status::error(Code::no_memory, "out of memory"); }

bool Letters::go_to(const Ticket& ticket, int member) const noexcept {
  const Pair* const p = known_pair(member);
  return p != nullptr && p->go_since < ticket.epoch;
}

bool Letters::come_from(const Ticket& ticket, int member) const noexcept {
  const Pair* const p = known_pair(member);
  return p != nullptr && p->come_since < ticket.epoch;
}

bool Letters::wants_boxes() const noexcept {
  return !no_more_boxes_ &&
         (!team_.fabric().traits().virtual_time || team_.size() <= kMostSimulated);
}

/// Memory that is never used stays untouched.
bool Letters::add_shelf() noexcept {
  std::unique_ptr<Shelf> shelf(new (std::nothrow) Shelf);
  if (!shelf) return false;
  shelf->boxes = std::min<std::size_t>(kBoxesOfShelf, static_cast<std::size_t>(team_.size() - 1));
  const std::size_t total = shelf->boxes * box_bytes();
  void* const memory =
      mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (!team_.fabric().expose(memory, total, &shelf->region).ok()) {
    munmap(memory, total);
    return false;
  }
  shelf->before = std::move(shelves_);
  shelves_ = std::move(shelf);
  return true;
}

/// nullptr: no memory, or it cannot be registered.
Letters::Box* Letters::take_box(Key* key, std::uint64_t* place) noexcept {
  if (!wants_boxes()) return nullptr;
  const bool full = !shelves_ || shelves_->used == shelves_->boxes;
  if (full && !add_shelf()) {
    no_more_boxes_ = true;
    return nullptr;
  }
  const std::size_t offset = shelves_->used++ * box_bytes();
  *key = shelves_->region.key;
  *place = offset + 1;
  return reinterpret_cast<Box*>(static_cast<std::byte*>(shelves_->region.base) + offset);
}

void Letters::close() noexcept {
  while (shelves_) {
    void* const memory = shelves_->region.base;
    team_.fabric().withdraw(shelves_->region);
    munmap(memory, shelves_->boxes * box_bytes());
    shelves_ = std::move(shelves_->before);
  }
  pairs_.reset();
}

// ---- invitations

Status Letters::invite(const Ticket& ticket, int member, std::uint64_t step,
                       const Place& to) noexcept {
  Pair* const p = pair(member);
  if (p == nullptr) return no_pair();
  p->invitation.to = to;
  std::size_t bytes = sizeof to;
  if (p->come_since == kNever) {  // what is offered is not offered again
    p->box = take_box(&p->invitation.boxes, &p->invitation.box);
    if (p->box != nullptr) p->come_since = ticket.epoch;
    bytes = sizeof p->invitation;
  }
  Remote peer;
  TUTTI_TRY(team_.fabric().arena_of(team_.job_rank(member), &peer));
  const std::size_t place = place_at(member);
  const Tail tail{place + offsetof(Line, said), Inbox::mail_value(ticket, step)};
  return team_.fabric().put(peer, place + offsetof(Line, invitation), &p->invitation, bytes, &tail,
                            nullptr);
}

const Letters::Place& Letters::invitation(int from) const noexcept {
  return line(from).invitation.to;
}

Status Letters::accept(const Ticket& ticket, int from) noexcept {
  Pair* const p = pair(from);
  if (p == nullptr) return no_pair();
  const Invitation& offer = line(from).invitation;
  if (p->go_since != kNever || offer.box == 0) return Status::success();
  TUTTI_TRY(team_.fabric().attach(team_.job_rank(from), offer.boxes, &p->remote));
  p->place = offer.box - 1;
  p->go_since = ticket.epoch;
  return Status::success();
}

Status Letters::say(const Ticket& ticket, int member, std::uint64_t step) noexcept {
  Remote peer;
  TUTTI_TRY(team_.fabric().arena_of(team_.job_rank(member), &peer));
  const Tail tail{place_at(member) + offsetof(Line, said), Inbox::mail_value(ticket, step)};
  return team_.fabric().put(peer, 0, nullptr, 0, &tail, nullptr);
}

bool Letters::has_said(const Ticket& ticket, int from, std::uint64_t step) noexcept {
  return line(from).said.load(std::memory_order_acquire) >= Inbox::mail_value(ticket, step);
}

Engine::Reached Letters::said(const Ticket& ticket, int from, std::uint64_t step) noexcept {
  return team_.engine().reached(line(from).said, Inbox::mail_value(ticket, step), team_.membership(),
                                team_.job_rank(from));
}

// ---- letters

Engine::Reached Letters::room(int member, std::size_t bytes) noexcept {
  const std::uint64_t end = pair(member)->sent + cost(bytes), ring = ring_bytes();
  return team_.engine().reached(line(member).taken, end > ring ? end - ring : 0,
                                team_.membership(), team_.job_rank(member));
}

Status Letters::send(const Ticket& ticket, int member, std::uint32_t number, const void* data,
                     std::size_t bytes, std::byte* memory, Completion* sent) noexcept {
  Pair& p = *pair(member);
  Fabric& fabric = team_.fabric();
  const std::size_t total = cost(bytes), ring = ring_bytes(), begin = p.sent % ring;
  fabric.spend(Work::copy, bytes);
  if (team_.carries(total)) {
    const Header header{ticket.epoch, number, static_cast<std::uint32_t>(bytes)};
    std::memcpy(memory, &header, sizeof header);
    std::memcpy(memory + sizeof header, data, bytes);
  }
  p.sent += total;
  if (p.sent - p.due >= ring / 4) p.due = p.sent;  // as in take_out()
  const Tail tail{p.place, p.sent};
  const std::size_t first = std::min(total, ring - begin), start = p.place + sizeof(Box);
  if (first == total)
    return fabric.put(p.remote, start + begin, memory, total, &tail, sent);
  TUTTI_TRY(fabric.put(p.remote, start + begin, memory, first, nullptr, sent));
  return fabric.put(p.remote, start, memory + first, total - first, &tail, sent);
}

Engine::Reached Letters::arrival(int from) noexcept {
  const Pair& p = *pair(from);
  return team_.engine().reached(p.box->filled, p.taken + 1, team_.membership(),
                                team_.job_rank(from));
}

Engine::Reached Letters::said_or_arrival(const Ticket& ticket, int from,
                                         std::uint64_t step) noexcept {
  const Pair& p = *pair(from);
  return team_.engine().reached_either(&line(from).said, 1, 1, Inbox::mail_value(ticket, step),
                                       p.box->filled, p.taken + 1, team_.membership());
}

Status Letters::look(const Ticket& ticket, int from, const Letter& expected,
                     Letter* out) noexcept {
  const Pair& p = *pair(from);
  const std::size_t ring = ring_bytes(), begin = p.taken % ring;
  Header header{ticket.epoch, expected.number, static_cast<std::uint32_t>(expected.bytes)};
  if (team_.carries(cost(expected.bytes)))
    std::memcpy(&header, p.box->ring() + begin, sizeof header);
  if (header.epoch != ticket.epoch || header.number != expected.number)
    return Status::error(Code::truncated, "a member sends other messages than this one expects");
  if (header.bytes > expected.bytes)
    return Status::error(Code::truncated, "a member sends more than this one's count says");
  const std::size_t start = (begin + sizeof header) % ring;
  out->number = header.number;
  out->bytes = header.bytes;
  out->pieces[0] = p.box->ring() + start;
  out->pieces[1] = p.box->ring();
  out->piece_bytes[0] = std::min(out->bytes, ring - start);
  out->piece_bytes[1] = out->bytes - out->piece_bytes[0];
  return Status::success();
}

Status Letters::take_out(int from, const Letter& letter) noexcept {
  Pair& p = *pair(from);
  p.taken += cost(letter.bytes);
  if (p.taken - p.told < ring_bytes() / 4) return Status::success();
  p.told = p.taken;
  Remote peer;
  TUTTI_TRY(team_.fabric().arena_of(team_.job_rank(from), &peer));
  const Tail tail{place_at(from) + offsetof(Line, taken), p.told};
  return team_.fabric().put(peer, 0, nullptr, 0, &tail, nullptr);
}

bool Letters::settled() noexcept {
  for (int member = 0; member < team_.size(); ++member) {
    const Pair* const p = known_pair(member);
    if (p != nullptr && line(member).taken.load(std::memory_order_acquire) < p->due) return false;
  }
  return true;
}

}  // namespace tutti
