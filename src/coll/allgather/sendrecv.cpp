// The classical allgathers over two-sided messages, which the papers compare with (Thakur,
// Rabenseifner and Gropp 2005, section 4.1): recursive doubling, Bruck's, and around a ring.
#include <algorithm>
#include <bit>

#include "coll/algorithms.hpp"
#include "coll/pattern/packets.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct LargePackets {
  std::int64_t packet = Inbox::kBlockBytes;
};
constexpr ParameterList kLargePackets = parameters_of<LargePackets>(
    {{&LargePackets::packet, "packet", "bytes", 1, Inbox::kBlockBytes, "packet: 1 to 5120"}});

std::byte* block_at(const Call& call, int member) noexcept {
  return at(call.recv, static_cast<std::size_t>(member) * call.bytes);
}

}  // namespace

// Step s: members 2^s apart exchange the 2^s blocks that they have. Powers of two only.
Task allgather_sendrecv_recursive_doubling(Collective& c, LargePackets p) {
  const auto packet = static_cast<std::size_t>(p.packet);
  Completion sent;
  co_await c.enter(true);
  c.place(block_at(c.call, c.rank()), c.call.send, c.call.bytes);
  for (int step = 0; (1 << step) < c.size(); ++step) {
    const int have = 1 << step;
    const int other = c.rank() ^ have;
    const Packets packets{static_cast<std::size_t>(have) * c.call.bytes, packet,
                          step * Inbox::kBcastBlocks};
    co_await send_packets(c, packets, other, block_at(c.call, c.rank() / have * have), &sent);
    co_await receive_packets(c, packets, other, block_at(c.call, other / have * have));
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

// Step s: the first 2^s blocks, counted from the own one, go 2^s members down. At the end they are
// turned round.
Task allgather_sendrecv_bruck(Collective& c, LargePackets p) {
  const auto packet = static_cast<std::size_t>(p.packet);
  const int size = c.size();
  Temporary turned;  // block i is that of member rank + i
  Completion sent;
  co_await turned.allocate(c, static_cast<std::size_t>(size) * c.call.bytes);
  co_await c.enter(true);
  const auto turned_at = [&](int i) {
    return at(turned.memory(), static_cast<std::size_t>(i) * c.call.bytes);
  };
  c.place(turned_at(0), c.call.send, c.call.bytes);
  for (int step = 0; (1 << step) < size; ++step) {
    const int have = 1 << step;
    const int count = std::min(have, size - have);
    const Packets packets{static_cast<std::size_t>(count) * c.call.bytes, packet,
                          step * Inbox::kBcastBlocks};
    co_await send_packets(c, packets, (c.rank() - have + size) % size, turned_at(0), &sent);
    co_await receive_packets(c, packets, (c.rank() + have) % size, turned_at(have));
  }
  const int above = size - c.rank();  // blocks from the own one to the last member's
  c.place(block_at(c.call, c.rank()), turned_at(0), static_cast<std::size_t>(above) * c.call.bytes);
  c.place(block_at(c.call, 0), turned_at(above), static_cast<std::size_t>(c.rank()) * c.call.bytes);
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

// Step s: what came last goes on to the right.
Task allgather_sendrecv_ring(Collective& c, LargePackets p) {
  const auto packet = static_cast<std::size_t>(p.packet);
  const int size = c.size();
  const int right = (c.rank() + 1) % size, left = (c.rank() - 1 + size) % size;
  Completion sent;
  co_await c.enter(true);
  c.place(block_at(c.call, c.rank()), c.call.send, c.call.bytes);
  for (int step = 0; step + 1 < size; ++step) {
    const int passed_on = (c.rank() - step + size) % size, next = (passed_on - 1 + size) % size;
    const Packets packets{c.call.bytes, packet,
                          step * static_cast<int>(chunks(c.call.bytes, packet))};
    co_await send_packets(c, packets, right, block_at(c.call, passed_on), &sent);
    co_await receive_packets(c, packets, left, block_at(c.call, next));
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

/// The largest message of an allgather by halves has half of all blocks.
static const char* halves_fit_packets(const Shape& s, LargePackets p) {
  Shape message = s;
  message.bytes = s.bytes * static_cast<std::size_t>(s.size / 2);
  return fits_inbox_blocks(message, p.packet);
}

static const char* halves_of_a_power_of_two(const Shape& s, LargePackets p) {
  if ((s.size & (s.size - 1)) != 0) return "the number of members is not a power of two";
  return halves_fit_packets(s, p);
}

/// Every step of a ring has blocks of its own.
static const char* ring_fits_packets(const Shape& s, LargePackets p) {
  if (const char* why = fits_inbox_blocks(s, p.packet)) return why;
  const std::size_t packets =
      chunks(s.bytes, static_cast<std::size_t>(p.packet)) * static_cast<std::size_t>(s.size - 1);
  const auto blocks = static_cast<std::size_t>(Inbox::reduce_blocks(s.size) + Inbox::kBcastBlocks);
  return packets <= blocks ? nullptr : "more packets than the inbox has blocks in an epoch";
}

namespace algorithm {

const Algorithm allgather_sendrecv_recursive_doubling = {
    .coll = Coll::allgather,
    .name = "sendrecv_recursive_doubling",
    .run = with_parameters<tutti::allgather_sendrecv_recursive_doubling>,
    .restriction_of = with_parameters<halves_of_a_power_of_two>,
    .parameters = kLargePackets,
    .source = "Thakur, Rabenseifner and Gropp 2005, over send/receive",
};

const Algorithm allgather_sendrecv_bruck = {
    .coll = Coll::allgather,
    .name = "sendrecv_bruck",
    .run = with_parameters<tutti::allgather_sendrecv_bruck>,
    .restriction_of = with_parameters<halves_fit_packets>,
    .parameters = kLargePackets,
    .source = "Thakur, Rabenseifner and Gropp 2005, over send/receive",
};

const Algorithm allgather_sendrecv_ring = {
    .coll = Coll::allgather,
    .name = "sendrecv_ring",
    .run = with_parameters<tutti::allgather_sendrecv_ring>,
    .restriction_of = with_parameters<ring_fits_packets>,
    .parameters = kLargePackets,
    .source = "Thakur, Rabenseifner and Gropp 2005, over send/receive",
};

}  // namespace algorithm
}  // namespace tutti
