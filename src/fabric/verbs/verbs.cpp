// What goes to the device, and what it has completed.
#include "fabric/verbs/verbs.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fabric/verbs/limits.hpp"

namespace tutti::verbs {

Status VerbsNetwork::prepare_for_peers() noexcept {
  const std::size_t size = addresses_.size();
  peers_.resize(size);
  const auto wanted = static_cast<std::uint64_t>(size) * kSends + 2 * kReceives;
  const auto most = static_cast<std::uint64_t>(std::max(limits_.max_cqe, 1));
  if (queue_ != nullptr && wanted > static_cast<std::uint64_t>(queue_->cqe) &&
      ibv_resize_cq(queue_, static_cast<int>(std::min(wanted, most))) != 0) {
    return Status::error(Code::no_memory, "the device has no completion queue for so many peers");
  }
  return Status::success();
}

Status VerbsNetwork::register_for_peers(void* base, std::size_t bytes, Registration* region,
                                        NetworkMemory* out) noexcept {
  if (!registrar_.add_for_peers(base, bytes, on_demand_, region)) {
    return errno == ENOMEM || errno == EAGAIN
               ? no_registration()
               : Status::error(Code::not_permitted, "the device refuses to register memory");
  }
  out->address = reinterpret_cast<std::uint64_t>(base);
  out->key = static_cast<ibv_mr*>(region->region)->rkey;
  return Status::success();
}

QueuedNetwork::Posted VerbsNetwork::post(Operation& operation) noexcept {
  Peer& peer = peers_[static_cast<std::size_t>(operation.target.peer)];
  if (peer.link == Link::broken) {
    operation.status = Status::peer_lost(operation.target.peer, "the connection is broken");
    return Posted::failed;
  }
  if (peer.link != Link::ready) return Posted::blocked;
  if (const Posted data = post_data(peer, operation); data != Posted::all) return data;
  return operation.counts ? post_counter(peer, operation) : Posted::all;
}

QueuedNetwork::Posted VerbsNetwork::post_data(Peer& peer, Operation& operation) noexcept {
  const bool reads = operation.kind == Kind::get;
  const bool by_value = !reads && operation.bytes <= inline_bytes_;
  while (operation.posted < operation.bytes) {
    if (peer.taken == kSends) return Posted::no_room;
    if (!by_value) {
      if (const Posted found = find_memory(operation); found != Posted::all) return found;
    }
    const std::size_t part = std::min(operation.bytes - operation.posted, largest_part_);
    const std::byte* from = by_value ? operation.local : operation.memory.address;
    ibv_sge place{reinterpret_cast<std::uint64_t>(from) + operation.posted,
                  static_cast<std::uint32_t>(part),
                  static_cast<std::uint32_t>(operation.memory.token)};
    ibv_send_wr request{};
    request.sg_list = &place;
    request.num_sge = 1;
    request.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.send_flags = by_value ? IBV_SEND_INLINE : 0;
    request.wr.rdma.remote_addr = operation.target.address + operation.posted;
    request.wr.rdma.rkey = static_cast<std::uint32_t>(operation.target.key);
    if (!post_part(peer, operation, request)) return Posted::failed;
    operation.posted += part;
  }
  return Posted::all;
}

/// A counter, or a notice.
QueuedNetwork::Posted VerbsNetwork::post_counter(Peer& peer, Operation& operation) noexcept {
  if (peer.taken == kSends) return Posted::no_room;
  ibv_sge place{reinterpret_cast<std::uint64_t>(&operation.value), sizeof operation.value, 0};
  ibv_send_wr request{};
  const bool notice = operation.kind == Kind::notice;
  request.sg_list = notice ? nullptr : &place;
  request.num_sge = notice ? 0 : 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = (operation.event == Event::solicited ? IBV_SEND_SOLICITED : 0) |
                       (notice ? 0 : IBV_SEND_INLINE);
  request.imm_data =
      htonl(notice ? static_cast<std::uint32_t>(operation.value) : arrival_of(operation.event));
  request.wr.rdma.remote_addr = operation.counter.address;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(operation.counter.key);
  if (!post_part(peer, operation, request)) return Posted::failed;
  operation.counts = false;
  return Posted::all;
}

bool VerbsNetwork::post_part(Peer& peer, Operation& operation, ibv_send_wr& request) noexcept {
  request.wr_id = reinterpret_cast<std::uint64_t>(&operation);
  request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(peer.id->qp, &request, &bad) != 0) {
    operation.status = Status::peer_lost(operation.target.peer, "the device refuses the operation");
    return false;
  }
  ++peer.taken;
  ++operation.parts;
  return true;
}

/// The device has completed one work request, or given it up.
void VerbsNetwork::request_over(Operation& operation, bool good) noexcept {
  const std::int32_t peer = operation.target.peer;
  --peers_[static_cast<std::size_t>(peer)].taken;
  part_over(operation,
            good ? Status::success() : Status::peer_lost(peer, "the connection is broken"));
  if (!good) break_link(peer, "the connection is broken");
}

Moved VerbsNetwork::read_queue() noexcept {
  constexpr int kBatch = 16;
  Moved moved = Moved::nothing;
  for (;;) {
    ibv_wc entries[kBatch];
    const int count = ibv_poll_cq(queue_, kBatch, entries);
    if (count <= 0) return moved;
    int received = 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& entry = entries[i];
      const bool good = entry.status == IBV_WC_SUCCESS;
      if (entry.wr_id != kReceiveId) {
        add(Moved::something, &moved);
        request_over(*reinterpret_cast<Operation*>(entry.wr_id), good);
        continue;
      }
      ++received;
      const std::uint32_t word =
          good && (entry.wc_flags & IBV_WC_WITH_IMM) != 0 ? ntohl(entry.imm_data) : kArrival;
      const bool unsolicited = word == arrival_of(Event::unsolicited);
      add(unsolicited ? Moved::unsolicited : Moved::something, &moved);
      if ((word & (kArrival | kBell)) == 0) notices_.push_back(word);
    }
    if (!post_receives(receives_, received)) return moved;
  }
}

Moved VerbsNetwork::poll(bool surely) noexcept {
  Moved moved = std::exchange(unreported_, Moved::nothing);
  add(read_queue(), &moved);
  return handle_events(surely) ? Moved::something : moved;
}

bool VerbsNetwork::patient(std::int32_t, const Queue& queue, std::uint64_t now) noexcept {
  return now - queue.blocked_since_ns < timeout_ns_;
}

/// What arrives unsolicited takes receives and wakes nobody, so the device says when few are left:
/// reading the queue has put as many back. True when it has said so.
bool VerbsNetwork::refill() noexcept {
  ibv_async_event event{};
  bool few = false;
  while (selective_ && ibv_get_async_event(device_, &event) == 0) {
    few = few || event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
    ibv_ack_async_event(&event);
  }
  return few && tell_when_few();
}

bool VerbsNetwork::tell_when_few() noexcept {
  ibv_srq_attr attributes{};
  attributes.srq_limit = kFewReceives;
  return ibv_modify_srq(receives_, &attributes, IBV_SRQ_LIMIT) == 0;
}

/// Asks for an event first and looks then, so that nothing falls between. The end of an own
/// operation is no solicited event, but somebody waits for it.
int VerbsNetwork::arm(Attention attention) noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned count = 0;
  while (ibv_get_cq_event(channel_, &queue, &context) == 0) ++count;
  if (count != 0) ibv_ack_cq_events(queue_, count);
  const bool solicited_only = selective_ && attention == Attention::solicited && !needs_all();
  if (ibv_req_notify_cq(queue_, solicited_only ? 1 : 0) != 0) return -1;
  add(read_queue(), &unreported_);
  return unreported_ != Moved::nothing ? -1 : descriptor_;
}

}  // namespace tutti::verbs
