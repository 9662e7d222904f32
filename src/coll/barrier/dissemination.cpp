// Barrier in log2 N rounds: in round r every member signals the one 2^r after it.
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_dissemination(Team& t, const Call&, const Ticket& k, const Parameters&) {
  Inbox& inbox = t.inbox();
  TUTTI_CO_TRY(co_await inbox.enter(k, true));
  for (int distance = 1; distance < t.size(); distance *= 2) {
    TUTTI_CO_TRY(inbox.mail(k, (t.rank() + distance) % t.size(), 1, nullptr));
    TUTTI_CO_TRY(co_await inbox.mailed(k, (t.rank() + t.size() - distance) % t.size(), 1));
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
