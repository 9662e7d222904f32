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

Multicast::Multicast(Team& team, int depth, CastTotals& totals) noexcept
    : team_(team),
      datagrams_(team.fabric().datagrams()),
      joined_(Status::error(Code::unsupported, "the fabric has no multicast")),
      depth_(static_cast<std::size_t>(depth)),
      watch_(totals) {
  if (datagrams_ == nullptr) return;
  joined_ = datagrams_->join(team.id(), depth, &group_);
  if (joined_.ok()) {
    arrivals_ = &datagrams_->arrivals(group_);
  } else {
    log(LogLevel::warn,
        "rank %d receives no multicast (%s): its neighbour sends it what is broadcast",
        team.job_rank(team.rank()), joined_.detail);
  }
}

Multicast::~Multicast() {
  if (!joined_.ok()) return;
  const auto foreign = static_cast<unsigned long long>(datagrams_->counts(group_).foreign);
  if (foreign != 0) {
    log(LogLevel::warn, "dropped %llu packets of others to a multicast group of this job", foreign);
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

bool Multicast::next_kept(const Ticket& ticket) noexcept {
  while (!kept_.empty()) {
    const auto mine = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.broadcast <= ticket.epoch;
    });
    if (mine == kept_.end()) return false;
    unkept_ = std::move(mine->packet);
    kept_.erase(mine);
    if (!read_packet(unkept_.data(), unkept_.size(), team_.elided(), &packet_)) continue;
    if (packet_.broadcast == ticket.epoch) return true;
    ++counts_.stale;
  }
  return false;
}

const MulticastPacket* Multicast::next(const Ticket& ticket) noexcept {
  if (!joined_.ok()) return nullptr;
  if (next_kept(ticket)) return &packet_;
  std::size_t bytes = 0;
  while (const std::byte* const in = datagrams_->view(group_, &bytes)) {
    if (!read_packet(in, bytes, team_.elided(), &packet_)) {
      ++counts_.damaged;
    } else if (packet_.broadcast < ticket.epoch) {
      ++counts_.stale;
    } else if (packet_.broadcast > ticket.epoch) {
      keep(packet_, bytes);
    } else {
      return &packet_;
    }
  }
  return nullptr;
}

bool Multicast::take(const Ticket& ticket, void* base, std::size_t fragment, std::size_t total,
                     std::uint32_t* sequence) noexcept {
  while (const MulticastPacket* const packet = next(ticket)) {
    if (place(*packet, base, fragment, total, sequence)) return true;
  }
  return false;
}

void Multicast::deepen(int depth) noexcept {
  if (!joined_.ok() || static_cast<std::size_t>(depth) <= depth_) return;
  depth_ = static_cast<std::size_t>(depth);
  datagrams_->deepen(group_, depth);
}

}  // namespace tutti
