// Barrier by one-sided signals up a degree-k tree and down a binomial one: an allreduce of nothing
// (VIA-2003, section 4.2).
#include "coll/allreduce/degree_k.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task barrier_degree_k(Collective& c, DegreeK p) { return allreduce_degree_k(c, p); }

namespace algorithm {

const Algorithm barrier_degree_k = {
    .coll = Coll::barrier,
    .name = "degree_k",
    .run = with_parameters<tutti::barrier_degree_k>,
    .restriction_of = with_parameters<fits_degree_k>,
    .parameters = kDegreeK,
    .source = "VIA-2003, sections 4.1 and 4.2",
};

}  // namespace algorithm
}  // namespace tutti
