// Gather: only the root reads, or everybody writes into its buffer.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task gather_flat(Collective& c) {
  return through_cells(c, Publishers::all_but(c.call.root, c), c.call.send, c.call.bytes,
                       c.rank() == c.call.root, [&c](int member, const std::byte* data) {
                         c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes),
                                 data, c.call.bytes);
                       });
}

Task gather_blocks(Collective& c, SharedBlocks p) {
  return through_blocks(
      c, Publishers::all_but(c.call.root, c), {c.call.send}, [&c](int) { return c.call.bytes; },
      p.bytes(c), c.rank() == c.call.root,
      [&c](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        c.place(at(c.call.recv, static_cast<std::size_t>(member) * c.call.bytes + offset), data,
                bytes);
      });
}

Task gather_cma(Collective& c) {
  const bool root = c.rank() == c.call.root;
  if (root) {
    c.place(at(c.call.recv, static_cast<std::size_t>(c.call.root) * c.call.bytes), c.call.send,
            c.call.bytes);
  }
  return through_memory(c, Publishers::all_but(c.call.root, c), c.call.send, c.call.bytes, root,
                        [&c](int member, const Remote& remote) {
                          const std::size_t offset =
                              static_cast<std::size_t>(member) * c.call.bytes;
                          return read_now(c, remote, 0, at(c.call.recv, offset), c.call.bytes);
                        });
}

static Task write_to_root(Collective& c, std::size_t offset) {
  Fabric& fabric = c.team.fabric();
  Remote remote;
  co_await fabric.attach(c.team.job_rank(c.call.root), c.stream().posted_key(0, c.call.root),
                         &remote);
  if (!c.stream().begin_write(c.call.root)) co_await c.stream().failure_of(c.call.root);
  Completion written;
  fabric.spend(Work::copy, c.call.bytes);
  Status status = fabric.put(remote, offset, c.call.send, c.call.bytes, nullptr, &written);
  if (status.ok()) co_await c.completed(written);
  c.stream().end_write();
  co_return status;
}

// The root invites everybody to its buffer: where ranks share processors, all of these copy.
Task gather_cma_write(Collective& c) {
  co_await c.stream().turn();
  const std::size_t own = static_cast<std::size_t>(c.rank()) * c.call.bytes;
  if (c.rank() == c.call.root) {
    Region region;
    if (!c.stream().line_free(0)) co_await c.stream().wait_line(0);
    co_await c.team.fabric().expose(c.call.recv, c.call.bytes * static_cast<std::size_t>(c.size()),
                                    &region);
    c.stream().post_key(0, region.key);
    c.place(at(c.call.recv, own), c.call.send, c.call.bytes);
    c.stream().drain(0);
    const Status all_written = co_await outcome(c.stream().wait_drained(0));
    if (!all_written.ok()) c.stream().close_memory();
    c.team.fabric().withdraw(region);
    if (!all_written.ok()) co_return all_written;
  } else {
    co_await c.stream().posted(0, c.call.root);
    co_await write_to_root(c, own);
    c.stream().drain(0);
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm gather_flat = {
    .coll = Coll::gather,
    .name = "flat",
    .run = with_parameters<tutti::gather_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm gather_blocks = {
    .coll = Coll::gather,
    .name = "blocks",
    .run = with_parameters<tutti::gather_blocks>,
    .restriction_of = with_parameters<through_shared_blocks>,
    .items = with_parameters<block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm gather_cma = {
    .coll = Coll::gather,
    .name = "cma",
    .run = with_parameters<tutti::gather_cma>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

const Algorithm gather_cma_write = {
    .coll = Coll::gather,
    .name = "cma_write",
    .run = with_parameters<tutti::gather_cma_write>,
    .restriction_of = with_parameters<by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach, by those who have the data",
};

}  // namespace algorithm
}  // namespace tutti
