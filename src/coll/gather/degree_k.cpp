// Gather up the degree-k tree (VIA-2003, section 4.2, Figures 3 and 4) in pre-registered blocks: no
// invitations, and N - 1 messages in all.
//
// Ranks count from the root. The subtree of a child is a contiguous range of them, so a parent
// appends what its children have collected to its own block and passes everything on in one put.
// The root copies each range to its place, in two pieces where it goes past the last rank.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct GatherDegreeK {
  std::int64_t degree = 1;  // children that put to a member in a step
};

/// Copies the blocks of `count` ranks, from the `first` after the root on, to where they belong.
void place_range(Collective& c, int first, int count, const std::byte* blocks) noexcept {
  const auto bytes = [&c](int ranks) { return static_cast<std::size_t>(ranks) * c.call.bytes; };
  const int begin = (first + c.call.root) % c.size();
  const int before_end = std::min(count, c.size() - begin);
  c.place(at(c.call.recv, bytes(begin)), blocks, bytes(before_end));
  c.place(c.call.recv, at(blocks, bytes(before_end)), bytes(count - before_end));
}

const char* fits_gather(const Shape& s, GatherDegreeK p) {
  if (const char* why = degree_of_inbox(p.degree)) return why;
  std::int64_t largest = 1;
  while (largest * (p.degree + 1) < s.size) largest *= p.degree + 1;
  Shape part = s;
  if (__builtin_mul_overflow(s.bytes, static_cast<std::size_t>(largest), &part.bytes) ||
      part.bytes > Inbox::kBlockBytes)
    return "what a child collects is larger than an inbox block";
  return fits_inbox_blocks(part, static_cast<std::int64_t>(Inbox::kBlockBytes));
}

}  // namespace

Task gather_degree_k(Collective& c, GatherDegreeK p) {
  const auto degree = static_cast<int>(p.degree);
  const int size = c.size(), own = (c.rank() - c.call.root + size) % size;
  const DegreeTree tree(own, size, degree);
  const bool inner = own != 0 && tree.steps() != 0;
  Temporary collected;
  Completion sent;
  std::size_t have = c.call.bytes;
  if (inner) co_await collected.allocate(c, Inbox::kBlockBytes);
  co_await c.enter(false);
  if (own == 0) place_range(c, 0, 1, static_cast<const std::byte*>(c.call.send));
  if (inner) c.place(collected.memory(), c.call.send, have);
  for (int step = 0; step < tree.steps(); ++step) {
    for (int j = 1; j <= degree && tree.child(step, j) >= 0; ++j) {
      const int child = tree.child(step, j), block = tree.block_of(step, j);
      const int ranks = tree.subtree(step, j);
      const std::size_t bytes = static_cast<std::size_t>(ranks) * c.call.bytes;
      co_await c.arrival(block, (child + c.call.root) % size);
      if (own == 0) place_range(c, child, ranks, c.data(block, bytes));
      if (inner) c.place(at(collected.memory(), have), c.data(block, bytes), bytes);
      have += bytes;
    }
  }
  if (own != 0) {
    const void* data = inner ? collected.memory() : c.call.send;
    co_await c.put((tree.parent() + c.call.root) % size, tree.block(), data, have, &sent);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm gather_degree_k = {
    .coll = Coll::gather,
    .name = "degree_k",
    .run = with_parameters<tutti::gather_degree_k>,
    .restriction_of = with_parameters<fits_gather>,
    .parameters = parameters_of<GatherDegreeK>(
        {{&GatherDegreeK::degree, "degree", "members", 1, 15, "degree: 1, 3, 7 or 15"}}),
    .source = "VIA-2003, section 4.2, for a gather",
};

}  // namespace algorithm
}  // namespace tutti
