// Allgather along the machine (coll/pattern/nested_gather.hpp).
#include "coll/algorithms.hpp"
#include "coll/pattern/nested_gather.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task allgather_nested(Collective& c, SharedBlocks p) {
  return gather_nested_blocks(c, -1, p.bytes(c));
}

namespace algorithm {

const Algorithm allgather_nested = {
    .coll = Coll::allgather,
    .name = "nested",
    .run = with_parameters<tutti::allgather_nested>,
    .restriction_of = with_parameters<gathers_along_the_machine>,
    .items = with_parameters<nested_gather_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; along the machine",
};

}  // namespace algorithm
}  // namespace tutti
