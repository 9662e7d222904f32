#include "model/rendezvous2006.hpp"

#include <algorithm>

#include "model/terms.hpp"

namespace tutti::model {
namespace {

constexpr ControlBytes kControl;

/// A control packet, from being seen by its receiver counted from when its sender begins with it.
double control(const sim::Network& n, std::size_t bytes, std::size_t data) {
  return copy(n, data) + posting(n) + passage(n) + wire_counted(n, bytes);
}

/// An RDMA Read from posting to the data's being there: a request without data, and the reply.
double read(const sim::Network& n, std::size_t m) {
  return posting(n) + us(3 * n.Ts + 4 * n.Tn + 2 * n.Tl) + wire(n, m);
}

constexpr std::size_t kKey = 32, kClearance = 48;

/// What the last of a transfer's packets costs the processor that sends it: the FIN, and telling
/// that the other side's packet has been taken.
double finishing(const sim::Network& n) { return 2 * posting(n); }

RendezvousTimes by_write(const sim::Network& n, std::size_t m, double sender_computes,
                         double receiver_computes) {
  const double request = control(n, kControl.bare_request, 0);
  const double seen = std::max(request, receiver_computes);
  const double reply = seen + us(n.Tr) + control(n, kControl.reply, kClearance);
  const double cleared = std::max(reply, sender_computes);
  const double sent = cleared + posting(n) + us(n.Ts + n.Tn) + wire(n, m);
  const double processed = sent + posting(n) + us(n.Ts + n.Tn);
  const double leaves = std::max(processed, sent + us(n.Ta));  // the NIC's gap after the data
  const double finished = leaves + wire_counted(n, kControl.finish) + us(n.Tl + n.Tn + n.Ts);
  return {sent + finishing(n), std::max(finished, receiver_computes)};
}

RendezvousTimes by_read(const sim::Network& n, std::size_t m, bool interrupt,
                        double sender_computes, double receiver_computes) {
  const double request = control(n, kControl.request, kKey);
  const bool interrupts = interrupt && request < receiver_computes;
  const double handler = interrupts ? us(n.Ti + n.Tr) + posting(n) : 0;
  const double waits = receiver_computes + handler;  // when the receiver comes to its wait
  const double seen = interrupts ? request + us(n.Ti) : std::max(request, receiver_computes);
  const double read_done = seen + us(n.Tr) + read(n, m);
  const double there = std::max(read_done, waits);
  const double finished = there + posting(n) + passage(n) + wire_counted(n, kControl.finish);
  return {std::max(finished, sender_computes), there + finishing(n)};
}

}  // namespace

RendezvousTimes rendezvous(const sim::Network& n, Rendezvous protocol, std::size_t m,
                           double sender_computes, double receiver_computes) {
  // Computation begins when the own operation has been started; the sender's request costs it that.
  const bool write = protocol == Rendezvous::write;
  const double started =
      posting(n) + (write ? 0 : copy(n, kKey));  // of the request to send, at the sender
  const double until = sender_computes == 0 ? 0 : started + sender_computes;
  if (write) return by_write(n, m, until, receiver_computes);
  return by_read(n, m, protocol == Rendezvous::read_interrupt, until, receiver_computes);
}

double overlap(double alone, double computation, double together) {
  const double shorter = std::min(alone, computation);
  if (shorter <= 0) return 0;
  return std::clamp((alone + computation - together) / shorter, 0.0, 1.0);
}

}  // namespace tutti::model
