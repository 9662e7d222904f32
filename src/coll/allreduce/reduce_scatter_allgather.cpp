// Allreduce as a reduce-scatter, then an allgather, through shared blocks, chunk by chunk: member i
// folds part i of every chunk in rank order straight out of the others' blocks into a block of its
// own, and all copy the parts together.
//
// Items of a chunk: 2c carries a member's contributions to the others' parts, 2c + 1 its finished
// part.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

struct Chunk {
  std::size_t bytes() const noexcept { return parts.begin(members); }

  std::size_t offset;
  int members;
  Partition parts;
};

Chunk chunk_of(const Call& call, int size, std::size_t chunk, std::uint64_t index) noexcept {
  const std::size_t offset = index * chunk;
  return {offset, size,
          Partition(std::min(chunk, call.bytes - offset), call.reduction->element_bytes, size)};
}

/// Copies what the other members will fold into an own block, and posts it: the parts below the own
/// one, then those above it. Behind them is room for the folded part.
void contribute(Collective& c, const Chunk& chunk, std::uint64_t item, std::byte* block) {
  const Partition& parts = chunk.parts;
  const std::size_t below = parts.begin(c.rank());
  const std::size_t above = parts.begin(c.size()) - parts.begin(c.rank() + 1);
  c.place_shared(block, at(c.call.send, chunk.offset), below);
  c.place_shared(block + below, at(c.call.send, chunk.offset + parts.begin(c.rank() + 1)), above);
  c.stream().post(item, block, below + above);
}

/// Where part `part` lies in the contributions of `member`.
std::size_t place_in_contribution(const Partition& parts, int member, int part) noexcept {
  return part < member ? parts.begin(part) : parts.begin(part) - parts.bytes(member);
}

/// Folds the own part from all members' contributions, and posts it behind the own ones.
Task fold_part(Collective& c, const Chunk& chunk, std::uint64_t item, std::byte* contributions) {
  const std::size_t begin = chunk.parts.begin(c.rank());
  const std::size_t bytes = chunk.parts.bytes(c.rank());
  std::byte* const block = contributions + (chunk.bytes() - bytes);
  // Folding in the receive buffer leaves the result in this core's cache, except where the own
  // operand lies there and is not among the first two.
  std::byte* const result = at(c.call.recv, chunk.offset + begin);
  const bool aside = c.call.send == c.call.recv && c.rank() > 1 && !c.at_once();
  const auto part_of = [&](int member) -> const std::byte* {
    if (member == c.rank()) return at(c.call.send, chunk.offset + begin);
    const std::size_t place = place_in_contribution(chunk.parts, member, c.rank());
    return c.stream().part(item, member, place, bytes);
  };
  Folder fold(c, aside ? block : result, bytes);
  for (int member = 0; member < c.size(); ++member) {
    if (member != c.rank()) co_await c.stream().posted(item, member);
    if (!c.at_once()) fold(part_of(member));
  }
  if (c.at_once()) {
    c.fold_at_once(c.size(), part_of, result, bytes);
  } else {
    fold.finish();
  }
  if (aside) {
    c.place(result, block, bytes);
  } else {
    c.place_shared(block, result, bytes);
  }
  c.stream().post(item + 1, block, bytes);
  co_return Status::success();
}

Task collect(Collective& c, const Chunk& chunk, std::uint64_t item) {
  for (int step = 1; step < c.size(); ++step) {
    const int member = (c.rank() + step) % c.size();
    co_await c.stream().posted(item + 1, member);
    c.place(at(c.call.recv, chunk.offset + chunk.parts.begin(member)),
            c.stream().block(item + 1, member), chunk.parts.bytes(member));
  }
  c.stream().drain(item + 1);
  co_return Status::success();
}

}  // namespace

Task allreduce_reduce_scatter_allgather(Collective& c, SharedBlocks p) {
  const std::size_t size = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  const std::uint64_t count = chunks(c.call.bytes, size);
  co_await c.stream().turn();
  // A chunk's two items share a block, which is theirs until the second has been read: while memory
  // is short a team may have no more than one.
  std::byte *block = nullptr, *next = nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Chunk chunk = chunk_of(c.call, c.size(), size, i);
    if (block == nullptr) {
      if (!c.stream().try_block(2 * i + 1, chunk.bytes(), &block))
        co_await c.stream().wait_block(2 * i + 1, chunk.bytes(), &block);
      contribute(c, chunk, 2 * i, block);
    }
    // The next chunk's contributions go out before this one is waited for, where they may.
    if (i + 1 < count) {
      const Chunk ahead = chunk_of(c.call, c.size(), size, i + 1);
      if (c.stream().try_block(2 * i + 3, ahead.bytes(), &next))
        contribute(c, ahead, 2 * i + 2, next);
    }
    co_await fold_part(c, chunk, 2 * i, block);
    co_await collect(c, chunk, 2 * i);
    block = std::exchange(next, nullptr);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_reduce_scatter_allgather = {
    .coll = Coll::allreduce,
    .name = "reduce_scatter_allgather",
    .run = with_parameters<tutti::allreduce_reduce_scatter_allgather>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<reduce_scatter_allgather_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
    .former_name = "split",
};

}  // namespace algorithm
}  // namespace tutti
