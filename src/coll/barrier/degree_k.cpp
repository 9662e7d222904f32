// Barrier by one-sided signals up a degree-k tree and down a binomial one: an allreduce of nothing
// (VIA-2003, section 4.2).
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task barrier_degree_k(Collective& c, const Parameters& p) { return allreduce_degree_k(c, p); }

namespace algorithm {

const Algorithm barrier_degree_k = {
    .coll = Coll::barrier,
    .name = "degree_k",
    .run = tutti::barrier_degree_k,
    .restriction_of = fits_inbox_block,
    .parameters = {{"degree", 3, "members", 1, 15, "degree: 1, 3, 7 or 15"},
                   {"down", 1, "members"}},
    .source = "VIA-2003, sections 4.1 and 4.2",
};

}  // namespace algorithm
}  // namespace tutti
