// Two-sided eager messages, as MPI libraries send small ones: packets that are copied into
// registered memory, matched and copied out by the receiver. The classical algorithms over these
// are what the papers compare with.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/task.hpp"
#include "coll/collective.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// The parameter of most of the algorithms over two-sided messages.
struct PacketSize {
  std::int64_t packet = 1024;
};
inline constexpr ParameterList kPacketSize = parameters_of<PacketSize>(
    {{&PacketSize::packet, "packet", "bytes", 1, Inbox::kBlockBytes, "packet: 1 to 5120"}});

/// A message in packets of `packet` bytes, through the inbox blocks from `first_block` on (at most
/// Inbox::kBcastBlocks of them).
struct Packets {
  std::size_t bytes;
  std::size_t packet;
  int first_block;

  int count() const noexcept { return static_cast<int>(chunks(bytes, packet)); }
  std::size_t offset(int i) const noexcept { return static_cast<std::size_t>(i) * packet; }
  std::size_t length(int i) const noexcept { return std::min(packet, bytes - offset(i)); }
};

/// `data` may be reused when `sent` has counted.
inline Status send_packets(Collective& c, const Packets& packets, int member, const void* data,
                           Completion* sent) noexcept {
  for (int i = 0; i < packets.count(); ++i) {
    TUTTI_TRY(c.put(member, packets.first_block + i, at(data, packets.offset(i)), packets.length(i),
                    sent));
  }
  return Status::success();
}

/// Matches the packets as they come and copies each of them out.
inline Task receive_packets(Collective& c, Packets packets, int from, void* out) noexcept {
  for (int i = 0; i < packets.count(); ++i) {
    const int block = packets.first_block + i;
    co_await c.arrival(block, from);
    c.team.fabric().spend(Work::match, packets.length(i));
    c.place(at(out, packets.offset(i)), c.data(block, packets.length(i)), packets.length(i));
  }
  co_return Status::success();
}

}  // namespace tutti
