// Collectives of which each rank knows but its own counts, on mapped memory: everybody publishes a
// table of what it sends (tables.hpp), and reads the tables of those alone from whom it expects
// something.
//
// Nobody waits in a circle: tables come first, and wait for nothing of this collective. Parcels
// that take turns in the ring are sent and received by rising distance, chunk by chunk, each chunk
// sent before the one of the same distance is received; so each step waits only for earlier ones.
#include <algorithm>
#include <cstdint>

#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/parcels/tables.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

using namespace tables;

/// Whether the rank may send anything at all. Who looks for its table knows.
bool may_send(const Collective& c) noexcept {
  if (c.call.coll == Coll::gatherv) return c.rank() != c.call.root;
  return c.call.coll != Coll::scatterv || c.rank() == c.call.root;
}

/// Tells a member of a word in a block.
void tell(Collective& c, int owner, int reader, Word& word, std::uint64_t value) noexcept {
  Fabric& fabric = c.team.fabric();
  fabric.signal(c.team.job_rank(owner), word, value);
  if (fabric.sleepers()) fabric.wake_reader(c.team.job_rank(reader));
}

Engine::Reached told(Collective& c, const Word& word, std::uint64_t value, int by) noexcept {
  return c.team.engine().reached(word, value, c.team.membership(), c.team.job_rank(by));
}

/// All of it, where it does not come through the ring.
Status take_whole(Collective& c, const Incoming& in, const Parcel& parcel) noexcept {
  if (!in.any) return Status::success();
  const Entry& entry = in.entry;
  if (entry.bytes > parcel.bytes)
    return Status::error(Code::truncated, "a member sends more than this one's count says");
  if (entry.way == Way::ring) return Status::success();
  if (entry.way == Way::beside) {
    c.team.fabric().look(in.base + entry.place, entry.bytes);
    c.place(parcel.data, in.base + entry.place, entry.bytes);
    return Status::success();
  }
  Remote remote;
  TUTTI_TRY(c.team.fabric().attach(c.team.job_rank(parcel.member), in.block->key, &remote));
  TUTTI_TRY(read_now(c, remote, entry.place, parcel.data, entry.bytes));
  tell(c, parcel.member, parcel.member, *in.read, 1);
  return Status::success();
}

/// A parcel to one member and what comes from another, at the same distance, of which at least one
/// goes through a ring.
Task exchange_chunks(Collective& c, Outgoing& out, const Parcel* sent, const Incoming& in,
                     const Parcel* received) noexcept {
  const std::uint64_t coming = in.chunks();
  const std::uint64_t going = sent == nullptr ? 0 : chunks_of(sent->bytes, out.layout.chunk);
  for (std::uint64_t k = 0; k < std::max(going, coming); ++k) {
    if (k < going) {
      const std::uint64_t n = out.chunk++;
      Slot& slot = out.block->slots[n % kSlots];
      // Whoever was to read the slot before: any member's loss ends the wait.
      if (n >= kSlots)
        co_await c.team.engine().reached(slot.taken, n - kSlots + 1, c.team.membership());
      const std::size_t chunk = out.layout.chunk, offset = k * chunk;
      std::byte* const place =
          reinterpret_cast<std::byte*>(out.block) + out.layout.ring + n % kSlots * chunk;
      c.place_shared(place, sent->data + offset, std::min(chunk, sent->bytes - offset));
      tell(c, c.rank(), sent->member, slot.filled, n + 1);
    }
    if (k < coming) {
      const std::uint64_t n = in.entry.place + k;
      Slot& slot = in.block->slots[n % kSlots];
      co_await told(c, slot.filled, n + 1, received->member);
      const std::size_t chunk = in.block->chunk, offset = k * chunk;
      const std::size_t bytes = std::min<std::size_t>(chunk, in.entry.bytes - offset);
      const std::byte* const data = in.base + in.block->ring + n % kSlots * chunk;
      c.team.fabric().look(data, bytes);
      c.place(received->data + offset, data, bytes);
      tell(c, received->member, received->member, slot.taken, n + 1);
    }
  }
  co_return Status::success();
}

/// The cell in which a table is, or which says where its block is.
std::size_t cell_of(const Layout& l) noexcept {
  return l.table == Table::cell ? kCell : SmallTable::kBytes;
}

/// Publishes a table that goes into a cell, which must be free.
void publish_in_cell(Collective& c, const Layout& l) noexcept {
  l.table == Table::cell ? write_in_cell(c, l) : SmallTable::publish(c);
}

/// Publishes this rank's table, waiting for its cell and for memory.
Task publish_table(Collective& c, Window& window, Outgoing& out) noexcept {
  const Layout& l = out.layout;
  std::byte* block = nullptr;
  if (l.table == Table::block && !c.stream().try_block(0, l.bytes, &block))
    co_await c.stream().wait_block(0, l.bytes, &block);
  if (!c.cells().free(cell_of(l))) co_await c.cells().wait_free(cell_of(l));
  if (l.table == Table::block) co_return write_in_block(c, block, &window, &out);
  publish_in_cell(c, l);
  co_return Status::success();
}

/// Both sides, by rising distance.
Task exchange_parcels(Collective& c, Outgoing& out) noexcept {
  const Parcels& parcels = *c.call.parcels;
  const std::span<const Parcel> sent = parcels.sent(), received = parcels.received();
  const Entry* entry = out.entries;
  std::size_t to = out.block == nullptr ? sent.size() : 0, from = 0, which = 0;
  while (to < sent.size() || from < received.size()) {
    const int far = to < sent.size() ? parcels.distance_to(sent[to]) : c.size();
    const int near = from < received.size() ? parcels.distance_from(received[from]) : c.size();
    const Parcel* const coming = near <= far ? &received[from++] : nullptr;
    const Parcel* going = nullptr;
    if (far <= near) {
      going = entry->way == Way::ring ? &sent[to] : nullptr;
      ++to;
      ++entry;
    }
    Incoming in;
    if (coming != nullptr) {
      co_await c.cells().either_published(coming->member);
      in = find_parcel(c, coming->member, near, which);
      which = from < received.size() && received[from].member == coming->member ? which + 1 : 0;
      co_await take_whole(c, in, *coming);
    }
    if (going != nullptr || in.chunks() != 0) co_await exchange_chunks(c, out, going, in, coming);
  }
  co_return Status::success();
}

/// Awaits that what others read in place has been read.
Task await_readers(Collective& c, Outgoing& out) noexcept {
  const std::span<const Parcel> sent = c.call.parcels->sent();
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (out.entries[i].way == Way::in_place)
      co_await told(c, out.block->read()[i], 1, sent[i].member);
  }
  co_return Status::success();
}

Status keep_own(Collective& c) noexcept {
  return c.call.parcels->each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
}

/// What run_shared() has done at once: published the own table, if any, and kept what is the own.
enum class Done : std::uint8_t { nothing, publishing, keeping };

/// From where it first has to wait, or a table is in a block.
Task exchange_tables(Collective& c, Layout own, Done done) noexcept {
  Window window(c);
  Outgoing out;
  out.layout = own;
  co_await c.stream().turn();
  if (done == Done::nothing) co_await publish_table(c, window, out);
  if (done != Done::keeping) co_await keep_own(c);
  co_await exchange_parcels(c, out);
  if (out.block != nullptr) co_await await_readers(c, out);
  c.finish();
  co_return Status::success();
}

/// What a cell takes whose sender has such a parcel for nobody else.
std::size_t least_in_cell(std::size_t bytes) noexcept {
  const std::size_t small = SmallTable::least_for(bytes);
  const std::size_t large = sizeof(Head) + sizeof(Entry) + bytes;
  if (small <= SmallTable::kBytes) return small;
  return large <= kCell ? large : sizeof(SmallTable);
}

/// Asks for the lines of the next cells where senders or receivers may run ahead.
void prefetch_tables(Collective& c) noexcept {
  const Parcels& parcels = *c.call.parcels;
  if (c.call.coll == Coll::gatherv) {
    for (const Parcel& parcel : parcels.sent())
      c.cells().prefetch_own(least_in_cell(parcel.bytes));
  } else if (c.call.coll == Coll::scatterv) {
    if (!parcels.sent().empty()) c.cells().prefetch_own(SmallTable::kBytes);
  } else {
    return;
  }
  for (const Parcel& parcel : parcels.received())
    c.cells().prefetch(parcel.member, least_in_cell(parcel.bytes));
}

/// Receives all parcels if their tables are in cells, now or soon (Engine::soon). False: not so.
bool receive_from_cells(Collective& c, Status* status) noexcept {
  const Parcels& parcels = *c.call.parcels;
  const std::span<const Parcel> received = parcels.received();
  for (const Parcel& parcel : received) {
    if (!c.cells().either_soon_published(parcel.member) ||
        (c.cells().is_published(parcel.member, SmallTable::kBytes) &&
         !SmallTable::of(c, parcel.member).is_here()))
      return false;
  }
  std::size_t which = 0;
  for (std::size_t i = 0; i < received.size() && status->ok(); ++i) {
    const Parcel& parcel = received[i];
    which = Parcels::same_member(received, i, 1) ? which + 1 : 0;
    const int distance = parcels.distance_from(parcel);
    *status = take_whole(c, find_parcel(c, parcel.member, distance, which), parcel);
  }
  return true;
}

/// Makes a coroutine of itself only when it has to wait, or a table is in a block.
Task run_shared(Collective& c, std::size_t room, std::size_t least_in_place) noexcept {
  const bool publishes = may_send(c);
  const Layout own = publishes ? lay_out(c, room, least_in_place) : Layout{};
  if (!c.stream().has_turn() ||
      (publishes && (own.table == Table::block || !c.cells().free(cell_of(own)))))
    return exchange_tables(c, own, publishes ? Done::nothing : Done::publishing);
  if (publishes) publish_in_cell(c, own);
  prefetch_tables(c);
  Status status = keep_own(c);
  if (status.ok() && !receive_from_cells(c, &status))
    return exchange_tables(c, own, Done::keeping);
  if (status.ok()) c.finish();
  return Task::completed(status);
}

/// Of the algorithm that reads in place.
struct InPlace {
  std::int64_t least = 32768;
};
constexpr ParameterList kInPlace = parameters_of<InPlace>(
    {{&InPlace::least, "least", "bytes", 1, Parameter::kMost, "least: 1 or more"}});

Task parcels_blocks(Collective& c, SharedBlocks p) {
  return run_shared(c, static_cast<std::size_t>(p.block), kNever);
}
Task parcels_cma(Collective& c, InPlace p) {
  return run_shared(c, 0, static_cast<std::size_t>(p.least));
}

const char* tables_fit(const Shape& s) {
  if (!s.mapped) return "members do not share memory";
  const std::size_t each = has_neighbours(s.coll) ? Parcels::kMostEach : 1;
  const std::size_t front = lines(Block::front(each * static_cast<std::size_t>(s.size)));
  return front + kLeastRing <= s.block_bytes
             ? nullptr
             : "blocks are too small for a table of so many members (TUTTI_BLOCK)";
}
const char* tables_fit_and_memory(const Shape& s) {
  if (const char* why = by_memory(s)) return why;
  return tables_fit(s);
}

constexpr Algorithm through_blocks_of(Coll coll) {
  return {.coll = coll,
          .name = "blocks",
          .run = with_parameters<parcels_blocks>,
          .restriction_of = with_parameters<tables_fit>,
          .items = with_parameters<one_item>,
          .parameters = kSharedBlocks,
          .source = "shared memory"};
}
constexpr Algorithm in_place_of(Coll coll) {
  return {.coll = coll,
          .name = "cma",
          .run = with_parameters<parcels_cma>,
          .restriction_of = with_parameters<tables_fit_and_memory>,
          .items = with_parameters<one_item>,
          .parameters = kInPlace,
          .source = "cross-memory attach"};
}

}  // namespace

namespace algorithm {

const Algorithm gatherv_blocks = through_blocks_of(Coll::gatherv);
const Algorithm gatherv_cma = in_place_of(Coll::gatherv);
const Algorithm scatterv_blocks = through_blocks_of(Coll::scatterv);
const Algorithm scatterv_cma = in_place_of(Coll::scatterv);
const Algorithm alltoallv_blocks = through_blocks_of(Coll::alltoallv);
const Algorithm alltoallv_cma = in_place_of(Coll::alltoallv);
const Algorithm alltoallw_blocks = through_blocks_of(Coll::alltoallw);
const Algorithm alltoallw_cma = in_place_of(Coll::alltoallw);
const Algorithm neighbor_allgather_blocks = through_blocks_of(Coll::neighbor_allgather);
const Algorithm neighbor_allgather_cma = in_place_of(Coll::neighbor_allgather);
const Algorithm neighbor_allgatherv_blocks = through_blocks_of(Coll::neighbor_allgatherv);
const Algorithm neighbor_allgatherv_cma = in_place_of(Coll::neighbor_allgatherv);
const Algorithm neighbor_alltoall_blocks = through_blocks_of(Coll::neighbor_alltoall);
const Algorithm neighbor_alltoall_cma = in_place_of(Coll::neighbor_alltoall);
const Algorithm neighbor_alltoallv_blocks = through_blocks_of(Coll::neighbor_alltoallv);
const Algorithm neighbor_alltoallv_cma = in_place_of(Coll::neighbor_alltoallv);
const Algorithm neighbor_alltoallw_blocks = through_blocks_of(Coll::neighbor_alltoallw);
const Algorithm neighbor_alltoallw_cma = in_place_of(Coll::neighbor_alltoallw);

}  // namespace algorithm
}  // namespace tutti
