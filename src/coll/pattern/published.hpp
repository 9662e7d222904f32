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

#include "base/task.hpp"
#include "coll/pattern/move.hpp"
#include "fabric/fabric.hpp"
#include "team/team.hpp"

namespace tutti {

/// Who publishes: one member, or all of them.
struct Publishers {
  int first;
  int last;
  static Publishers only(int member) noexcept { return {member, member + 1}; }
  static Publishers all(const Team& team) noexcept { return {0, team.size()}; }
  bool has(int member) const noexcept { return member >= first && member < last; }
};

/// Ends a collective through cells when all of them are there: the reader sees visit(member, data).
/// `own`: where this rank's vector is read. Not in its cell if that can be helped: between distant
/// cores the line has gone to the reader, and would have to come back.
template <class Visit>
void read_cells(Team& t, const Ticket& k, Publishers publishers, const void* own, std::size_t bytes,
                bool reads, Visit& visit) noexcept {
  for (int member = publishers.first; reads && member < publishers.last; ++member) {
    visit(member,
          member == t.rank() ? static_cast<const std::byte*>(own) : t.cell(k, member, bytes));
  }
  t.finish(k);
}

/// through_cells from where it first has to wait.
template <class Visit>
Task wait_for_cells(Team& t, const Ticket& k, Publishers publishers, bool published,
                    const void* mine, const void* own, std::size_t bytes, bool reads,
                    Visit visit) noexcept {
  if (!published) {
    co_await t.wait_cell(k, bytes);
    t.publish(k, mine, bytes);
  }
  for (int member = publishers.first; reads && member < publishers.last; ++member) {
    if (member != t.rank()) co_await t.published(k, member, bytes);
  }
  read_cells(t, k, publishers, own, bytes, reads, visit);
  co_return Status::success();
}

/// `bytes` (at most Team::kCellCapacity) of each publisher, at `mine`, go through its cell. When
/// all of them are there, readers see visit(member, data) in rank order, their own vector included,
/// which is then read at `own`. Makes a coroutine of itself only when it has to wait.
template <class Visit>
Task through_cells(Team& t, const Ticket& k, Publishers publishers, const void* mine,
                   const void* own, std::size_t bytes, bool reads, Visit visit) noexcept {
  if (publishers.has(t.rank())) {
    if (!t.cell_free(k, bytes))
      return wait_for_cells(t, k, publishers, false, mine, own, bytes, reads, visit);
    t.publish(k, mine, bytes);
  }
  if (publishers.last - publishers.first == 1) t.prefetch_cells(k, publishers.first, bytes);
  if (reads && !t.soon_published(k, publishers.first, publishers.last, bytes)) {
    return wait_for_cells(t, k, publishers, true, mine, own, bytes, reads, visit);
  }
  read_cells(t, k, publishers, own, bytes, reads, visit);
  return Task::completed(Status::success());
}

template <class Visit>
Task through_cells(Team& t, const Ticket& k, Publishers publishers, const void* mine,
                   std::size_t bytes, bool reads, Visit visit) noexcept {
  return through_cells(t, k, publishers, mine, mine, bytes, reads, visit);
}

inline std::uint64_t chunks(std::size_t bytes, std::size_t chunk) noexcept {
  return (bytes + chunk - 1) / chunk;
}

/// Each publisher's vector of `length(member)` bytes goes through blocks of `chunk` bytes. Readers
/// see visit(member, offset, data, bytes), chunk by chunk and within a chunk in rank order, their
/// own vector included. `items`: chunks of the longest vector.
template <class Length, class Visit>
Task through_blocks(Team& t, const Ticket& k, Publishers publishers, const void* mine,
                    Length length, std::size_t chunk, bool reads, Visit visit) noexcept {
  co_await t.turn(k);
  const auto* own = static_cast<const std::byte*>(mine);
  const bool publishes = publishers.has(t.rank());
  if (!reads && k.items != 0) t.drain(k, k.items - 1);
  for (std::uint64_t item = 0; item < k.items; ++item) {
    const std::size_t offset = item * chunk;
    if (publishes) {
      const std::size_t total = length(t.rank());
      const std::size_t bytes = offset < total ? std::min(chunk, total - offset) : 0;
      std::byte* block = nullptr;
      Status status;
      if (!t.try_block(k, item, bytes, &block, &status)) {
        co_await status;
        co_await t.wait_block(k, item, bytes, &block);
      }
      place_shared(t, block, own + offset, bytes);
      t.post(k, item, block, bytes);
    }
    if (!reads) continue;
    for (int member = publishers.first; member < publishers.last; ++member) {
      const std::size_t total = length(member);
      const std::size_t bytes = offset < total ? std::min(chunk, total - offset) : 0;
      if (member == t.rank()) {
        if (bytes != 0) visit(member, offset, own + offset, bytes);
        continue;
      }
      co_await t.posted(k, item, member);
      if (bytes != 0) visit(member, offset, t.block(k, item, member), bytes);
    }
    t.drain(k, item);
  }
  t.finish(k);
  co_return Status::success();
}

/// Each publisher's memory is read in place. Readers see visit(member, remote), which must get()
/// what it wants and returns a Status; starting with the next member, so that not all read the same
/// one at once. Publishers return when everybody has read. One stream item.
template <class Visit>
Task through_memory(Team& t, const Ticket& k, Publishers publishers, const void* mine,
                    std::size_t bytes, bool reads, Visit visit) noexcept {
  co_await t.turn(k);
  const bool publishes = publishers.has(t.rank());
  Region region;
  if (publishes) {
    if (!t.line_free(k.first_item)) co_await t.wait_line(k, 0);
    co_await t.fabric().expose(const_cast<void*>(mine), bytes, &region);
    t.post_key(k, 0, region.key);
  }
  for (int step = 1; reads && step < t.size(); ++step) {
    const int member = (t.rank() + step) % t.size();
    if (!publishers.has(member)) continue;
    co_await t.posted(k, 0, member);
    Remote remote;
    co_await t.fabric().attach(t.job_rank(member), t.posted_key(k, 0, member), &remote);
    co_await visit(member, remote);
  }
  t.drain(k, 0);
  if (publishes) {
    co_await t.wait_drained(k, 0);
    t.fabric().withdraw(region);
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
