// Barrier by one-sided signals up a degree-k tree and down a binomial one: an allreduce of nothing
// (VIA-2003, section 4.2).
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_degree_k(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return allreduce_degree_k(t, call, k, p);
}

}  // namespace tutti
