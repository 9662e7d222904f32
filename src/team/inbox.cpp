#include "team/inbox.hpp"

#include <algorithm>
#include <new>

#include "team/reliable_ring.hpp"
#include "team/team.hpp"

namespace tutti {
namespace {

/// The words of the barrier, of the meeting and of the farewell come first, then the blocks of
/// generation 0, 1,
/// ..., the mail slots, the lines of the letters, and the table of the meeting.
constexpr std::size_t kWords =
    (Inbox::kMaxRounds * sizeof(Word) + kCacheLine - 1) / kCacheLine * kCacheLine;
constexpr std::size_t kMeeting = kWords, kFarewell = 2 * kWords, kHead = 3 * kWords;
/// Of the meeting's words, which the member 2^round places behind writes: its table is here; it is
/// leaving.
constexpr std::uint64_t kMet = 1, kLeaving = 2;

/// The word of a mail slot: epoch and step in one, so that it grows over both.
constexpr int kStepBits = 24;
struct MailSlot {
  Word word;
  Key key;
};

std::size_t slot_bytes(bool elided) noexcept { return elided ? sizeof(Word) : sizeof(MailSlot); }

std::size_t mail_bytes(int size, bool elided) noexcept {
  return size > (elided ? Inbox::kMostElidedMail : Inbox::kMostMail)
             ? 0
             : Inbox::kGenerations * static_cast<std::size_t>(size) * slot_bytes(elided);
}
std::size_t lines_bytes(int size, bool elided) noexcept {
  return elided || size > Inbox::kMostMail ? 0 : Letters::bytes(size);
}
std::size_t table_bytes(int size, bool elided) noexcept {
  return elided ? 0 : static_cast<std::size_t>(size) * sizeof(std::uint64_t);
}

int steps_of_degree(int size, int degree) {
  int steps = 0;
  for (std::int64_t reach = 1; reach < size; reach *= degree + 1) ++steps;
  return steps;
}

std::size_t stride_of(std::size_t capacity) {
  // Payload elided: counters lie side by side, or a page would be touched for each of them.
  return capacity == 0 ? sizeof(Word)
                       : (capacity + sizeof(Word) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// What comes before the area of the ring.
std::size_t front_bytes(int size, bool elided) noexcept {
  const auto blocks = static_cast<std::size_t>(Inbox::reduce_blocks(size) + Inbox::kBcastBlocks);
  const std::size_t bytes =
      kHead + Inbox::kGenerations * blocks * stride_of(elided ? 0 : Inbox::kBlockBytes) +
      mail_bytes(size, elided) + lines_bytes(size, elided);
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

Inbox::~Inbox() = default;

FramePool& Inbox::frames() noexcept { return team_.frames(); }

int Inbox::reduce_blocks(int size) noexcept {
  // Asked several times in each collective, mostly for the same team.
  static thread_local int last_size = 0, last_blocks = 0;
  if (size == last_size) return last_blocks;
  int blocks = kBcastBlocks * steps_of_degree(size, 1);
  for (const int degree : {1, 3, 7, 15}) {
    const int children = std::min(degree * steps_of_degree(size, degree), size - 1);
    blocks = std::max(blocks, children);
  }
  last_size = size;
  return last_blocks = blocks;
}

std::size_t Inbox::bytes(int size, bool elided, bool ring) noexcept {
  return front_bytes(size, elided) + (ring ? ReliableRing::bytes(size, elided) : 0) +
         table_bytes(size, elided);
}

std::size_t Inbox::letters_bytes(int size) noexcept {
  return kHead + lines_bytes(size, false) + table_bytes(size, false);
}

bool Inbox::has_ring() const noexcept {
  return !team_.mapped_ && !team_.letters_only_ && team_.fabric().traits().datagram_bytes != 0;
}

std::size_t Inbox::total_bytes() const noexcept {
  if (team_.letters_only_) return letters_bytes(team_.size());
  return bytes(team_.size(), team_.fabric().traits().elided_payload, has_ring());
}

std::size_t Inbox::ring_place() const noexcept { return front_bytes(team_.size(), capacity_ == 0); }

std::size_t Inbox::letters_place() const noexcept {
  if (team_.letters_only_) return kHead;
  return kHead + kGenerations * static_cast<std::size_t>(blocks_) * stride_ +
         mail_bytes(team_.size(), capacity_ == 0);
}

Status Inbox::open() noexcept {
  const bool elided = team_.fabric().traits().elided_payload;
  blocks_ = team_.letters_only_ ? 0 : reduce_blocks(team_.size()) + kBcastBlocks;
  capacity_ = elided ? 0 : kBlockBytes;
  stride_ = stride_of(capacity_);
  const std::size_t total = total_bytes();
  bool fresh = false;
  TUTTI_TRY(team_.resources_.heap.allocate(total, &offset_, &fresh));
  scale_ = team_.fabric().traits().arena_scale;
  base_ = static_cast<std::byte*>(team_.fabric().arena().base) + offset_ * scale_;
  if (!fresh) clear();  // never used memory is zero, and stays untouched until a block is used
  team_.inbox_in_use_ = true;
  finished(team_.next_done_);
  if (team_.mapped_) {
    team_.fabric().signal(team_.job_rank(team_.rank()), team_.own_board_->inbox, offset_ + 1);
    team_.wake_members();
  }
  return Status::success();
}

void Inbox::clear() noexcept {
  for (std::size_t word = 0; word < kHead; word += sizeof(Word)) new (base_ + word) Word(0);
  const bool mail = !team_.letters_only_ && mail_bytes(team_.size(), capacity_ == 0) != 0;
  for (std::uint64_t epoch = 0; mail && epoch < kGenerations; ++epoch) {
    for (int member = 0; member < team_.size(); ++member)
      new (base_ + mail_offset(Ticket{epoch, 0, 0}, member)) MailSlot{};
  }
  for (std::uint64_t epoch = 0; epoch < kGenerations; ++epoch) {
    for (int index = 0; index < blocks_; ++index) new (&tail(Ticket{epoch, 0, 0}, index)) Word(0);
  }
  if (lines_bytes(team_.size(), capacity_ == 0) != 0) letters_.clear();
  if (has_ring()) clear_ring();
}

std::size_t Inbox::block_offset(const Ticket& ticket, int index) const noexcept {
  const std::uint64_t generation = ticket.epoch % kGenerations;
  const auto place =
      generation * static_cast<std::uint64_t>(blocks_) + static_cast<std::uint64_t>(index);
  return kHead + place * stride_;
}

Word& Inbox::tail(const Ticket& ticket, int index) noexcept {
  return word_at(block_offset(ticket, index) + stride_ - sizeof(Word));
}

/// Without a frame where there is nothing to wait for.
Task Inbox::enter(const Ticket& ticket, bool synchronising) noexcept {
  if (base_ == nullptr) {
    if (const Status opened = open(); !opened.ok()) return Task::completed(opened);
  }
  const std::uint64_t epoch = ticket.epoch;
  if (team_.mapped_ || in_order_.load(std::memory_order_acquire) < epoch || !known_free(epoch))
    return wait_to_enter(ticket, synchronising);
  return Task::completed(entered(epoch, synchronising));
}

Task Inbox::wait_to_enter(const Ticket& ticket, bool synchronising) noexcept {
  const std::uint64_t epoch = ticket.epoch;
  if (team_.mapped_) {
    for (int member = 0; member < team_.size(); ++member) {
      const Word& opened = team_.board(member)->inbox;
      co_await team_.engine().reached(opened, 1, team_.membership_, team_.job_rank(member));
    }
    if (epoch >= kGenerations && !team_.all_done(epoch - kGenerations + 1)) {
      co_await team_.wait_done(epoch - kGenerations + 1);
    }
    co_return Status::success();
  }
  co_await team_.engine().reached(in_order_, epoch, team_.membership_);
  if (!known_free(epoch)) co_await end_barrier(epoch);
  co_await entered(epoch, synchronising);
  co_return Status::success();
}

Task Inbox::enter_by_letters(const Ticket& ticket) noexcept {
  if (base_ == nullptr) {
    if (const Status opened = open(); !opened.ok()) return Task::completed(opened);
  }
  if (in_order_.load(std::memory_order_acquire) < ticket.epoch) return wait_for_turn(ticket);
  return Task::completed(passed(ticket.epoch));
}

Task Inbox::wait_for_turn(const Ticket& ticket) noexcept {
  co_await team_.engine().reached(in_order_, ticket.epoch, team_.membership_);
  co_await passed(ticket.epoch);
  co_return Status::success();
}

/// Whether all members have finished the epoch that used the generation of this one before.
bool Inbox::known_free(std::uint64_t epoch) const noexcept {
  return used_[epoch % kGenerations] <= all_finished_;
}

/// Its turn has come, and its generation is free.
Status Inbox::entered(std::uint64_t epoch, bool synchronising) noexcept {
  const std::uint64_t window = epoch / kWindow;
  used_[epoch % kGenerations] = last_used_ = epoch + 1;
  // Before the next epoch enters this one is over here, so that everybody has entered it.
  if (synchronising) all_finished_ = std::max(all_finished_, epoch);
  // The first window uses nothing again, and a synchronising collective tells more than a barrier.
  if (window != 0 && barrier_ <= window && all_finished_ < window * kWindow) {
    barrier_ = window + 1;
    barrier_said_ = 0;
  }
  return advance_barrier();
}

/// Below which epoch all are finished when that barrier has ended.
static std::uint64_t told_by(std::uint64_t barrier) noexcept {
  return barrier < 2 ? 0 : (barrier - 1) * Inbox::kWindow;
}

/// The turn of an epoch that uses no generation: others that do may be among those after it, and
/// want to know of those before.
Status Inbox::passed(std::uint64_t epoch) noexcept {
  const std::uint64_t window = epoch / kWindow;
  if (last_used_ <= window * kWindow && last_used_ > std::max(all_finished_, told_by(barrier_))) {
    barrier_ = window + 1;
    barrier_said_ = 0;
  }
  return advance_barrier();
}

/// A barrier is spread over epochs: each of them says what can be said without waiting.
Status Inbox::advance_barrier() noexcept {
  const int size = team_.size();
  for (; barrier_ != 0 && std::int64_t{1} << barrier_said_ < size; ++barrier_said_) {
    if (barrier_said_ != 0 &&
        barrier_word(barrier_said_ - 1).load(std::memory_order_acquire) < barrier_)
      break;
    const int to = (team_.rank() + (1 << barrier_said_)) % size;
    const std::size_t place = static_cast<std::size_t>(barrier_said_) * sizeof(Word);
    TUTTI_TRY(signal(to, place, barrier_));
  }
  return Status::success();
}

/// One that says that the generation of `epoch`, whose turn it is, is free: the one under way, if
/// it does.
Task Inbox::end_barrier(std::uint64_t epoch) noexcept {
  const int size = team_.size();
  if (told_by(barrier_) < used_[epoch % kGenerations]) {
    barrier_ = epoch / kWindow;
    barrier_said_ = 0;
  }
  for (int round = 0; std::int64_t{1} << round < size; ++round) {
    co_await advance_barrier();
    const int from = (team_.rank() - (1 << round) + size) % size;
    co_await team_.engine().reached(barrier_word(round), barrier_, team_.membership_,
                                    team_.job_rank(from));
  }
  all_finished_ = std::max(all_finished_, told_by(barrier_));
  co_return Status::success();
}

/// A Word of the inbox of `member`, at `place` there.
Status Inbox::signal(int member, std::size_t place, std::uint64_t value) noexcept {
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  const Tail tail{inbox_of(member) + place, value};
  return team_.fabric().put(peer, 0, nullptr, 0, &tail, nullptr);
}

std::size_t Inbox::inbox_of(int member) const noexcept {
  if (team_.mapped_) return team_.board(member)->inbox.load(std::memory_order_acquire) - 1;
  return offsets_.empty() ? offset_ : offsets_[static_cast<std::size_t>(member)];
}

Status Inbox::remote(int member, Remote* out) noexcept {
  return team_.fabric().arena_of(team_.job_rank(member), out);
}

std::size_t Inbox::counter_of(const Ticket& ticket, int member, int index) const noexcept {
  return inbox_of(member) + block_offset(ticket, index) + stride_ - sizeof(Word);
}

Status Inbox::put(const Ticket& ticket, int member, int index, const void* data, std::size_t bytes,
                  Completion* completion) noexcept {
  if (bytes > kBlockBytes) return Status::error(Code::truncated, "larger than an inbox block");
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  const std::size_t counter = counter_of(ticket, member, index);
  const Tail tail{counter, ticket.epoch + 1};
  const std::size_t start = capacity_ == 0 ? counter : counter - bytes;
  return team_.fabric().put(peer, start, data, bytes, &tail, completion);
}

Engine::Reached Inbox::arrival(const Ticket& ticket, int index, int from) noexcept {
  return team_.engine().reached(tail(ticket, index), ticket.epoch + 1, team_.membership_,
                                team_.job_rank(from));
}

std::byte* Inbox::data(const Ticket& ticket, int index, std::size_t bytes) noexcept {
  auto* counter = reinterpret_cast<std::byte*>(&tail(ticket, index));
  return capacity_ == 0 ? base_ : counter - bytes;
}

void Inbox::fill(const Ticket& ticket, int index) noexcept {
  team_.fabric().signal(team_.job_rank(team_.rank()), tail(ticket, index), ticket.epoch + 1);
}

Status Inbox::fetch_counter(const Ticket& ticket, int member, int index, std::uint64_t* out,
                            Completion* completion) noexcept {
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  return team_.fabric().get(peer, counter_of(ticket, member, index), out, sizeof *out, completion);
}

Status Inbox::fetch(const Ticket& ticket, int member, int index, void* out, std::size_t bytes,
                    Completion* completion) noexcept {
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  const std::size_t counter = counter_of(ticket, member, index);
  return team_.fabric().get(peer, capacity_ == 0 ? counter : counter - bytes, out, bytes,
                            completion);
}

// ---- mail
// ----------------------------------------------------------------------------------------

std::uint64_t Inbox::mail_value(const Ticket& ticket, std::uint64_t step) noexcept {
  return (ticket.epoch + 1) << kStepBits | step;
}

std::size_t Inbox::mail_offset(const Ticket& ticket, int member) const noexcept {
  const std::size_t blocks = kGenerations * static_cast<std::size_t>(blocks_) * stride_;
  const std::uint64_t place =
      ticket.epoch % kGenerations * static_cast<std::uint64_t>(team_.size()) +
      static_cast<std::uint64_t>(member);
  return kHead + blocks + place * slot_bytes(capacity_ == 0);
}

Status Inbox::mail(const Ticket& ticket, int member, std::uint64_t step, const Key* key) noexcept {
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  const std::size_t slot = inbox_of(member) + mail_offset(ticket, team_.rank());
  const Tail tail{slot, mail_value(ticket, step)};
  return team_.fabric().put(peer, slot + offsetof(MailSlot, key), key,
                            key == nullptr ? 0 : sizeof *key, &tail, nullptr);
}

Engine::Reached Inbox::mailed(const Ticket& ticket, int from, std::uint64_t step) noexcept {
  return team_.engine().reached(word_at(mail_offset(ticket, from)), mail_value(ticket, step),
                                team_.membership_, team_.job_rank(from));
}

bool Inbox::has_mail(const Ticket& ticket, int from, std::uint64_t step) noexcept {
  return word_at(mail_offset(ticket, from)).load(std::memory_order_acquire) >=
         mail_value(ticket, step);
}

Engine::Reached Inbox::mailed_by(const Ticket& ticket, int from, std::uint64_t step,
                                 std::uint64_t deadline_ns) noexcept {
  return team_.engine().reached_by(word_at(mail_offset(ticket, from)), mail_value(ticket, step),
                                   deadline_ns, team_.membership_, team_.job_rank(from));
}

const Key& Inbox::mail_key(const Ticket& ticket, int from) noexcept {
  return reinterpret_cast<const MailSlot*>(base_ + mail_offset(ticket, from) * scale_)->key;
}

// ---- meeting and farewell
// ------------------------------------------------------------------------

/// Reads the directory of `member` until it has entered the team. Local ends are made without
/// communication, so it may come late: it is asked less and less often.
Task Inbox::look_up(int member, std::size_t* offset) noexcept {
  constexpr std::size_t kRun = 8;                              // entries read at once
  constexpr std::uint64_t kLeast = 50'000, kMost = 5'000'000;  // ns between questions
  Remote arena;
  co_await remote(member, &arena);
  std::byte entries[kRun * sizeof(DirectoryEntry)];
  Engine& engine = team_.engine();
  std::uint64_t pause = kLeast;
  for (std::size_t index = Directory::first_probe(team_.id_);;) {
    const std::size_t count = std::min(kRun, DirectoryTable::kEntries - index);
    Completion read;
    co_await team_.fabric().get(arena, Directory::place_of(index), entries,
                                count * sizeof(DirectoryEntry), &read);
    co_await engine.completed(read, team_.membership_, team_.job_rank(member));
    std::uint64_t place = 0;
    bool found = false;
    if (Directory::inspect(entries, count, team_.id_, &place, &found)) {
      if (found) {
        *offset = place;
        co_return Status::success();
      }
      index = (index + count) % DirectoryTable::kEntries;
      continue;
    }
    const std::uint64_t again = team_.fabric().now_ns() + pause;
    co_await engine.reached(engine.clock(), again, team_.membership_, team_.job_rank(member));
    pause = std::min(2 * pause, kMost);
    index = Directory::first_probe(team_.id_);
  }
}

/// Every member looks up log2 N others; then what is known is doubled in each round (Bruck's
/// allgather).
Task Inbox::meet() noexcept {
  if (meeting_) {
    co_await team_.engine().reached(met_, 1, team_.membership_);
    co_return Status::success();
  }
  meeting_ = true;
  const int size = team_.size();
  const bool elided = capacity_ == 0;
  const std::size_t table = total_bytes() - table_bytes(size, elided);
  auto* known = reinterpret_cast<std::uint64_t*>(base_ + table);  // of this rank, the next one, ...
  known[0] = offset_;
  for (int round = 0, have = 1; have < size; ++round, have *= 2) {
    const int to = (team_.rank() - have + size) % size;
    const int count = std::min(have, size - have);
    std::size_t theirs = 0;
    Remote peer;
    co_await look_up(to, &theirs);
    co_await remote(to, &peer);
    const std::size_t word = kMeeting + static_cast<std::size_t>(round) * sizeof(Word);
    const Tail tail{theirs + word, kMet};
    co_await team_.fabric().put(
        peer, theirs + table + static_cast<std::size_t>(have) * sizeof *known, known,
        static_cast<std::size_t>(count) * sizeof *known, &tail, nullptr);
    co_await team_.engine().reached(word_at(word), kMet, team_.membership_,
                                    team_.job_rank((team_.rank() + have) % size));
  }
  offsets_.resize(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i)
    offsets_[static_cast<std::size_t>((team_.rank() + i) % size)] = known[i];
  met_.store(1, std::memory_order_release);
  co_return Status::success();
}

/// A dissemination barrier: who has heard all rounds knows that every member has got here. A word
/// comes behind all that its writer has put before, so it also ends what nobody has awaited: the
/// puts to members 2^k places behind. Those to members before are the ring's
/// (ReliableRing::acknowledge, report), and there the words go that way too.
bool Inbox::say_farewell() noexcept {
  if (met_.load(std::memory_order_relaxed) == 0) return !meeting_;  // nobody knows this inbox
  if (!letters_.settled()) return false;
  const int size = team_.size();
  const bool both_ways = team_.multicast_ != nullptr;
  for (; std::int64_t{1} << farewells_heard_ < size; ++farewells_heard_) {
    const int distance = 1 << farewells_heard_;
    const std::size_t round = static_cast<std::size_t>(farewells_heard_) * sizeof(Word);
    if (farewells_said_ == farewells_heard_) {
      if (!signal((team_.rank() + distance) % size, kFarewell + round, 1).ok()) return false;
      if (both_ways &&
          !signal((team_.rank() - distance + size) % size, kMeeting + round, kLeaving).ok())
        return false;
      ++farewells_said_;
    }
    if (word_at(kFarewell + round).load(std::memory_order_acquire) == 0) return false;
    if (both_ways && word_at(kMeeting + round).load(std::memory_order_acquire) < kLeaving)
      return false;
  }
  return true;
}

}  // namespace tutti
