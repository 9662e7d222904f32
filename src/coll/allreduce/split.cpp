// Allreduce, split (reduce-scatter, then allgather) through shared blocks, chunk by chunk: member i folds
// part i of every chunk in rank order straight out of the others' blocks into a block of its own, and all
// copy the parts together.
//
// Items of a chunk: 2c carries a member's contributions to the others' parts, 2c + 1 its finished part.
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
  return {offset, Partition(std::min(chunk, call.bytes - offset), call.reduction->element_bytes, size)};
}

/// Copies what the other members will fold into an own block, and posts it.
Task contribute(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item) {
  std::byte* block = nullptr;
  Status status;
  if (!t.try_block(k, item, &block, &status)) {
    TUTTI_CO_TRY(status);
    TUTTI_CO_TRY(co_await t.wait_block(k, item, &block));
  }
  for (int part = 0; part < t.size(); ++part) {
    if (part == t.rank()) continue;
    const std::size_t begin = chunk.parts.begin(part);
    place(t, block + begin, at(call.send, chunk.offset + begin), chunk.parts.bytes(part));
  }
  t.post(k, item, block, chunk.parts.begin(t.size()));
  co_return Status::success();
}

/// Folds the own part from all members' contributions into an own block, and posts it.
Task fold_part(Team& t, const Call& call, const Ticket& k, const Chunk& chunk, std::uint64_t item) {
  std::byte* block = nullptr;
  Status status;
  if (!t.try_block(k, item + 1, &block, &status)) {
    TUTTI_CO_TRY(status);
    TUTTI_CO_TRY(co_await t.wait_block(k, item + 1, &block));
  }
  const std::size_t begin = chunk.parts.begin(t.rank());
  const std::size_t bytes = chunk.parts.bytes(t.rank());
  Folder fold(t, *call.reduction, block, bytes);
  for (int member = 0; member < t.size(); ++member) {
    if (member == t.rank()) {
      fold(at(call.send, chunk.offset + begin));
      continue;
    }
    TUTTI_CO_TRY(co_await t.posted(k, item, member));
    fold(t.block(k, item, member) + begin);
  }
  fold.finish();
  t.post(k, item + 1, block, bytes);
  place(t, at(call.recv, chunk.offset + begin), block, bytes);
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
  TUTTI_CO_TRY(co_await contribute(t, call, k, chunk_of(call, t.size(), size, 0), 0));
  for (std::uint64_t c = 0; c < count; ++c) {
    // The next chunk's contributions go out before this one is waited for.
    if (c + 1 < count) {
      TUTTI_CO_TRY(co_await contribute(t, call, k, chunk_of(call, t.size(), size, c + 1), 2 * c + 2));
    }
    const Chunk chunk = chunk_of(call, t.size(), size, c);
    TUTTI_CO_TRY(co_await fold_part(t, call, k, chunk, 2 * c));
    TUTTI_CO_TRY(co_await collect(t, call, k, chunk, 2 * c));
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
