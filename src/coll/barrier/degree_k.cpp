// Barrier by one-sided signals up a degree-k tree and down a binomial one: an allreduce of nothing
// (VIA-2003, section 4.2).
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_degree_k(Collective& c, const Parameters& p) { return allreduce_degree_k(c, p); }

}  // namespace tutti
