#include "model/cdcp2008.hpp"

#include <algorithm>
#include <cmath>

#include "model/terms.hpp"

namespace tutti::model {
namespace {

constexpr std::size_t kLine = 64;  // a request or an answer

}  // namespace

double conventional_steps(int processors) { return 3 * std::log2(processors); }

double published_steps(int dcps) { return 3 * std::log2(dcps) + 2; }

double corrected_steps(int dcps) { return 3 * std::log2(dcps) + 3; }

double dedicated_allreduce(const sim::Network& n, int dcps, int apps, std::size_t bytes) {
  const double post = us(n.Tm + n.Td);
  const double way = us(2 * (n.Ts + n.Tn) + n.Tl);
  const double line = us(n.Tt.of(kLine));
  const double fold = us(n.To + n.To_byte.of(bytes));
  const double request = us(n.Tr) + us(n.Tc.of(bytes));
  const double arrivals = post + way + line + apps * request + (apps - 1) * fold;
  const double exchange = post + way + us(n.Tt.of(bytes)) + fold;
  const double answers = (apps + 1) / 2.0 * post + way + line;
  return arrivals + std::ceil(std::log2(dcps)) * exchange + answers;
}

double dedicated_overhead(const sim::Network& n, std::size_t bytes) {
  return us(n.Tm + n.Td) + us(n.Tc.of(bytes)) + us(n.Tc.of(bytes));
}

double with_dedicated(const Application& app, double r, double c, double overhead) {
  return (1 + r) * app.computation + std::max(overhead, c * app.collectives - app.overlap) +
         app.point_to_point;
}

bool published_rule_gains(const Application& app, double r) {
  const double factor = app.overlap > 0 ? r : r / 0.3;
  return app.collectives > factor * app.computation;
}

}  // namespace tutti::model
