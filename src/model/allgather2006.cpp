#include "model/allgather2006.hpp"

#include <algorithm>
#include <cmath>

#include "model/terms.hpp"

namespace tutti::model {

double recursive_doubling(double ts, double tw, double m, int p) {
  return ts * std::log2(p) + (p - 1) * m * tw;
}

StartupAndByte two_sided(const sim::Network& n) {
  return {posting(n) + passage(n) + wire_counted(n, 0) + us(n.Tr),
          n.Tt.microseconds() + 2 * n.Tc.microseconds()};
}

namespace {

/// One step between nodes: a process sends `bytes` in packets and receives as many.
double step_between_nodes(const sim::Network& n, std::size_t bytes, std::size_t packet) {
  const std::size_t packets = (bytes + packet - 1) / packet;
  const std::size_t first = std::min(bytes, packet), last = bytes - (packets - 1) * packet;
  const auto gaps = static_cast<double>(packets - 1);
  // The slowest of the three stages has all packets one after the other, the others add one each.
  const double nic = wire(n, bytes + packets * n.counter_bytes) + gaps * us(n.Ta);
  const double copied = first <= n.copied_bytes ? copy(n, bytes) : 0;  // packet by packet
  const double sender = static_cast<double>(packets) * posting(n) + copied;
  const double receiver = static_cast<double>(packets) * us(n.Tr) + copy(n, bytes);
  const double sends_first = posting(n) + registered_copy(n, first);
  const double receives_last = us(n.Tr) + copy(n, last);
  return passage(n) + std::max({sends_first + nic + receives_last,
                                sender + wire_counted(n, last) + receives_last,
                                sends_first + wire_counted(n, first) + receiver});
}

/// How long a process's messages of a step occupy the NIC that it shares.
double occupied(const sim::Network& n, std::size_t bytes, std::size_t packet) {
  const std::size_t packets = (bytes + packet - 1) / packet;
  return wire(n, bytes + packets * n.counter_bytes) + static_cast<double>(packets) * us(n.Ta);
}

/// Through shared memory: copied in by the sender, matched and copied out by the receiver.
double step_within_node(const sim::Network& n, std::size_t bytes, std::size_t packet) {
  const auto packets = static_cast<double>((bytes + packet - 1) / packet);
  return copy(n, std::min(bytes, packet)) + us(n.line) + packets * us(n.Tr) + copy(n, bytes);
}

}  // namespace

double allgather_send_receive(const sim::Network& n, int nodes, int ppn, std::size_t m,
                              std::size_t packet) {
  if (m == 0 || nodes * ppn < 2) return 0;
  double time = copy(n, m);
  double behind =
      0;  // who comes last to the NIC stays behind, and waits anew only for what is more
  for (int have = 1; have < nodes * ppn; have *= 2) {
    const std::size_t bytes = static_cast<std::size_t>(have) * m;
    if (have < ppn) {
      time += step_within_node(n, bytes, packet);
    } else {
      time += step_between_nodes(n, bytes, packet);
      behind = std::max(behind, (ppn - 1) * occupied(n, bytes, packet));
    }
  }
  return time + behind;
}

double allgather_shared_buffer(const sim::Network& n, int nodes, int ppn, std::size_t m,
                               bool overlap) {
  if (m == 0 || nodes * ppn < 2) return 0;
  const std::size_t of_node = static_cast<std::size_t>(ppn) * m;
  const double filled = copy(n, m) + (ppn > 1 ? us(n.line) : 0);  // and the others' flags seen
  double arrived = filled;
  double copied = overlap ? filled : 0;  // when what has arrived is with the processes
  double to_copy = copy(n, of_node);     // ... but for this, which may begin at once
  for (std::size_t bytes = of_node; bytes < of_node * static_cast<std::size_t>(nodes); bytes *= 2) {
    const double posted = arrived + posting(n);
    const double next = posted + passage(n) + wire_counted(n, bytes);
    if (overlap) copied = std::max(copied, posted) + to_copy;
    to_copy = overlap ? copy(n, bytes) : to_copy + copy(n, bytes);
    // A process that is still copying does not see the next part before it has done.
    arrived = std::max(next, overlap ? copied : 0.0);
  }
  return std::max(arrived, copied) + to_copy;
}

}  // namespace tutti::model
