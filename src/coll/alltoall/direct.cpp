// Alltoall between nodes, straight to the receivers.
#include "coll/algorithms.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/pattern/move.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task alltoall_direct(Collective& c) {
  Temporary copy;
  const void* send = c.call.send;
  if (c.call.send == c.call.recv) {
    const std::size_t total = c.call.bytes * static_cast<std::size_t>(c.size());
    co_await copy.allocate(c, total);
    c.place(copy.memory(), c.call.send, total);
    send = copy.memory();
  }
  const Parcels parcels = Parcels::even(Coll::alltoallv, c.call.root, c.rank(), c.size(), send,
                                        c.call.recv, c.call.bytes);
  co_await deliver(c, parcels);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm alltoall_direct = {
    .coll = Coll::alltoall,
    .name = "direct",
    .run = with_parameters<tutti::alltoall_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
