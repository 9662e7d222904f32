// Alltoall on mapped memory: everybody publishes its vector and reads its block of everybody
// else's.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

std::size_t total_of(const Collective& c) noexcept {
  return c.call.bytes * static_cast<std::size_t>(c.size());
}

/// In place, what is received would overwrite what is still to be sent: send from a copy.
Status separate(Collective& c, Temporary* copy, const void** send) noexcept {
  *send = c.call.send;
  if (c.call.send != c.call.recv) return Status::success();
  TUTTI_TRY(copy->allocate(c, total_of(c)));
  c.place(copy->memory(), c.call.send, total_of(c));
  *send = copy->memory();
  return Status::success();
}

}  // namespace

Task alltoall_flat(Collective& c) {
  return through_cells(c, Publishers::all(c), c.call.send, total_of(c), true,
                       [&c](int member, const std::byte* data) {
                         c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes),
                                 data + static_cast<std::size_t>(c.rank()) * c.call.bytes,
                                 c.call.bytes);
                       });
}

/// Everybody's blocks for the others pass through shared blocks in the order of distance: the s-th
/// is for member rank + 1 + s, so in each chunk all publish, and all read, from as many others.
Task alltoall_blocks(Collective& c, SharedBlocks p) {
  Temporary copy;
  const void* send = nullptr;
  co_await separate(c, &copy, &send);
  const auto size = static_cast<std::size_t>(c.size()), rank = static_cast<std::size_t>(c.rank());
  const std::size_t block = c.call.bytes, chunk = p.bytes(c), all = (size - 1) * block;
  c.place(at(c.call.recv, rank * block), at(send, rank * block), block);
  co_await c.stream().turn();
  for (std::uint64_t item = 0; item < c.items(); ++item) {
    const std::size_t offset = item * chunk, bytes = std::min(chunk, all - offset);
    const std::size_t first = offset / block, end = (offset + bytes - 1) / block + 1;
    std::byte* published = nullptr;
    if (!c.stream().try_block(item, bytes, &published))
      co_await c.stream().wait_block(item, bytes, &published);
    for (std::size_t s = first; s < end; ++s) {
      const Slice slice(s, block, offset, bytes);
      c.place_shared(published + slice.in_chunk,
                     at(send, (rank + 1 + s) % size * block + slice.in_block), slice.bytes);
    }
    c.stream().post(item, published, bytes);
    for (std::size_t s = first; s < end; ++s) {
      const Slice slice(s, block, offset, bytes);
      const std::size_t member = (rank + size - 1 - s) % size;
      co_await c.stream().posted(item, static_cast<int>(member));
      c.place(at(c.call.recv, member * block + slice.in_block),
              c.stream().block(item, static_cast<int>(member)) + slice.in_chunk, slice.bytes);
    }
    c.stream().drain(item);
  }
  c.finish();
  co_return Status::success();
}

Task alltoall_cma(Collective& c) {
  Temporary copy;
  const void* send = nullptr;
  co_await separate(c, &copy, &send);
  const std::size_t own = static_cast<std::size_t>(c.rank()) * c.call.bytes;
  c.place(at(c.call.recv, own), at(send, own), c.call.bytes);
  co_await through_memory(
      c, Publishers::all(c), send, total_of(c), true, [&c, own](int member, const Remote& remote) {
        return read_now(c, remote, own,
                        at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes),
                        c.call.bytes);
      });
  co_return Status::success();
}

namespace algorithm {

const Algorithm alltoall_flat = {
    .coll = Coll::alltoall,
    .name = "flat",
    .run = with_parameters<tutti::alltoall_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm alltoall_blocks = {
    .coll = Coll::alltoall,
    .name = "blocks",
    .run = with_parameters<tutti::alltoall_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<others_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm alltoall_cma = {
    .coll = Coll::alltoall,
    .name = "cma",
    .run = with_parameters<tutti::alltoall_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
