// Reduce by cross-memory attach: the root reads and folds everybody's vector in place, in rank
// order.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_cma(Collective& c) {
  const bool root = c.rank() == c.call.root;
  std::vector<Remote> remotes(static_cast<std::size_t>(c.size()));
  Scratch scratch(c);
  if (root) co_await scratch.take();
  int known = 0;
  co_await through_memory(c, Publishers::all(c), c.call.send, c.call.bytes, root,
                          [&](int member, const Remote& remote) {
                            remotes[static_cast<std::size_t>(member)] = remote;
                            if (++known < c.size() - 1) return Status::success();
                            return fold_from_memory(c, c.call.send, remotes, 0, c.call.bytes,
                                                    static_cast<std::byte*>(c.call.recv), scratch);
                          });
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_cma = {
    .coll = Coll::reduce,
    .name = "cma",
    .run = with_parameters<tutti::reduce_cma>,
    .restriction_of = with_parameters<reduces_by_memory>,
    .items = with_parameters<one_item>,
    .source = "cross-memory attach",
    .former_name = "memory",
};

}  // namespace algorithm
}  // namespace tutti
