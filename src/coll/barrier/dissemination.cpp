// Barrier in log N rounds to the base `radix`: in round r every member signals the radix - 1 ones
// that are radix^r, 2 radix^r, ... after it.
#include <cstdint>

#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

namespace {

struct Dissemination {
  std::int64_t radix = 2;
};

}  // namespace

Task barrier_dissemination(Collective& c, Dissemination p) {
  const std::int64_t size = c.size(), radix = p.radix;
  co_await c.enter(true);
  for (std::int64_t reach = 1; reach < size; reach *= radix) {
    const std::int64_t end = reach * radix < size ? reach * radix : size;
    for (std::int64_t to = reach; to < end; to += reach)
      co_await c.mail(static_cast<int>((c.rank() + to) % size), 1);
    for (std::int64_t from = reach; from < end; from += reach) {
      co_await c.mailed(static_cast<int>((c.rank() + size - from) % size), 1);
    }
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm barrier_dissemination = {
    .coll = Coll::barrier,
    .name = "dissemination",
    .run = with_parameters<tutti::barrier_dissemination>,
    .restriction_of = with_parameters<between_nodes>,
    .parameters = parameters_of<Dissemination>({{&Dissemination::radix, "radix", "members", 2,
                                                 Parameter::kMostMembers, "radix: 2 to 1048576"}}),
    .source = "dissemination",
};

}  // namespace algorithm
}  // namespace tutti
