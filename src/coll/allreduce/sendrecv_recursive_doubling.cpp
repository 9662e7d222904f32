// Recursive-doubling allreduce over two-sided messages (Thakur, Rabenseifner and Gropp 2005,
// section 4.3): in step s members 2^s apart exchange what they have and fold it. With other numbers
// of members than powers of two, the first few fold pairwise before, and get the result after.
#include <bit>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// Where a member stands among the power of two that take part in the exchange.
struct Place {
  int size;  // the power of two
  int rest;  // members beyond it: the pairs (0, 1), (2, 3), ... below 2 rest
  int rank;  // among them, or -1: the left of a pair, which only gives and gets

  Place(int member, int members) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(members)))),
        rest(members - size) {
    rank = member >= 2 * rest ? member - rest : member % 2 == 1 ? member / 2 : -1;
  }
  int member(int its_rank) const noexcept {
    return its_rank < rest ? 2 * its_rank + 1 : its_rank + rest;
  }
};

}  // namespace

Task allreduce_sendrecv_recursive_doubling(Collective& c, PacketSize p) {
  const auto packet = static_cast<std::size_t>(p.packet);
  const Place place_of(c.rank(), c.size());
  const int steps = std::countr_zero(static_cast<unsigned>(place_of.size));
  const Packets before{c.call.bytes, packet, steps * Inbox::kBcastBlocks};
  const Packets after{c.call.bytes, packet, c.bcast_block(0)};
  Temporary incoming;
  Completion sent;
  co_await incoming.allocate(c, c.call.bytes);
  co_await c.enter(true);
  c.place(c.call.recv, c.call.send, c.call.bytes);
  const bool paired = c.rank() < 2 * place_of.rest;
  if (place_of.rank < 0) {
    co_await send_packets(c, before, c.rank() + 1, c.call.recv, &sent);
    co_await c.completed(sent);
    co_await receive_packets(c, after, c.rank() + 1, c.call.recv);
    c.finish();
    co_return Status::success();
  }
  if (paired) {
    co_await receive_packets(c, before, c.rank() - 1, incoming.memory());
    c.fold(incoming.memory(), c.call.recv, c.call.recv, c.call.bytes);
  }
  for (int step = 0; step < steps; ++step) {
    const int other_rank = place_of.rank ^ (1 << step);
    const int other = place_of.member(other_rank);
    const Packets packets{c.call.bytes, packet, step * Inbox::kBcastBlocks};
    co_await send_packets(c, packets, other, c.call.recv, &sent);
    co_await receive_packets(c, packets, other, incoming.memory());
    // What was sent lies where the next fold goes.
    co_await c.completed(sent);
    const bool first = other_rank < place_of.rank;  // operands keep the order of the members
    c.fold(first ? incoming.memory() : c.call.recv, first ? c.call.recv : incoming.memory(),
           c.call.recv, c.call.bytes);
  }
  if (paired) co_await send_packets(c, after, c.rank() - 1, c.call.recv, &sent);
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

static const char* fits(const Shape& s, PacketSize p) { return fits_packets(s, p.packet); }

namespace algorithm {

const Algorithm allreduce_sendrecv_recursive_doubling = {
    .coll = Coll::allreduce,
    .name = "sendrecv_recursive_doubling",
    .run = with_parameters<tutti::allreduce_sendrecv_recursive_doubling>,
    .restriction_of = with_parameters<fits>,
    .parameters = kPacketSize,
    .source = "Thakur, Rabenseifner and Gropp 2005, over send/receive",
};

}  // namespace algorithm
}  // namespace tutti
