// Collectives of which each rank knows but its own counts, on mapped memory: everybody publishes a
// table of what it sends, and reads the tables of those alone from whom it expects something.
//
// The table is in the sender's cell, with the data if they are so few, else in a block. Each parcel
// goes one of three ways, which its sender chooses: beside the table, in the receiver's time;
// through the ring of chunks at the end of the block, while its receiver reads; or not at all: it
// is read from where it is.
//
// Nobody waits in a circle: tables come first, and wait for nothing of this collective. Parcels
// that take turns in the ring are sent and received by rising distance, chunk by chunk, each chunk
// sent before the one of the same distance is received; so each step waits only for earlier ones.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <new>

#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

constexpr std::size_t kCell = Team::kCellCapacity;
constexpr std::size_t kSlots = 4;         // chunks of the ring
constexpr std::size_t kLeastRing = 1024;  // bytes that a block has for data
constexpr std::size_t kNever = ~std::size_t{0};

enum class Way : std::uint32_t { beside, ring, in_place };

/// A parcel, in the table of its sender. By distance.
struct Entry {
  std::uint32_t distance;
  Way way;
  std::uint64_t place;  // in the cell or block; of the ring: the number of its first chunk; in
                        // place: the offset in the region
  std::uint64_t bytes;
};

/// At the beginning of a cell.
struct Head {
  std::uint64_t entries;
  std::uint64_t block;  // 1 + its offset in the sender's arena; 0: all of it is in the cell
};

/// A chunk of the ring. Both count chunks, from 1.
struct Slot {
  alignas(kCacheLine) Word filled;  // by the sender
  alignas(kCacheLine) Word taken;   // by the receiver of that chunk: one at a time
};

/// At the beginning of a block. A word for each entry follows, which its receiver sets to 1 when it
/// has read a parcel in place; then the entries, the data beside them, and the ring.
struct Block {
  Slot slots[kSlots];
  Key key;  // of the region in which parcels are read in place
  std::uint64_t ring;
  std::uint64_t chunk;  // bytes of a slot

  Word* read() noexcept { return reinterpret_cast<Word*>(this + 1); }
  Entry* entries(std::size_t count) noexcept { return reinterpret_cast<Entry*>(read() + count); }
  static constexpr std::size_t front(std::size_t entries) noexcept {
    return sizeof(Block) + entries * (sizeof(Word) + sizeof(Entry));
  }
};
static_assert(sizeof(Block) % kCacheLine == 0 && sizeof(Entry) % alignof(Word) == 0);

constexpr std::size_t lines(std::size_t bytes) noexcept {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// How this rank's parcels lie in its cell or block.
struct Layout {
  bool in_cell = false;
  std::size_t data = 0;   // where those beside the table begin
  std::size_t most = 0;   // bytes of them that there is room for
  std::size_t ring = 0;   // where the ring begins; its length is what is left
  std::size_t chunk = 0;  // 0: no ring
  std::size_t bytes = 0;  // of the block
  std::size_t least_in_place = kNever;

  Way way(std::size_t parcel, std::size_t used) const noexcept {
    if (parcel >= least_in_place) return Way::in_place;
    return parcel <= most - used ? Way::beside : Way::ring;
  }
};

/// Parcels that are read in place are exposed as one region: from the lowest to the highest byte.
struct Exposed {
  std::byte *begin = nullptr, *end = nullptr;
  std::size_t used = 0;  // bytes of it that are parcels

  std::size_t bytes() const noexcept {  // parcels of different objects: only as numbers
    return reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin);
  }
  /// Where they lie far apart it would be mostly of others' memory, or of none.
  bool is_dense() const noexcept { return bytes() / 2 <= used; }
};

/// Of the parcels from `least` bytes on.
Exposed region_of(std::span<const Parcel> sent, std::size_t least) noexcept {
  Exposed region;
  for (const Parcel& parcel : sent) {
    if (parcel.bytes < least) continue;
    if (region.used == 0 || std::less<>{}(parcel.data, region.begin)) region.begin = parcel.data;
    region.end = std::max(region.end, parcel.data + parcel.bytes, std::less<>{});
    region.used += parcel.bytes;
  }
  return region;
}

/// Bytes of the parcels below `least`.
std::size_t bytes_below(std::span<const Parcel> sent, std::size_t least) noexcept {
  std::size_t sum = 0;
  for (const Parcel& parcel : sent)
    if (parcel.bytes < least && __builtin_add_overflow(sum, parcel.bytes, &sum)) return kNever;
  return sum;
}

/// From how many bytes on parcels are read in place: fewer than `least` where a block has no `room`
/// for the others, since the ring takes turns. A read is a system call.
std::size_t least_in_place(std::span<const Parcel> sent, std::size_t room,
                           std::size_t least) noexcept {
  constexpr std::size_t kLeastRead = 4096;
  if (least == kNever) return kNever;
  std::size_t lower = least;
  while (lower > kLeastRead && bytes_below(sent, lower) > room) lower /= 2;
  if (region_of(sent, lower).is_dense()) return lower;
  return region_of(sent, least).is_dense() ? least : kNever;
}

/// `room`: bytes of a block for data, 0: all there are. `least`: bytes of a parcel that is read in
/// place in any case.
Layout lay_out(const Collective& c, std::size_t room, std::size_t least) noexcept {
  const std::span<const Parcel> sent = c.call.parcels->sent();
  Layout l;
  const std::size_t table = sizeof(Head) + sent.size() * sizeof(Entry);
  const std::size_t all = bytes_below(sent, kNever);
  if (table <= kCell && all <= kCell - table && bytes_below(sent, least) == all) {
    l.in_cell = true;
    l.data = table;
    l.most = all;
    return l;
  }
  l.data = lines(Block::front(sent.size()));
  const std::size_t whole = c.team.block_bytes() - l.data;
  room = room == 0 ? whole : std::clamp(room, std::min(kLeastRing, whole), whole);
  l.least_in_place = least_in_place(sent, room, least);
  const std::size_t copied = bytes_below(sent, l.least_in_place);
  const bool rings = copied > room;
  l.most = rings ? room / 2 / kCacheLine * kCacheLine : copied;
  l.ring = l.data + l.most;
  l.chunk = rings ? (room - l.most) / kSlots / kCacheLine * kCacheLine : 0;
  l.bytes = rings ? l.ring + kSlots * l.chunk : l.data + copied;
  return l;
}

std::uint64_t chunks_of(std::size_t bytes, std::size_t chunk) noexcept {
  return (bytes + chunk - 1) / chunk;
}

/// Whether the rank may send anything at all. Who looks for its table knows.
bool may_send(const Collective& c) noexcept {
  if (c.call.coll == Coll::gatherv) return c.rank() != c.call.root;
  return c.call.coll != Coll::scatterv || c.rank() == c.call.root;
}

/// Writes the table and what lies beside it. `base`: of the cell or block. Charges for the copies.
void write_table(Collective& c, const Layout& l, const std::byte* region, std::byte* base,
                 Entry* entries) noexcept {
  std::size_t used = 0;
  std::uint64_t chunk = 0;
  for (const Parcel& parcel : c.call.parcels->sent()) {
    const Way way = l.way(parcel.bytes, used);
    const auto distance = static_cast<std::uint32_t>(c.call.parcels->distance_to(parcel));
    Entry& entry = *entries++;
    entry = {distance, way, l.data + used, parcel.bytes};
    switch (way) {
      case Way::beside:
        c.place_shared(base + entry.place, parcel.data, parcel.bytes);
        used += parcel.bytes;
        break;
      case Way::ring:
        entry.place = chunk;
        chunk += chunks_of(parcel.bytes, l.chunk);
        break;
      case Way::in_place:
        entry.place = static_cast<std::uint64_t>(parcel.data - region);
        break;
    }
  }
}

/// The sender's side, beyond the table.
struct Outgoing {
  Layout layout;
  Block* block = nullptr;
  const Entry* entries = nullptr;
  std::uint64_t chunk = 0;  // the next one of the ring
};

void write_in_cell(Collective& c, const Layout& l) noexcept {
  std::byte* const cell = c.cells().own(kCell);
  const std::size_t entries = c.call.parcels->sent().size();
  auto* const head = new (cell) Head{entries, 0};
  write_table(c, l, nullptr, cell, reinterpret_cast<Entry*>(head + 1));
  c.team.fabric().wrote(cell, l.data);
  c.cells().publish_composed(kCell);
}

Status write_in_block(Collective& c, std::byte* memory, Window* window, Outgoing* out) noexcept {
  const Layout& l = out->layout;
  const std::size_t count = c.call.parcels->sent().size();
  const Exposed region = region_of(c.call.parcels->sent(), l.least_in_place);
  if (region.used != 0) TUTTI_TRY(window->open(region.begin, region.bytes()));
  Block* const block = new (memory) Block{};
  block->key = window->key();
  block->ring = l.ring;
  block->chunk = l.chunk;
  for (std::size_t i = 0; i < count; ++i) new (block->read() + i) Word{0};
  write_table(c, l, region.begin, memory, block->entries(count));
  c.team.fabric().wrote(memory, l.data);
  out->block = block;
  out->entries = block->entries(count);
  new (c.cells().own(kCell)) Head{count, 1 + c.stream().offset(memory)};
  c.team.fabric().wrote(c.cells().own(kCell), sizeof(Head));
  c.cells().publish_composed(kCell);
  return Status::success();
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

/// What has come for this rank.
struct Incoming {
  const Entry* entry = nullptr;  // nullptr: nothing
  std::byte* base = nullptr;     // of the cell or block
  Block* block = nullptr;
  Word* read = nullptr;

  std::uint64_t chunks() const noexcept {
    return entry == nullptr || entry->way != Way::ring ? 0 : chunks_of(entry->bytes, block->chunk);
  }
};

/// Looks into the table of `member`, which is published, for the parcel number `which` for this
/// rank.
Incoming find_parcel(Collective& c, int member, int distance, std::size_t which) noexcept {
  std::byte* const cell = const_cast<std::byte*>(c.cells().place(member, kCell));
  const Head& head = *reinterpret_cast<const Head*>(cell);
  Incoming in;
  in.base = cell;
  const Entry* first = reinterpret_cast<const Entry*>(&head + 1);
  if (head.block != 0) {
    in.base = c.stream().memory(member, head.block - 1);
    in.block = reinterpret_cast<Block*>(in.base);
    first = in.block->entries(head.entries);
  }
  const auto wanted = static_cast<std::uint32_t>(distance);
  const Entry* const end = first + head.entries;
  const Entry* found = std::lower_bound(
      first, end, wanted, [](const Entry& e, std::uint32_t d) { return e.distance < d; });
  c.team.fabric().look(cell, sizeof(Head));
  if (static_cast<std::size_t>(end - found) <= which || found[which].distance != wanted) return in;
  in.entry = found + which;
  c.team.fabric().look(in.entry, sizeof(Entry));
  if (in.block != nullptr) in.read = in.block->read() + (in.entry - first);
  return in;
}

/// All of it, where it does not come through the ring.
Status take_whole(Collective& c, const Incoming& in, const Parcel& parcel) noexcept {
  if (in.entry == nullptr) return Status::success();
  const Entry& entry = *in.entry;
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
      const std::uint64_t n = in.entry->place + k;
      Slot& slot = in.block->slots[n % kSlots];
      co_await told(c, slot.filled, n + 1, received->member);
      const std::size_t chunk = in.block->chunk, offset = k * chunk;
      const std::size_t bytes = std::min<std::size_t>(chunk, in.entry->bytes - offset);
      const std::byte* const data = in.base + in.block->ring + n % kSlots * chunk;
      c.team.fabric().look(data, bytes);
      c.place(received->data + offset, data, bytes);
      tell(c, received->member, received->member, slot.taken, n + 1);
    }
  }
  co_return Status::success();
}

/// Writes this rank's table, waiting for its cell and for memory.
Task publish_table(Collective& c, Window& window, Outgoing& out) noexcept {
  const Layout& l = out.layout;
  std::byte* block = nullptr;
  if (!l.in_cell && !c.stream().try_block(0, l.bytes, &block))
    co_await c.stream().wait_block(0, l.bytes, &block);
  if (!c.cells().free(kCell)) co_await c.cells().wait_free(kCell);
  if (l.in_cell) {
    write_in_cell(c, l);
  } else {
    co_await write_in_block(c, block, &window, &out);
  }
  co_return Status::success();
}

/// Both sides, by rising distance.
Task exchange_parcels(Collective& c, Outgoing& out) noexcept {
  const Parcels& parcels = *c.call.parcels;
  const std::span<const Parcel> sent = parcels.sent(), received = parcels.received();
  const Entry* entry = out.entries;
  std::size_t to = out.layout.in_cell ? sent.size() : 0, from = 0, which = 0;
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
      co_await c.cells().published(coming->member, kCell);
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

Task run_shared(Collective& c, std::size_t room, std::size_t least_in_place) noexcept {
  Window window(c);
  Outgoing out;
  co_await c.stream().turn();
  if (may_send(c)) {
    out.layout = lay_out(c, room, least_in_place);
    if (out.layout.in_cell && c.cells().free(kCell)) {
      write_in_cell(c, out.layout);  // as few bytes nearly always
    } else {
      co_await publish_table(c, window, out);
    }
  } else {
    out.layout.in_cell = true;
  }
  co_await c.call.parcels->each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
  co_await exchange_parcels(c, out);
  if (out.block != nullptr) co_await await_readers(c, out);
  c.finish();
  co_return Status::success();
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
