#include "team/multicast.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "team/team.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLongest = 65536;  // no network's datagrams are longer

}  // namespace

Multicast::Multicast(Team& team, int depth) noexcept
    : team_(team),
      datagrams_(team.fabric().datagrams()),
      joined_(Status::error(Code::unsupported, "the fabric has no multicast")),
      depth_(static_cast<std::size_t>(depth)) {
  if (datagrams_ == nullptr) return;
  joined_ = datagrams_->join(team.id(), depth, &group_);
  if (joined_.ok()) {
    arrivals_ = &datagrams_->arrivals(group_);
  } else {
    log(LogLevel::warn, "rank %d gets no multicast (%s): others put to it what is broadcast",
        team.job_rank(team.rank()), joined_.detail);
  }
}

Multicast::~Multicast() {
  if (!joined_.ok()) return;
  const auto foreign = static_cast<unsigned long long>(datagrams_->counts(group_).foreign);
  if (foreign != 0) {
    log(LogLevel::warn, "%llu packets to a multicast group of this job were not its own: dropped",
        foreign);
  }
  datagrams_->leave(group_);
}

Datagrams::Counts Multicast::datagram_counts() const noexcept {
  return joined_.ok() ? datagrams_->counts(group_) : Datagrams::Counts{};
}

Status Multicast::cast(const Ticket& ticket, std::uint32_t sequence, const void* data,
                       std::size_t bytes) noexcept {
  if (!joined_.ok()) return Status::success();  // as if it were lost
  const MulticastPacket packet{ticket.epoch, sequence, static_cast<std::uint32_t>(team_.rank()),
                               static_cast<const std::byte*>(data), bytes};
  if (bytes + kPacketOverhead > team_.fabric().traits().datagram_bytes)
    return Status::error(Code::truncated, "larger than a datagram");
  alignas(8) std::byte out[kLongest];
  return datagrams_->cast(group_, out, write_packet(packet, team_.elided(), out));
}

bool Multicast::place(const MulticastPacket& packet, void* base, std::size_t fragment,
                      std::size_t total, std::uint32_t* sequence) noexcept {
  const std::uint64_t begin = std::uint64_t{packet.sequence} * fragment;
  if (begin >= total || packet.bytes != std::min<std::uint64_t>(fragment, total - begin)) {
    ++counts_.damaged;  // whoever sent it means another message
    return false;
  }
  team_.fabric().spend(Work::copy, packet.bytes);
  if (!team_.elided())
    std::memcpy(static_cast<std::byte*>(base) + begin, packet.data, packet.bytes);
  ++counts_.taken;
  *sequence = packet.sequence;
  return true;
}

void Multicast::keep(const MulticastPacket& packet, std::size_t bytes) noexcept {
  if (kept_.size() >= depth_) {
    ++counts_.lost;
    return;
  }
  ++counts_.early;
  try {
    kept_.push_back({packet.broadcast, std::vector<std::byte>(packet.data, packet.data + bytes)});
  } catch (const std::bad_alloc&) {
    ++counts_.lost;
  }
}

bool Multicast::take_kept(const Ticket& ticket, void* base, std::size_t fragment, std::size_t total,
                          std::uint32_t* sequence) noexcept {
  while (!kept_.empty()) {
    const auto mine = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.broadcast <= ticket.epoch;
    });
    if (mine == kept_.end()) return false;
    const std::vector<std::byte> bytes = std::move(mine->packet);
    kept_.erase(mine);
    MulticastPacket packet;
    if (!read_packet(bytes.data(), bytes.size(), team_.elided(), &packet)) continue;
    if (packet.broadcast < ticket.epoch) {
      ++counts_.stale;
    } else if (place(packet, base, fragment, total, sequence)) {
      return true;
    }
  }
  return false;
}

bool Multicast::take(const Ticket& ticket, void* base, std::size_t fragment, std::size_t total,
                     std::uint32_t* sequence) noexcept {
  if (!joined_.ok()) return false;
  if (take_kept(ticket, base, fragment, total, sequence)) return true;
  alignas(8) std::byte in[kLongest];
  while (const std::size_t bytes = datagrams_->receive(group_, in, sizeof in)) {
    MulticastPacket packet;
    if (!read_packet(in, bytes, team_.elided(), &packet)) {
      ++counts_.damaged;
    } else if (packet.broadcast < ticket.epoch) {
      ++counts_.stale;
    } else if (packet.broadcast > ticket.epoch) {
      keep(packet, bytes);
    } else if (place(packet, base, fragment, total, sequence)) {
      return true;
    }
  }
  return false;
}

}  // namespace tutti
