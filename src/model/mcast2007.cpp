#include "model/mcast2007.hpp"

#include <algorithm>
#include <cmath>

#include "model/terms.hpp"
#include "team/packet.hpp"

namespace tutti::model {
namespace {

/// An acknowledgement: the counter alone, and matching it.
double ack(const sim::Network& n) {
  return posting(n) + passage(n) + wire(n, n.counter_bytes) + us(n.Tr);
}

/// Between two of many that come to one node at once: its NIC, or its processor.
double ack_gap(const sim::Network& n) {
  const double nic = std::max(wire(n, n.counter_bytes) + us(n.Tg), us(n.Tn));
  return std::max(nic, us(n.Tr));
}

/// A get of `bytes`: a request and its answer.
double get(const sim::Network& n, std::size_t bytes) {
  return posting(n) + 2 * passage(n) + wire(n, bytes);
}

/// Until a put's source may be used again: copied, or read by the NIC.
double sent(const sim::Network& n, std::size_t bytes) {
  const double read = bytes <= n.copied_bytes ? registered_copy(n, bytes)
                                              : us(n.Ts + n.Tn) + wire_counted(n, bytes);
  return posting(n) + read;
}

double again(int size, double loss, double timeout) {
  return (expected_casts(size - 1, loss) - 1) * timeout;
}

}  // namespace

double multicast_send(const sim::Network& n, std::size_t bytes) {
  const std::size_t datagram = bytes + kPacketOverhead;
  return posting(n) + passage(n) + wire(n, datagram) + copy(n, datagram) + us(n.Tr) +
         copy(n, bytes);
}

double ring_step(const sim::Network& n, std::size_t bytes) {
  return posting(n) + registered_copy(n, bytes) + passage(n) + wire_counted(n, bytes) +
         copy(n, bytes);
}

double expected_steps(double loss) { return loss / (1 - loss); }

double multicast_mean(const sim::Network& n, std::size_t bytes, double loss) {
  return multicast_send(n, bytes) + expected_steps(loss) * ring_step(n, bytes) + sent(n, bytes);
}

double longest_run(int members, double loss) {
  if (loss <= 0) return 0;
  return std::max(0.0, std::log(members * (1 - loss)) / std::log(1 / loss));
}

double expected_casts(int members, double loss) {
  double sum = 1, lost = 1;
  for (int casts = 1; casts < 10'000; ++casts) {
    lost *= loss;
    const double somebody = -std::expm1(members * std::log1p(-lost));
    if (somebody < 1e-12) break;
    sum += somebody;
  }
  return sum;
}

double linear_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout) {
  return multicast_send(n, bytes) + ack(n) + (size - 2) * ack_gap(n) + again(size, loss, timeout);
}

double tree_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout) {
  return multicast_send(n, bytes) + stages(size) * ack(n) + again(size, loss, timeout);
}

double coroot_ack(const sim::Network& n, int size, std::size_t bytes, double loss, double timeout) {
  const int group = std::max(1, static_cast<int>(std::lround(std::sqrt(size))));
  const int groups = (size + group - 1) / group;
  const double in_group = ack(n) + std::max(0, group - 2) * ack_gap(n);
  // The root has the members of its own group behind it when the co-roots come.
  const double among_roots = ack(n) + std::max(0, groups - 2) * ack_gap(n);
  return multicast_send(n, bytes) + in_group + among_roots + again(size, loss, timeout);
}

double nack_mean(const sim::Network& n, std::size_t bytes, double loss, double timeout) {
  const double asked = timeout + get(n, n.counter_bytes) + get(n, bytes);
  return (1 - loss) * multicast_send(n, bytes) + loss * asked;
}

}  // namespace tutti::model
