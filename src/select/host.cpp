// `mpi`: the host runs the whole call itself. It moves no data here, so it is none of algorithms().
#include <array>

#include "select/select.hpp"

namespace tutti {
namespace {

/// Not what tutti runs within a call, and not of programs without an MPI.
const char* takes_whole_calls(const Shape& s, const Parameters& /*parameters*/) {
  if (!s.hosted) return "an MPI runs whole calls of MPI programs only";
  if (s.at_once) return "no MPI sums exactly (TUTTI_FIXED_ORDER=exact)";
  if (s.fixed_order && reduces(s.coll)) return "no MPI promises the order of TUTTI_FIXED_ORDER";
  return nullptr;
}

constexpr auto kHost = [] {
  std::array<Algorithm, kColls> all{};
  for (int i = 0; i < kColls; ++i) {
    Algorithm& one = all[static_cast<std::size_t>(i)];
    one.coll = static_cast<Coll>(i);
    one.name = "mpi";
    one.restriction_of = &takes_whole_calls;
    one.source = "the MPI's own";
  }
  return all;
}();

}  // namespace

const Algorithm& host_algorithm(Coll coll) { return kHost[static_cast<std::size_t>(coll)]; }

}  // namespace tutti
