// Barrier in log N rounds to the base `radix`: in round r every member signals the radix - 1 ones
// that are radix^r, 2 radix^r, ... after it.
#include <cstdint>

#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_dissemination(Team& t, const Call&, const Ticket& k, const Parameters& p) {
  const std::int64_t size = t.size(), radix = p.value[0];
  Inbox& inbox = t.inbox();
  co_await inbox.enter(k, true);
  for (std::int64_t reach = 1; reach < size; reach *= radix) {
    const std::int64_t end = reach * radix < size ? reach * radix : size;
    for (std::int64_t to = reach; to < end; to += reach)
      co_await inbox.mail(k, static_cast<int>((t.rank() + to) % size), 1, nullptr);
    for (std::int64_t from = reach; from < end; from += reach) {
      co_await inbox.mailed(k, static_cast<int>((t.rank() + size - from) % size), 1);
    }
  }
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
