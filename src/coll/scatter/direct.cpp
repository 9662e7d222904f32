// Scatter from the root straight to everybody.
#include "coll/algorithms.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task scatter_direct(Collective& c) {
  const Parcels parcels = Parcels::even(Coll::scatterv, c.call.root, c.rank(), c.size(),
                                        c.call.send, c.call.recv, c.call.bytes);
  co_await deliver(c, parcels);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scatter_direct = {
    .coll = Coll::scatter,
    .name = "direct",
    .run = with_parameters<tutti::scatter_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
