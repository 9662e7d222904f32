// The pattern behind most collectives on mapped memory: some members publish a vector, some read.
//
// Three ways to publish, by size: cells (data beside the flag), blocks (copied through shared
// blocks, pipelined) and memory (read from where it is, by cross-memory attach). What a reader does
// with the bytes is the visitor's, and that is all that distinguishes a broadcast from a gather
// here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/task.hpp"
#include "coll/collective.hpp"
#include "coll/pattern/move.hpp"
#include "fabric/fabric.hpp"

namespace tutti {

/// Whose vectors are read: one member's, or all members'.
struct Publishers {
  int first;
  int last;
  int silent = -1;  // a member whose vector only that member reads: it does not publish
  static Publishers only(int member) noexcept { return {member, member + 1}; }
  static Publishers all(const Collective& c) noexcept { return {0, c.size()}; }
  static Publishers all_but(int silent, const Collective& c) noexcept {
    return {0, c.size(), silent};
  }
  bool has(int member) const noexcept {
    return member >= first && member < last && member != silent;
  }
  /// Some need not wait for others, and may run ahead of them.
  bool run_ahead() const noexcept { return last - first == 1 || silent >= 0; }
};

/// Ends a collective through cells when all of them are there: the reader sees visit(member, data).
/// `own`: where this rank's vector is read. Not in its cell if that can be helped: between distant
/// cores the line has gone to the reader, and would have to come back.
template <class Visit>
void read_cells(Collective& c, Publishers publishers, const void* own, std::size_t bytes,
                bool reads, Visit& visit) noexcept {
  for (int member = publishers.first; reads && member < publishers.last; ++member) {
    visit(member,
          member == c.rank() ? static_cast<const std::byte*>(own) : c.cells().data(member, bytes));
  }
  c.finish();
}

/// through_cells from where it first has to wait.
template <class Visit>
Task wait_for_cells(Collective& c, Publishers publishers, bool published, const void* mine,
                    const void* own, std::size_t bytes, bool reads, Visit visit) noexcept {
  if (!published) {
    co_await c.cells().wait_free(bytes);
    c.cells().publish(mine, bytes, !publishers.run_ahead());
  }
  for (int member = publishers.first; reads && member < publishers.last; ++member) {
    if (member != c.rank()) co_await c.cells().published(member, bytes);
  }
  read_cells(c, publishers, own, bytes, reads, visit);
  co_return Status::success();
}

/// `bytes` (at most Team::kCellCapacity) of each publisher, at `mine`, go through its cell. When
/// all of them are there, readers see visit(member, data) in rank order, their own vector included,
/// which is then read at `own`. Makes a coroutine of itself only when it has to wait.
template <class Visit>
Task through_cells(Collective& c, Publishers publishers, const void* mine, const void* own,
                   std::size_t bytes, bool reads, Visit visit) noexcept {
  if (publishers.has(c.rank())) {
    if (!c.cells().free(bytes))
      return wait_for_cells(c, publishers, false, mine, own, bytes, reads, visit);
    c.cells().publish(mine, bytes, !publishers.run_ahead());
  }
  if (publishers.run_ahead()) {
    if (publishers.has(c.rank())) c.cells().prefetch_own(bytes);
    for (int member = publishers.first; reads && member < publishers.last; ++member)
      if (member != c.rank()) c.cells().prefetch(member, bytes);
  }
  if (reads && !c.cells().soon_published(publishers.first, publishers.last, bytes)) {
    return wait_for_cells(c, publishers, true, mine, own, bytes, reads, visit);
  }
  read_cells(c, publishers, own, bytes, reads, visit);
  return Task::completed(Status::success());
}

template <class Visit>
Task through_cells(Collective& c, Publishers publishers, const void* mine, std::size_t bytes,
                   bool reads, Visit visit) noexcept {
  return through_cells(c, publishers, mine, mine, bytes, reads, visit);
}

inline std::uint64_t chunks(std::size_t bytes, std::size_t chunk) noexcept {
  return (bytes + chunk - 1) / chunk;
}

/// What a member publishes: all of a vector but for a block that nobody else reads.
struct Published {
  const void* vector;
  std::size_t unread = 0;  // where that block begins
  std::size_t unread_bytes = 0;

  /// Of a vector with a block of `block` bytes for each member: all but the own one.
  static Published to_others(const Collective& c, const void* vector, std::size_t block) noexcept {
    return {vector, static_cast<std::size_t>(c.rank()) * block, block};
  }
  /// Copies what is read of the chunk at `offset` into a shared block. The others' parts stay where
  /// they are in the chunk, so that a member finds its own at the same place of everybody's.
  void copy(Collective& c, std::size_t offset, std::size_t bytes, std::byte* block) const noexcept {
    const auto* const chunk = static_cast<const std::byte*>(vector) + offset;
    const std::size_t begin = std::clamp(unread, offset, offset + bytes) - offset;
    const std::size_t end = std::clamp(unread + unread_bytes, offset, offset + bytes) - offset;
    if (begin >= end) return c.place_shared(block, chunk, bytes);
    if (begin != 0) c.place_shared(block, chunk, begin);
    if (end != bytes) c.place_shared(block + end, chunk + end, bytes - end);
  }
};

/// The chunks that a member reads: all, none, or those that meet its own part of each vector. It
/// waits for no others, and nobody waits until it has had a look at them.
struct ChunksRead {
  std::uint64_t first = 0, end = ~std::uint64_t{0};

  static ChunksRead all_or_none(bool all) noexcept {
    return all ? ChunksRead{} : ChunksRead{0, 0};
  }
  /// Of the part [begin, begin + bytes).
  static ChunksRead of(std::size_t begin, std::size_t bytes, std::size_t chunk) noexcept {
    return bytes == 0 ? ChunksRead{0, 0} : ChunksRead{begin / chunk, chunks(begin + bytes, chunk)};
  }
};

/// Each publisher's vector of `length(member)` bytes goes through blocks of `chunk` bytes. Readers
/// see visit(member, offset, data, bytes), chunk by chunk and within a chunk in rank order, their
/// own vector included. `items`: chunks of the longest vector.
template <class Length, class Visit>
Task through_blocks(Collective& c, Publishers publishers, Published mine, Length length,
                    std::size_t chunk, ChunksRead read, Visit visit) noexcept {
  co_await c.stream().turn();
  const auto* own = static_cast<const std::byte*>(mine.vector);
  const bool publishes = publishers.has(c.rank());
  const std::uint64_t end = std::min(read.end, c.items());
  // It is done with what it does not read.
  const std::uint64_t passed = read.first < end ? read.first : c.items();
  if (passed != 0) c.stream().drain(passed - 1);
  for (std::uint64_t item = 0; item < c.items(); ++item) {
    const std::size_t offset = item * chunk;
    if (publishes) {
      const std::size_t total = length(c.rank());
      const std::size_t bytes = offset < total ? std::min(chunk, total - offset) : 0;
      std::byte* block = nullptr;
      if (!c.stream().try_block(item, bytes, &block))
        co_await c.stream().wait_block(item, bytes, &block);
      mine.copy(c, offset, bytes, block);
      c.stream().post(item, block, bytes);
    }
    if (item < passed || item >= end) continue;
    for (int member = publishers.first; member < publishers.last; ++member) {
      const std::size_t total = length(member);
      const std::size_t bytes = offset < total ? std::min(chunk, total - offset) : 0;
      if (member == c.rank()) {
        if (bytes != 0) visit(member, offset, own + offset, bytes);
        continue;
      }
      co_await c.stream().posted(item, member);
      if (bytes != 0) visit(member, offset, c.stream().block(item, member), bytes);
    }
    c.stream().drain(item + 1 == end ? c.items() - 1 : item);
  }
  c.finish();
  co_return Status::success();
}

template <class Length, class Visit>
Task through_blocks(Collective& c, Publishers publishers, Published mine, Length length,
                    std::size_t chunk, bool reads, Visit visit) noexcept {
  return through_blocks(c, publishers, mine, std::move(length), chunk,
                        ChunksRead::all_or_none(reads), std::move(visit));
}

/// Each publisher's memory is read in place. Readers see visit(member, remote), which must get()
/// what it wants and returns a Status; starting with the next member, so that not all read the same
/// one at once. Publishers return when everybody has read. One stream item.
template <class Visit>
Task through_memory(Collective& c, Publishers publishers, const void* mine, std::size_t bytes,
                    bool reads, Visit visit) noexcept {
  co_await c.stream().turn();
  const bool publishes = publishers.has(c.rank());
  Region region;
  if (publishes) {
    if (!c.stream().line_free(0)) co_await c.stream().wait_line(0);
    co_await c.team.fabric().expose(const_cast<void*>(mine), bytes, &region);
    c.stream().post_key(0, region.key);
  }
  for (int step = 1; reads && step < c.size(); ++step) {
    const int member = (c.rank() + step) % c.size();
    if (!publishers.has(member)) continue;
    co_await c.stream().posted(0, member);
    Remote remote;
    co_await c.team.fabric().attach(c.team.job_rank(member), c.stream().posted_key(0, member),
                                    &remote);
    co_await visit(member, remote);
  }
  c.stream().drain(0);
  if (publishes) {
    co_await c.stream().wait_drained(0);
    c.team.fabric().withdraw(region);
  }
  c.finish();
  co_return Status::success();
}

}  // namespace tutti
