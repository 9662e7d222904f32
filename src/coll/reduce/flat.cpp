// Reduce, flat: everybody publishes its vector in its cell, the root folds them in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task reduce_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  if (!t.cell_free(k)) TUTTI_CO_TRY(co_await t.wait_cell(k));
  t.publish(k, call.send, call.bytes);
  if (t.rank() == call.root) {
    Folder fold(t, *call.reduction, call.recv, call.bytes);
    for (int member = 0; member < t.size(); ++member) {
      if (member != t.rank()) TUTTI_CO_TRY(co_await t.published(k, member));
      fold(t.cell(k, member));
    }
    fold.finish();
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
