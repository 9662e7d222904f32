// Allreduce, split (reduce-scatter, then allgather) through shared blocks, chunk by chunk: member i
// folds part i of every chunk in rank order straight out of the others' blocks into a block of its
// own, and all copy the parts together.
//
// Items of a chunk: 2c carries a member's contributions to the others' parts, 2c + 1 its finished
// part.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

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
void contribute(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item,
                std::byte* block) {
  const Partition& parts = chunk.parts;
  const std::size_t below = parts.begin(t.rank());
  const std::size_t above = parts.begin(t.size()) - parts.begin(t.rank() + 1);
  place_shared(t, block, at(call.send, chunk.offset), below);
  place_shared(t, block + below, at(call.send, chunk.offset + parts.begin(t.rank() + 1)), above);
  t.post(k, item, block, below + above);
}

/// Where part `part` lies in the contributions of `member`.
std::size_t place_in_contribution(const Partition& parts, int member, int part) noexcept {
  return part < member ? parts.begin(part) : parts.begin(part) - parts.bytes(member);
}

/// Folds the own part from all members' contributions, and posts it behind the own ones.
Task fold_part(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item,
               std::byte* contributions) {
  const std::size_t begin = chunk.parts.begin(t.rank());
  const std::size_t bytes = chunk.parts.bytes(t.rank());
  std::byte* const block = contributions + (chunk.parts.begin(t.size()) - bytes);
  // Folding in the receive buffer leaves the result in this core's cache, except where the own
  // operand lies there and is not among the first two.
  std::byte* const result = at(call.recv, chunk.offset + begin);
  const bool aside = call.send == call.recv && t.rank() > 1;
  Folder fold(t, *call.reduction, aside ? block : result, bytes);
  for (int member = 0; member < t.size(); ++member) {
    if (member == t.rank()) {
      fold(at(call.send, chunk.offset + begin));
      continue;
    }
    TUTTI_CO_TRY(co_await t.posted(k, item, member));
    fold(t.block(k, item, member) + place_in_contribution(chunk.parts, member, t.rank()));
  }
  fold.finish();
  if (aside) {
    place(t, result, block, bytes);
  } else {
    place_shared(t, block, result, bytes);
  }
  t.post(k, item + 1, block, bytes);
  co_return Status::success();
}

Task collect(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item) {
  for (int step = 1; step < t.size(); ++step) {
    const int member = (t.rank() + step) % t.size();
    TUTTI_CO_TRY(co_await t.posted(k, item + 1, member));
    place(t, at(call.recv, chunk.offset + chunk.parts.begin(member)), t.block(k, item + 1, member),
          chunk.parts.bytes(member));
  }
  t.drain(k, item + 1);
  co_return Status::success();
}

}  // namespace

Task allreduce_split(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const std::size_t size = whole_elements(block_parameter(t, p), call.reduction->element_bytes);
  const std::uint64_t count = chunks(call.bytes, size);
  TUTTI_CO_TRY(co_await t.turn(k));
  // A chunk's two items share a block, which is theirs until the second has been read: while memory
  // is short a team may have no more than one.
  std::byte *block = nullptr, *next = nullptr;
  for (std::uint64_t c = 0; c < count; ++c) {
    const Chunk chunk = chunk_of(call, t.size(), size, c);
    if (block == nullptr) {
      if (!t.try_block(k, 2 * c + 1, chunk.bytes(), &block))
        TUTTI_CO_TRY(co_await t.wait_block(k, 2 * c + 1, chunk.bytes(), &block));
      contribute(t, call, k, chunk, 2 * c, block);
    }
    // The next chunk's contributions go out before this one is waited for, where they may.
    if (c + 1 < count) {
      const Chunk ahead = chunk_of(call, t.size(), size, c + 1);
      if (t.try_block(k, 2 * c + 3, ahead.bytes(), &next))
        contribute(t, call, k, ahead, 2 * c + 2, next);
    }
    TUTTI_CO_TRY(co_await fold_part(t, call, k, chunk, 2 * c, block));
    TUTTI_CO_TRY(co_await collect(t, call, k, chunk, 2 * c));
    block = std::exchange(next, nullptr);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
