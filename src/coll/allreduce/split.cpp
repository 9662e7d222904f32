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
  std::size_t offset;
  Partition parts;
};

Chunk chunk_of(const Call& call, int size, std::size_t chunk, std::uint64_t index) noexcept {
  const std::size_t offset = index * chunk;
  return {offset,
          Partition(std::min(chunk, call.bytes - offset), call.reduction->element_bytes, size)};
}

/// Copies what the other members will fold into an own block, and posts it: the parts below the own
/// one, then those above it.
Task contribute(Team& t, const Call& call, const Ticket& k, const Chunk& chunk,
                std::uint64_t item) {
  const Partition& parts = chunk.parts;
  const std::size_t below = parts.begin(t.rank());
  const std::size_t above = parts.begin(t.size()) - parts.begin(t.rank() + 1);
  std::byte* block = nullptr;
  Status status;
  if (!t.try_block(k, item, below + above, &block, &status)) {
    co_await status;
    co_await t.wait_block(k, item, below + above, &block);
  }
  place_shared(t, block, at(call.send, chunk.offset), below);
  place_shared(t, block + below, at(call.send, chunk.offset + parts.begin(t.rank() + 1)), above);
  t.post(k, item, block, below + above);
  co_return Status::success();
}

/// Where part `part` lies in the contributions of `member`.
std::size_t place_in_contribution(const Partition& parts, int member, int part) noexcept {
  return part < member ? parts.begin(part) : parts.begin(part) - parts.bytes(member);
}

/// Folds the own part from all members' contributions, and posts it in an own block.
Task fold_part(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item) {
  const std::size_t begin = chunk.parts.begin(t.rank());
  const std::size_t bytes = chunk.parts.bytes(t.rank());
  std::byte* block = nullptr;
  Status status;
  if (!t.try_block(k, item + 1, bytes, &block, &status)) {
    co_await status;
    co_await t.wait_block(k, item + 1, bytes, &block);
  }
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
    co_await t.posted(k, item, member);
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
    co_await t.posted(k, item + 1, member);
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
  co_await t.turn(k);
  co_await contribute(t, call, k, chunk_of(call, t.size(), size, 0), 0);
  for (std::uint64_t c = 0; c < count; ++c) {
    // The next chunk's contributions go out before this one is waited for.
    if (c + 1 < count) {
      co_await contribute(t, call, k, chunk_of(call, t.size(), size, c + 1), 2 * c + 2);
    }
    const Chunk chunk = chunk_of(call, t.size(), size, c);
    co_await fold_part(t, call, k, chunk, 2 * c);
    co_await collect(t, call, k, chunk, 2 * c);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
