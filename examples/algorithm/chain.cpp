// Broadcast along a chain: each rank puts a block to the next one as soon as it has it, so that all
// links are busy at once. The example of docs/tutorials/research.md.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Chain {
  std::int64_t block = 3072;  // bytes of a put
};

const char* fits_chain(const Shape& s, Chain p) { return fits_inbox_blocks(s, p.block); }

}  // namespace

Task bcast_chain(Collective& c, Chain p) {
  const int before = (c.rank() + c.size() - 1) % c.size(), behind = (c.rank() + 1) % c.size();
  const bool first = c.rank() == c.call.root, last = behind == c.call.root;
  const auto block = static_cast<std::size_t>(p.block);
  Completion sent;
  co_await c.enter(false);
  for (std::size_t offset = 0; offset < c.call.bytes; offset += block) {
    const int index = c.bcast_block(static_cast<int>(offset / block));
    const std::size_t bytes = std::min(block, c.call.bytes - offset);
    if (!first) co_await c.arrival(index, before);
    const void* data = first ? at(c.call.recv, offset) : c.data(index, bytes);
    if (!last) co_await c.put(behind, index, data, bytes, &sent);
    if (!first) c.place(at(c.call.recv, offset), data, bytes);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_chain = {
    .coll = Coll::bcast,
    .name = "chain",
    .run = with_parameters<tutti::bcast_chain>,
    .restriction_of = with_parameters<fits_chain>,
    .parameters = parameters_of<Chain>(
        {{&Chain::block, "block", "bytes", 1, Inbox::kBlockBytes, "block: 1 to 5120"}}),
    .source = "the tutorial for researchers",
};

}  // namespace algorithm
}  // namespace tutti
