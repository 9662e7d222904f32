#include "model/via2003.hpp"

#include <algorithm>
#include <cstdint>

#include "model/terms.hpp"

namespace tutti::model {
namespace {

/// One put from posting to being visible, without what is transmitted.
double put(const sim::Network& n) { return posting(n) + passage(n); }

}  // namespace

double broadcast(const sim::Network& n, int nodes, std::size_t bytes, std::size_t block) {
  if (nodes < 2 || bytes == 0) return 0;
  const std::size_t num = (bytes + block - 1) / block;
  const std::size_t first = std::min(bytes, block);
  const std::size_t last = bytes - (num - 1) * block;
  const double transmitted =
      static_cast<double>(bytes + num * n.counter_bytes) * n.Tt.microseconds();
  const double stage = put(n) + transmitted + static_cast<double>(num - 1) * us(n.Ta);
  return stages(nodes) * stage + registered_copy(n, first) + copy(n, last);
}

double send_receive(const sim::Network& n, std::size_t bytes, std::size_t packet) {
  return broadcast(n, 2, bytes, packet) + us(n.Tr);
}

double allreduce(const sim::Network& n, int nodes, std::size_t bytes, int degree, Case which) {
  if (nodes < 2) return 0;
  const double fold = us(n.To) + static_cast<double>(bytes) * n.To_byte.microseconds();
  const double overlapped = std::max(us(n.Tn), wire_counted(n, bytes) + us(n.Tg));
  const double apart = us(n.Ts + n.Tn) + wire_counted(n, bytes) + us(n.Tg);
  const double gap = which == Case::worst  ? apart
                     : which == Case::best ? std::max(overlapped, fold)
                                           : fold;
  double up = 0;
  for (std::int64_t reach = 1; reach < nodes; reach *= degree + 1) {
    const auto children = std::min<std::int64_t>(degree, (nodes - 1) / reach);
    const double folds = static_cast<double>(which == Case::worst ? children : 1) * fold;
    up += registered_copy(n, bytes) + put(n) + wire_counted(n, bytes) +
          static_cast<double>(children - 1) * gap + folds;
  }
  return up + registered_copy(n, bytes) + stages(nodes) * (put(n) + wire_counted(n, bytes)) +
         copy(n, bytes);
}

int optimal_degree(const sim::Network& n, int nodes, std::size_t bytes,
                   const std::vector<int>& degrees) {
  return *std::min_element(degrees.begin(), degrees.end(), [&](int a, int b) {
    return allreduce(n, nodes, bytes, a, Case::best) < allreduce(n, nodes, bytes, b, Case::best);
  });
}

std::size_t optimal_block(const sim::Network& n, int nodes, std::size_t bytes,
                          const std::vector<std::size_t>& blocks) {
  return *std::min_element(blocks.begin(), blocks.end(), [&](std::size_t a, std::size_t b) {
    return broadcast(n, nodes, bytes, a) < broadcast(n, nodes, bytes, b);
  });
}

}  // namespace tutti::model
