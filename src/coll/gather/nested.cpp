// Gather along the machine (coll/pattern/nested_gather.hpp): the members of the root's part fetch
// what comes from others, each a share, those of its smaller part what these have, and so on.
#include "coll/algorithms.hpp"
#include "coll/pattern/nested_gather.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task gather_nested(Collective& c, SharedBlocks p) {
  return gather_nested_blocks(c, c.call.root, p.bytes(c));
}

namespace algorithm {

const Algorithm gather_nested = {
    .coll = Coll::gather,
    .name = "nested",
    .run = with_parameters<tutti::gather_nested>,
    .restriction_of = with_parameters<gathers_along_the_machine>,
    .items = with_parameters<nested_gather_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; along the machine",
};

}  // namespace algorithm
}  // namespace tutti
